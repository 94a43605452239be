//go:build unix

package compare

import (
	"os/exec"
	"syscall"
)

// enter makes cmd run with root as its /.
func enter(cmd *exec.Cmd, root string) { cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root} }
