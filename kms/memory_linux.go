package kms

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapProtected maps at least n bytes that stay out of core dumps and, where
// RLIMIT_MEMLOCK allows, out of swap. Where nothing can be mapped it falls
// back to the heap: a secret that may be swapped is better than no service.
func mapProtected(n int) []byte {
	page := os.Getpagesize()
	size := (n + page - 1) / page * page
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return make([]byte, n, size)
	}
	_ = unix.Mlock(b)
	_ = unix.Madvise(b, unix.MADV_DONTDUMP)
	_ = unix.Madvise(b, unix.MADV_DONTFORK)
	return b
}

// unmapProtected gives a mapping back; memory of the heap fallback is not a
// mapping, which Munmap refuses, and the collector's to free.
func unmapProtected(b []byte) { _ = unix.Munmap(b) }

// Harden keeps the process from being dumped or traced by others of the same
// user: no core files, no /proc/PID/mem. Keys that Go's crypto packages have
// parsed lie on the ordinary heap, which nothing else protects.
func Harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fail("harden", "", err, "")
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fail("harden", "", err, "")
	}
	return nil
}
