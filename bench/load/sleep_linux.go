package load

import (
	"time"

	"golang.org/x/sys/unix"
)

// sleepUntil sleeps in the kernel: the runtime's timers are only good to a
// millisecond where nothing else runs, and what they are late by would count as the
// server's time.
func sleepUntil(at time.Time) {
	for left := time.Until(at); left > 0; left = time.Until(at) {
		t := unix.NsecToTimespec(int64(left))
		_ = unix.Nanosleep(&t, nil)
	}
}
