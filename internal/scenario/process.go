package scenario

import (
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

// Process is a child of the test whose output is captured. It is killed at the
// end of the test if it still runs, and its output is shown if the test failed.
type Process struct {
	// Stdout and Stderr are what it has printed.
	Stdout, Stderr Lines

	cmd  *exec.Cmd
	done chan struct{} // closed once it has exited and err is set
	err  error
}

// StartProcess starts cmd, whose output must not be set. One goroutine waits
// for it and ends with it.
func StartProcess(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	p := &Process{cmd: cmd, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.Stdout, &p.Stderr
	// A grandchild that kept the pipes open must not keep the test.
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %v: %v", cmd.Args, err)
	}
	go func() {
		p.err = cmd.Wait()
		p.Stdout.end()
		p.Stderr.end()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%v printed\non stdout:\n%s\non stderr:\n%s", cmd.Args, p.Stdout.String(), p.Stderr.String())
		}
	})
	return p
}

// kill ends it if it still runs, and waits for its end.
func (p *Process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Signal sends it a signal.
func (p *Process) Signal(t testing.TB, sig os.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("send %v to %v: %v", sig, p.cmd.Args, err)
	}
}

// PID is its process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when it has ended.
func (p *Process) Exited() <-chan struct{} { return p.done }

// ExitCode awaits its end and gives its exit code, -1 for the death by a signal.
func (p *Process) ExitCode(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(Patience):
		t.Fatalf("%v still runs after %v", p.cmd.Args, Patience)
	}
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		t.Fatalf("%v: %v", p.cmd.Args, p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}
