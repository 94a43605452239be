package stream

import (
	"runtime"
	"syscall"
	"unsafe"
)

// haveRaw: the poller is edge-triggered and sockets are non-blocking, so a
// callback may read and write the descriptor itself.
const haveRaw = true

// rawRead and rawWrite skip the scheduler's bookkeeping (syscall.RawSyscall6), which a call that
// never waits does not need, and by recvfrom and sendto the kernel's work on behalf of files, which
// is some 2 % of a small exchange.
func rawRead(fd uintptr, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, _, e := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_DONTWAIT, 0, 0)
		if e == 0 {
			return int(n), nil
		}
		if e != syscall.EINTR {
			return 0, e
		}
	}
}

func rawWrite(fd uintptr, p []byte) (int, error) {
	for {
		n, _, e := syscall.RawSyscall6(syscall.SYS_SENDTO, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0, 0)
		if e == 0 {
			return int(n), nil
		}
		if e != syscall.EINTR {
			return 0, e
		}
	}
}

// vector is the argument of writev, kept so that it costs no allocation.
type vector struct{ iov [3]syscall.Iovec }

func (v *vector) write(fd uintptr, bufs ...[]byte) (int, error) {
	used := 0
	for _, b := range bufs {
		if len(b) > 0 {
			v.iov[used].Base = unsafe.SliceData(b)
			v.iov[used].SetLen(len(b))
			used++
		}
	}
	defer func() { v.iov = [3]syscall.Iovec{} }()
	if used == 0 {
		return 0, nil
	}
	for {
		n, _, e := syscall.RawSyscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&v.iov[0])), uintptr(used))
		runtime.KeepAlive(bufs)
		if e == 0 {
			return int(n), nil
		}
		if e != syscall.EINTR {
			return 0, e
		}
	}
}

func rawQuiet(fd uintptr) bool {
	var b [1]byte
	_, _, e := syscall.RawSyscall6(syscall.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(&b[0])), 1, syscall.MSG_PEEK|syscall.MSG_DONTWAIT, 0, 0)
	return e == syscall.EAGAIN
}
