//go:build linux

package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTheKernelsAccountOfAChildIsTheChildsOwn(t *testing.T) {
	s := session(t, Options{}, time.Second)
	c, err := s.SpawnOn(0, "test-spin", nil)
	if err != nil {
		t.Fatal(err)
	}
	before, err := c.CPU()
	if err != nil {
		t.Fatal(err)
	}
	began := s.machine()
	var own time.Duration
	if err := c.Call(t.Context(), "spin", 80*time.Millisecond, &own); err != nil {
		t.Fatal(err)
	}
	after, err := c.CPU()
	if err != nil {
		t.Fatal(err)
	}
	if got := after - before; got < own || got > own+20*time.Millisecond {
		t.Errorf("the kernel says %v, the child %v", got, own)
	}
	if ours := s.machine().ours - began.ours; ours < own {
		t.Errorf("%v of ours, and the child alone took %v", ours, own)
	}
	threads, err := threadsCPU(c.PID())
	if err != nil {
		t.Fatal(err)
	}
	if d := after - threads; d > 20*time.Millisecond || d < -20*time.Millisecond {
		t.Errorf("the process's clock says %v, its threads %v", after, threads)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(c.PID(), &set); err != nil {
		t.Fatal(err)
	}
	if set.Count() != 1 || !set.IsSet(0) {
		t.Errorf("the child may run on %d CPUs", set.Count())
	}
}

func TestWhatIsMeasuredHasGosDefaults(t *testing.T) {
	t.Setenv("GOGC", "400")
	t.Setenv("GOMEMLIMIT", "1GiB")
	s := session(t, Options{}, time.Second)
	for _, test := range []struct {
		env  []string
		want string
	}{{nil, "100 (default)"}, {[]string{"GOGC=50"}, "50"}} {
		c, err := s.SpawnOn(-1, "test-spin", nil, test.env...)
		if err != nil {
			t.Fatal(err)
		}
		var e Environment
		if err := c.Call(t.Context(), "environment", nil, &e); err != nil {
			t.Fatal(err)
		}
		if e.GOGC != test.want || e.GOMEMLIMIT != "none (default)" {
			t.Errorf("with %v: GOGC %s, GOMEMLIMIT %s", test.env, e.GOGC, e.GOMEMLIMIT)
		}
	}
}

func TestAChildTellsWhatWentWrong(t *testing.T) {
	s := session(t, Options{}, time.Second)
	c, err := s.Spawn("test-spin", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call(t.Context(), "fail", nil, nil); err == nil || !strings.Contains(err.Error(), "as told") {
		t.Errorf("fail: %v", err)
	}
	if err := c.Call(t.Context(), "unheard", nil, nil); err == nil || !strings.Contains(err.Error(), `knows no "unheard"`) {
		t.Errorf("unheard: %v", err)
	}
	if err := c.Call(t.Context(), "die", nil, nil); !errors.Is(err, errChildGone) {
		t.Errorf("die: %v", err)
	}
	if _, err := s.Spawn("nobody", nil); err == nil || !strings.Contains(err.Error(), `no role "nobody"`) {
		t.Errorf("nobody: %v", err)
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	s := session(t, Options{}, time.Second)
	c, err := s.Spawn("test-spin", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := c.Call(ctx, "spin", time.Hour, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestChildrenDieWithTheirParentHoweverItDies(t *testing.T) {
	s := session(t, Options{}, time.Second)
	parent, err := s.Spawn("test-parent", nil)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if err := parent.Call(t.Context(), "pid", nil, &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(parent.PID(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-parent.Ended()
	deadline := time.Now().Add(5 * time.Second)
	for alive(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlives its parent", pid)
		}
		time.Sleep(time.Millisecond)
	}
}

// alive is false for a process that is gone or has ended and waits to be
// collected.
func alive(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(data), ") Z ")
}

func TestAProgramsErrorsAreKept(t *testing.T) {
	p, err := StartProcess(exec.Command("sh", "-c", "echo no such thing >&2; exec sleep 100"), -1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	deadline := time.Now().Add(5 * time.Second)
	for p.Stderr() != "no such thing" {
		if time.Now().After(deadline) {
			t.Fatalf("stderr %q", p.Stderr())
		}
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	p.Stop()
	if took := time.Since(began); took > stopGrace/2 {
		t.Errorf("took %v to stop", took)
	}
}

func TestTheEnvironmentIsTold(t *testing.T) {
	e := ReadEnvironment()
	if e.CPU == "" || e.Kernel == "" || e.Memory == 0 || e.Governor == "" || e.Sysctl["net.ipv4.tcp_congestion_control"] == "" {
		t.Errorf("%+v", e)
	}
	for _, i := range e.Interfaces {
		if i.Name == "lo" && i.MTU > 0 && i.RxQueues > 0 && i.Qdisc != "" {
			return
		}
	}
	t.Errorf("no loopback with its queues and qdisc in %+v", e.Interfaces)
}
