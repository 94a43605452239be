package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw"
	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/telemetry"
	"github.com/hanzoai/pqgw/transports"
)

func init() { commands = append(commands, newRun) }

func newRun() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "run -c FILE",
		Short: "Run the gateway by a configuration file",
		Long: `Run the gateway by a configuration file.

SIGTERM and SIGINT drain it and end it; SIGHUP loads the file again, and keeps
the old configuration when the new one is bad; SIGUSR1 opens the access log anew.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file == "" {
				return withCode(exitUsage, errors.New("run needs -c FILE"))
			}
			return serve(cmd, func() (*pqgw.Loaded, error) { return loadFile(file) }, nil)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "configuration file (required)")
	return cmd
}

// loadFile reads a configuration file and remembers what it was.
func loadFile(file string) (*pqgw.Loaded, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, withCode(exitConfig, err)
	}
	tree, warnings, err := config.Parse(file, b, loadOptions())
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	return &pqgw.Loaded{Tree: tree, Warnings: warnings, Path: file, Hash: hex.EncodeToString(sum[:])}, nil
}

// serve runs the gateway until it is told to end. started is called once it serves.
func serve(cmd *cobra.Command, load func() (*pqgw.Loaded, error), started func(*pqgw.Server)) error {
	// The configuration says how to log, and reading it may open stores.
	reading, err := telemetry.NewLogger(cmd.ErrOrStderr(), "warn", "auto")
	if err != nil {
		return err
	}
	stores.Logger = reading.Logger
	defer stores.Close()
	logger, err := loggerOf(cmd.ErrOrStderr(), load)
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1)
	defer signal.Stop(signals)
	s, err := pqgw.Start(pqgw.Options{
		Load: load, Logger: logger.Logger, Stores: &stores,
		Taken: func(l *pqgw.Loaded) {
			_ = logger.Set(string(l.Tree.Log.Level), string(l.Tree.Log.Format)) // words that were checked
		},
		Build: telemetry.Build{Version: buildVersion(), Go: runtime.Version()},
	})
	if err != nil {
		return startError(err)
	}
	if started != nil {
		started(s)
	}
	return wait(cmd.Context(), s, signals)
}

// wait acts on signals until the gateway has ended.
func wait(ctx context.Context, s *pqgw.Server, signals <-chan os.Signal) error {
	for {
		select {
		case <-s.Done():
			return ended(s.Drain())
		case <-ctx.Done():
			return ended(s.Drain())
		case sig := <-signals:
			switch sig {
			case syscall.SIGHUP:
				_ = s.Reload(ctx) // the server logs it, and goes on as it was
			case syscall.SIGUSR1:
				s.ReopenLogs()
			default:
				go func() { _ = s.Drain() }()
			}
		}
	}
}

// ended: what was cut at the end of the drain's time was cut as configured, which
// is no failure.
func ended(err error) error {
	if errors.Is(err, pqgw.ErrCut) {
		return nil
	}
	return err
}

// startError gives an error of the start its exit code.
func startError(err error) error {
	var problems *config.Problems
	var bind *transports.BindError
	var coded *exitError
	switch {
	case errors.As(err, &coded):
		return err
	case errors.As(err, &problems), errors.Is(err, pqgw.ErrConfig):
		return withCode(exitConfig, err)
	case errors.As(err, &bind), errors.Is(err, os.ErrPermission):
		return withCode(exitBind, err)
	}
	return withCode(exitConfig, err)
}

// loggerOf makes the log that the configuration asks for; where that cannot be
// read the start will say so.
func loggerOf(w io.Writer, load func() (*pqgw.Loaded, error)) (*telemetry.Logger, error) {
	log := config.New().Log
	if l, err := load(); err == nil {
		log = l.Tree.Log
	}
	return telemetry.NewLogger(w, string(log.Level), string(log.Format))
}
