package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessCPU is the time that a process has computed, user and system, in
// nanoseconds as the scheduler accounts it. Threads that have ended count.
// Any process may be asked about.
func ProcessCPU(pid int) (time.Duration, error) {
	// The clock of another process, as clock_getcpuclockid(3) composes it:
	// the pid's complement and CPUCLOCK_SCHED.
	const clockSched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|clockSched), &ts); err != nil {
		return threadsCPU(pid)
	}
	return time.Duration(ts.Nano()), nil
}

// threadsCPU sums what /proc says of the threads that are alive.
func threadsCPU(pid int) (time.Duration, error) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	var sum time.Duration
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := strings.Cut(string(data), " ")
		n, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("CPU of process %d: %w", pid, err)
		}
		sum += time.Duration(n)
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("CPU of process %d: no such process", pid)
	}
	return sum, nil
}

// ownCPU is the time that this process and its ended children have computed.
func ownCPU() time.Duration {
	var sum time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var u unix.Rusage
		if unix.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

// loadAverage is the load of the last minute; false where unknown.
func loadAverage() (float64, bool) {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(data), " ")
	load, err := strconv.ParseFloat(first, 64)
	return load, err == nil
}

// readMachine reads the first line of /proc/stat: cpu user nice system idle
// iowait irq softirq steal guest guest_nice, in ticks.
func readMachine() (m machine) {
	m.at = time.Now()
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return m
	}
	line, _, _ := strings.Cut(string(data), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 {
		return m
	}
	ticks := func(i int) time.Duration {
		n, _ := strconv.ParseInt(fields[i], 10, 64)
		return time.Duration(n) * tick
	}
	m.busy = ticks(1) + ticks(2) + ticks(3)
	m.steal = ticks(8)
	m.known = true
	return m
}

// OwnCPU is the time that this process has computed so far.
func OwnCPU() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("own CPU: %w", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}
