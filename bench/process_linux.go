package bench

import (
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// startBound starts cmd so that it dies with this process, pinned to a CPU if
// cpu is not negative. The thread that forks is pinned for that moment: a Go
// program counts the CPUs it may use before anything could pin it.
func startBound(cmd *exec.Cmd, cpu int) error {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	if cpu < 0 {
		return cmd.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, only unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	only.Set(cpu)
	if err := unix.SchedSetaffinity(0, &only); err != nil {
		return err
	}
	err := cmd.Start()
	if e := unix.SchedSetaffinity(0, &before); err == nil {
		err = e
	}
	return err
}
