package link

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// allowed tells early, and once, what else each command would.
func allowed() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: namespaces and shaping need root (try sudo)", ErrPermission)
	}
	for _, name := range []string{"ip", "tc"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w (it is in the package iproute2)", err)
		}
	}
	return nil
}

func ip(ctx context.Context, args ...string) error {
	_, err := output(ctx, "ip", args...)
	return err
}

func tc(ctx context.Context, args ...string) error {
	_, err := output(ctx, "tc", args...)
	return err
}

// output runs a command; its error says what was run and what it answered.
func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err == nil {
		return string(out), nil
	}
	var exit *exec.ExitError
	said := ""
	if errors.As(err, &exit) {
		said = ": " + strings.TrimSpace(string(exit.Stderr))
	}
	err = fmt.Errorf("%s %s: %w%s", name, strings.Join(args, " "), err, said)
	if strings.Contains(said, "Operation not permitted") || strings.Contains(said, "Permission denied") {
		err = fmt.Errorf("%w: %w", ErrPermission, err)
	}
	return "", err
}
