package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// stopGrace is how long a process has to end by itself once it was asked to.
const stopGrace = 5 * time.Second

// Process is a program of a bench with a CPU account of its own. It ends with
// [Process.Stop], and with this process however that ends.
type Process struct {
	cmd    *exec.Cmd
	stderr *tail
	ended  chan struct{} // closed once waited for
	err    error         // of Wait, valid when ended
	stop   sync.Once
}

// StartProcess runs cmd, pinned to a CPU where cpu is not negative. What it
// writes to stderr, unless cmd sends it elsewhere, is kept for errors.
func StartProcess(cmd *exec.Cmd, cpu int) (*Process, error) {
	p := &Process{cmd: cmd, stderr: new(tail), ended: make(chan struct{})}
	if cmd.Stderr == nil {
		cmd.Stderr = p.stderr
	}
	if err := startBound(cmd, cpu); err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	go func() { // ends with the process, which Stop sees to
		p.err = cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// PID of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// CPU is the time it has computed so far.
func (p *Process) CPU() (time.Duration, error) { return ProcessCPU(p.PID()) }

// Ended is closed when the process is gone.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Stderr is the end of what the process wrote there.
func (p *Process) Stderr() string { return p.stderr.String() }

// Stop asks the process to end and, if it does not, kills it. It returns once
// the process is gone.
func (p *Process) Stop() {
	p.stop.Do(func() {
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			_ = p.cmd.Process.Kill() // a system without that signal
		}
		late := time.NewTimer(stopGrace)
		defer late.Stop()
		select {
		case <-p.ended:
		case <-late.C:
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	})
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

// tailSize holds the message of a crash and its first goroutine.
const tailSize = 4 << 10

var _ io.Writer = (*tail)(nil)

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if extra := len(t.data) - tailSize; extra > 0 {
		t.data = append(t.data[:0], t.data[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.data))
}
