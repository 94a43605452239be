//go:build !linux

package bench

import (
	"errors"
	"time"
)

// ProcessCPU is the time that a process has computed. This system has no way
// to ask for it.
func ProcessCPU(int) (time.Duration, error) {
	return 0, errors.New("the CPU of another process is read on Linux only")
}

func ownCPU() time.Duration        { return 0 }
func loadAverage() (float64, bool) { return 0, false }
func readMachine() machine         { return machine{at: time.Now()} }

// OwnCPU is the time that this process has computed so far, which is not
// asked for on this system.
func OwnCPU() (time.Duration, error) { return 0, errors.New("CPU is read on Linux only") }
