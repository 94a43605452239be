package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespaceDir is where ip(8) binds namespaces to names.
const namespaceDir = "/run/netns"

// Enter runs f on a thread that is in a network namespace. Sockets that f
// opens, and processes that it starts, belong to the namespace; goroutines
// that it starts do not.
func Enter(ns string, f func() error) error {
	runtime.LockOSThread()
	before, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("the namespace of this thread: %w", err)
	}
	defer func() { _ = unix.Close(before) }()
	if err := enter(ns); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = f()
	if e := unix.Setns(before, unix.CLONE_NEWNET); e != nil {
		// The thread stays locked, so that it ends with this goroutine and nobody
		// else finds himself in the namespace.
		return errors.Join(err, fmt.Errorf("leave namespace %s: %w", ns, e))
	}
	runtime.UnlockOSThread()
	return err
}

func enter(ns string) error {
	fd, err := unix.Open(filepath.Join(namespaceDir, ns), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("namespace %s: %w", ns, err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", ns, err)
	}
	return nil
}

// Do runs f on a thread that is in a host of the lab, see [Enter].
func (l *Lab) Do(host string, f func() error) error { return Enter(l.Namespace(host), f) }

// Dial connects over TCP from a host.
func (l *Lab) Dial(ctx context.Context, host, address string) (c net.Conn, err error) {
	err = l.Do(host, func() error {
		var d net.Dialer
		c, err = d.DialContext(ctx, "tcp4", address)
		return err
	})
	return c, err
}

// Listen listens on TCP on a host.
func (l *Lab) Listen(host, address string) (n net.Listener, err error) {
	err = l.Do(host, func() error {
		n, err = net.Listen("tcp4", address)
		return err
	})
	return n, err
}
