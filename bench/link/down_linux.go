package link

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// grace is how long processes in a lab have to end when it goes down.
const grace = 3 * time.Second

// Down ends the processes that run in the namespaces of a lab, whole or the
// remains of one, and takes the namespaces away. An empty name means all labs.
// It returns the namespaces it has found.
func Down(ctx context.Context, name string) ([]string, error) {
	if err := allowed(); err != nil {
		return nil, err
	}
	found, err := namespaces(ctx, name)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, ns := range found {
		if err := empty(ctx, ns); err != nil {
			failed = append(failed, err)
		}
	}
	for _, ns := range found {
		if err := ip(ctx, "netns", "del", ns); err != nil {
			failed = append(failed, err)
		}
	}
	return found, errors.Join(failed...)
}

// empty ends every process of a namespace: a namespace lives as long as one
// is in it, whatever its name has become.
func empty(ctx context.Context, ns string) error {
	deadline := time.Now().Add(grace)
	for signal := syscall.SIGTERM; ; {
		pids, err := processes(ctx, ns)
		if err != nil || len(pids) == 0 {
			return err
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("end process %d in %s: %w", pid, ns, err)
			}
		}
		if time.Now().After(deadline) {
			if signal == syscall.SIGKILL {
				return fmt.Errorf("processes %v in %s do not end", pids, ns)
			}
			signal, deadline = syscall.SIGKILL, time.Now().Add(grace)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func processes(ctx context.Context, ns string) ([]int, error) {
	out, err := output(ctx, "ip", "netns", "pids", ns)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, f := range strings.Fields(out) {
		if pid, err := strconv.Atoi(f); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// namespaces are those of a lab by their names, or of all labs.
func namespaces(ctx context.Context, name string) ([]string, error) {
	out, err := output(ctx, "ip", "netns", "list")
	if err != nil {
		return nil, err
	}
	var found []string
	for line := range strings.Lines(out) {
		ns, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if lab, ok := labOf(ns); ok && (name == "" || lab == name) {
			found = append(found, ns)
		}
	}
	slices.Sort(found)
	return found, nil
}

// labOf is the name of the lab that a namespace belongs to.
func labOf(ns string) (lab string, ok bool) {
	rest, ok := strings.CutPrefix(ns, Prefix)
	if !ok {
		return "", false
	}
	lab, host, ok := strings.Cut(rest, "-")
	return lab, ok && names.MatchString(lab) && (host == Load || host == Gateway || host == Origin)
}
