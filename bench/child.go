package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// ChildCommand is the hidden subcommand of bench that a child process is
// started with; the name of its role follows.
const ChildCommand = "internal-child"

// maxMessage bounds a line between parent and child: lists of a million
// observations fit.
const maxMessage = 64 << 20

// Verb is something a child does when told; args is what the parent sent.
type Verb func(ctx context.Context, args json.RawMessage) (any, error)

// Role is what a child process is there for: open reads the settings that the
// parent sent first and returns what it can be told to do, and how to end it.
// The context ends with the process's stdin.
type Role func(ctx context.Context, settings json.RawMessage) (verbs map[string]Verb, end func(), err error)

var roles = make(map[string]Role)

// RegisterRole names a role; packages call it in an init function.
func RegisterRole(name string, r Role) { roles[name] = r }

type childAsks struct {
	Verb string          `json:"verb"`
	Args json.RawMessage `json:"args"`
}

type childSays struct {
	Error  string          `json:"error,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// ServeChild is the life of a child process: it reads its settings and then
// verbs from in, one JSON value on a line, and answers each on out, until in
// ends.
func ServeChild(ctx context.Context, role string, in io.Reader, out io.Writer) error {
	open := roles[role]
	if open == nil {
		return fmt.Errorf("no role %q", role)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxMessage)
	if !lines.Scan() {
		return errors.New("no settings on stdin: this command is for the bench's own processes")
	}
	verbs, end, err := open(ctx, bytes.Clone(lines.Bytes()))
	if err != nil {
		return say(out, nil, err)
	}
	defer end()
	if err := say(out, struct{}{}, nil); err != nil {
		return err
	}
	for lines.Scan() {
		var asks childAsks
		if err := json.Unmarshal(lines.Bytes(), &asks); err != nil {
			return err
		}
		verb := verbs[asks.Verb]
		if verb == nil {
			err = say(out, nil, fmt.Errorf("role %s knows no %q", role, asks.Verb))
		} else {
			result, e := verb(ctx, asks.Args)
			err = say(out, result, e)
		}
		if err != nil {
			return err
		}
	}
	return lines.Err()
}

func say(out io.Writer, result any, failed error) error {
	var s childSays
	if failed != nil {
		s.Error = failed.Error()
	} else {
		data, err := json.Marshal(result)
		if err != nil {
			return err
		}
		s.Result = data
	}
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = out.Write(append(data, '\n'))
	return err
}

// RunChild serves a role and exits if this process was started as a child.
// Test binaries, which have no commands, call it in TestMain.
func RunChild() {
	if len(os.Args) != 4 || os.Args[1] != "bench" || os.Args[2] != ChildCommand {
		return
	}
	if err := ServeChild(context.Background(), os.Args[3], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Child is a process of ours that plays a role. Its calls are made one at a
// time.
type Child struct {
	*Process
	role string
	mu   sync.Mutex
	in   io.WriteCloser
	out  *bufio.Scanner
}

// measured is the environment of what is measured: Go's memory knobs, which
// may be set for this process, are at their defaults there unless a bench says
// otherwise for an arm.
func measured(environ []string) []string {
	return slices.DeleteFunc(environ, func(v string) bool {
		return strings.HasPrefix(v, "GOGC=") || strings.HasPrefix(v, "GOMEMLIMIT=")
	})
}

// startChild runs this binary again in a role.
func startChild(role string, settings any, cpu int, env []string) (*Child, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("role %s: %w", role, err)
	}
	cmd := exec.Command(exe, "bench", ChildCommand, role)
	cmd.Env = append(measured(os.Environ()), env...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("role %s: %w", role, err)
	}
	// A pipe of our own: Wait would close cmd's under the reader.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("role %s: %w", role, err)
	}
	cmd.Stdout = w
	p, err := StartProcess(cmd, cpu)
	_ = w.Close()
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	c := &Child{Process: p, role: role, in: in, out: bufio.NewScanner(r)}
	c.out.Buffer(nil, maxMessage)
	go func() { // ends with the process
		<-p.Ended()
		c.mu.Lock()
		defer c.mu.Unlock()
		_ = r.Close()
	}()
	if err := c.exchange(settings, nil); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

// Call tells the child to do something and waits for the answer, which it
// stores in result unless that is nil. When ctx ends first the child is
// stopped.
func (c *Child) Call(ctx context.Context, verb string, args, result any) error {
	data, err := json.Marshal(args)
	if err != nil {
		return fmt.Errorf("role %s, %s: %w", c.role, verb, err)
	}
	stop := context.AfterFunc(ctx, c.Stop)
	defer stop()
	if err := c.exchange(childAsks{Verb: verb, Args: data}, result); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

// Stop ends the child: its stdin ends, and that asks it to.
func (c *Child) Stop() {
	_ = c.in.Close()
	c.Process.Stop()
}

func (c *Child) exchange(ask, result any) error {
	data, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, err := c.in.Write(append(data, '\n')); err != nil {
		return c.gone(err)
	}
	if !c.out.Scan() {
		return c.gone(c.out.Err())
	}
	var s childSays
	if err := json.Unmarshal(c.out.Bytes(), &s); err != nil {
		return fmt.Errorf("role %s: %w", c.role, err)
	}
	switch {
	case s.Error != "":
		return fmt.Errorf("role %s: %s", c.role, s.Error)
	case result == nil:
		return nil
	}
	return json.Unmarshal(s.Result, result)
}

// gone tells what the process has said last. It is ending, but what it wrote may
// not be here yet.
func (c *Child) gone(err error) error {
	late := time.NewTimer(stopGrace)
	defer late.Stop()
	select {
	case <-c.Ended():
	case <-late.C:
	}
	return fmt.Errorf("role %s: the process is gone (%w): %s", c.role, errors.Join(errChildGone, err), c.Stderr())
}

var errChildGone = errors.New("no answer")
