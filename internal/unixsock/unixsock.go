// Package unixsock listens on unix sockets the way a service should: never
// reachable by more users than was asked for, not even for a moment; taking
// the place of a socket that a dead process left, never of one that is served.
package unixsock

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ErrInUse is wrapped by Listen's error when another process serves the socket.
var ErrInUse = errors.New("another process is serving this socket")

// probeTimeout is how long Listen asks a socket whether anybody serves it; a
// queue that is full for so long means that somebody does.
const probeTimeout = time.Second

// Listen listens on the socket at path, which gets the given mode. Missing
// folders are made with mode 0755. A dead socket in its place is replaced; a
// live one, or a file that is no socket, is an error. Closing the listener
// removes the socket if it is still the one that was made.
func Listen(path string, mode fs.FileMode) (net.Listener, error) {
	if path == "" || path[0] == '@' || path[0] == 0 {
		return nil, fmt.Errorf("listen on unix socket %q: a path in the file system is needed, abstract sockets have no mode", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("listen on unix socket: %w", err)
	}
	if err := free(path); err != nil {
		return nil, fmt.Errorf("listen on unix socket %s: %w", path, err)
	}
	l, err := bind(path, mode)
	if err != nil {
		return nil, fmt.Errorf("listen on unix socket %s: %w", path, err)
	}
	return l, nil
}

// free returns nil when a socket may be put at path.
func free(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return errors.New("there is a file of this name that is no socket; remove it or choose another path")
	}
	c, err := net.DialTimeout("unix", path, probeTimeout)
	if err == nil {
		_ = c.Close() // said nothing on it
		return ErrInUse
	}
	if isRefused(err) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("cannot tell whether it is in use: %w", err)
}

// bind makes the socket under another name and moves it into place once it
// has its mode: nobody can connect in between.
func bind(path string, mode fs.FileMode) (net.Listener, error) {
	temp := filepath.Join(filepath.Dir(path), ".pq"+strconv.Itoa(os.Getpid())+strconv.FormatInt(time.Now().UnixNano()%1e6, 36))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temp, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false)
	info, err := settle(temp, path, mode)
	if err != nil {
		_ = l.Close()       // the error to tell is err
		_ = os.Remove(temp) // may be gone
		return nil, err
	}
	return &listener{UnixListener: l, path: path, info: info}, nil
}

func settle(temp, path string, mode fs.FileMode) (fs.FileInfo, error) {
	if err := os.Chmod(temp, mode); err != nil {
		return nil, err
	}
	info, err := os.Lstat(temp)
	if err != nil {
		return nil, err
	}
	return info, os.Rename(temp, path)
}

// listener removes its socket when it closes, and shows its final path.
type listener struct {
	*net.UnixListener
	path   string
	info   fs.FileInfo
	remove sync.Once
}

// Addr is the path that clients dial.
func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close ends listening and removes the socket, unless a successor has put
// its own in its place.
func (l *listener) Close() error {
	l.remove.Do(func() {
		if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.info) {
			_ = os.Remove(l.path) // a dead socket is replaced at the next start
		}
	})
	return l.UnixListener.Close()
}

// isRefused says whether a dial failed because nobody listens.
func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
