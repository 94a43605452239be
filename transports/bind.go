package transports

import (
	"context"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/hanzoai/pqgw/internal/unixsock"
)

// keepAlive asks after a silent TCP peer; the kernel's default of two hours
// keeps the dead too long. Set on the listening socket, which the accepted ones
// inherit: no system call per connection.
const keepAlive = 60 * time.Second

// socketMode lets the processes of our own group in: who may reach the service is the
// folder's to say.
const socketMode = 0o660

func bind(address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return unixsock.Listen(path, socketMode)
	}
	lc := net.ListenConfig{
		KeepAliveConfig: net.KeepAliveConfig{Enable: false},
		KeepAlive:       -1,
		Control: func(_, _ string, c syscall.RawConn) error {
			var err error
			if e := c.Control(func(fd uintptr) { err = setKeepAlive(int(fd)) }); e != nil {
				return e
			}
			return err
		},
	}
	return lc.Listen(context.Background(), "tcp", address)
}
