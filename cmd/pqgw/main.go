// Command pqgw moves HTTP and ZAP between machines over connections whose
// key exchange is post-quantum.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// Exit codes of every command.
const (
	exitOK       = 0 // done
	exitFailed   = 1 // failed at run time
	exitUsage    = 2 // the command line is wrong
	exitConfig   = 3 // the configuration is invalid
	exitBind     = 4 // cannot bind, or no permission
	exitNotMet   = 5 // a policy or limit was not met
	messageStart = "pqgw: "
)

// exitError carries the exit code that an error stands for.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// withCode marks err to end the process with the given exit code; nil stays nil.
func withCode(code int, err error) error {
	if err == nil {
		return nil
	}
	return &exitError{code: code, err: err}
}

// commands are the constructors of all top-level commands; each file of this
// package that defines one appends it in an init function.
var commands []func() *cobra.Command

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(stderr, messageStart+err.Error())
	var coded *exitError
	if errors.As(err, &coded) {
		return coded.code
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "pqgw",
		Short:         "A post-quantum gateway for HTTP and ZAP",
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return cmd.Help()
		},
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return withCode(exitUsage, fmt.Errorf("%w; see '%s --help'", err, cmd.CommandPath()))
	})
	for _, c := range commands {
		root.AddCommand(c())
	}
	usageErrors(root)
	return root
}

// usageErrors makes wrong arguments of any command end with exitUsage, as
// wrong flags do.
func usageErrors(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		check = cobra.ArbitraryArgs
		if cmd.HasSubCommands() || !cmd.Runnable() {
			check = cobra.NoArgs
		}
	}
	cmd.Args = func(c *cobra.Command, args []string) error {
		if err := check(c, args); err != nil {
			return withCode(exitUsage, fmt.Errorf("%w; see '%s --help'", err, c.CommandPath()))
		}
		return nil
	}
	for _, sub := range cmd.Commands() {
		usageErrors(sub)
	}
}
