package kms

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// The test binary runs itself again as another process: with KMS_TEST_TASK it
// does that task, and with KMS_TEST_KILL kills itself, as by kill -9, at that
// step.
const (
	taskEnv = "KMS_TEST_TASK"
	killEnv = "KMS_TEST_KILL"
)

func TestMain(m *testing.M) {
	if task := os.Getenv(taskEnv); task != "" {
		os.Exit(child(task))
	}
	goleak.VerifyTestMain(m)
}

func child(task string) int {
	if at, err := strconv.Atoi(os.Getenv(killEnv)); err == nil {
		step = func(string) {
			if at--; at == 0 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
	}
	if err := tasks[task](os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
