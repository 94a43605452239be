//go:build unix

package transports

import (
	"net"

	"golang.org/x/sys/unix"
)

// socketBuffers are the sizes of the socket's buffers as the system tells them.
func socketBuffers(udp *net.UDPConn) (receive, send int, ok bool) {
	raw, err := udp.SyscallConn()
	if err != nil {
		return 0, 0, false
	}
	err = raw.Control(func(fd uintptr) {
		var e1, e2 error
		receive, e1 = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF)
		send, e2 = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF)
		ok = e1 == nil && e2 == nil
	})
	return receive, send, ok && err == nil
}
