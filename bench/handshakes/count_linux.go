package handshakes

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// segments asks the kernel how many TCP segments a connection has sent and
// received so far, those of its own handshake and bare acknowledgements among
// them.
func segments(c net.Conn) (up, down uint32, err error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return 0, 0, errors.New("not a socket")
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, 0, err
	}
	var info *unix.TCPInfo
	if e := raw.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }); e != nil {
		return 0, 0, e
	}
	if err != nil {
		return 0, 0, err
	}
	return info.Segs_out, info.Segs_in, nil
}
