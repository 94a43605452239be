//go:build !linux

package stream

import "syscall"

// haveRaw: only Linux's poller is known to suit.
const haveRaw = false

func rawRead(uintptr, []byte) (int, error) { return 0, syscall.ENOSYS }

func rawWrite(uintptr, []byte) (int, error) { return 0, syscall.ENOSYS }

type vector struct{}

func (*vector) write(uintptr, ...[]byte) (int, error) { return 0, syscall.ENOSYS }

func rawQuiet(uintptr) bool { return true }
