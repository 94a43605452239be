// Package benchgateway is the gateway as a process of the bench: whoever
// imports it can play the role bench.GatewayRole. The command does, and so do
// tests of benches; the bench itself stands on a lower floor than the gateway
// and only starts the process.
package benchgateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"

	"github.com/hanzoai/pqgw"
	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/config"
)

func init() { bench.RegisterRole(bench.GatewayRole, open) }

// open starts a gateway by a configuration's text. Its log of warnings and
// errors goes to stderr, which the bench keeps.
func open(_ context.Context, settings json.RawMessage) (map[string]bench.Verb, func(), error) {
	var text string
	if err := json.Unmarshal(settings, &text); err != nil {
		return nil, nil, err
	}
	tree, warnings, err := config.Parse("bench.yaml", []byte(text), config.Options{})
	if err != nil {
		return nil, nil, err
	}
	if tree.AccessLog == config.AccessLogStdout {
		tree.AccessLog = config.AccessLogOff // stdout is where the bench is answered
	}
	s, err := pqgw.Start(pqgw.Options{
		Load:   func() (*pqgw.Loaded, error) { return &pqgw.Loaded{Tree: tree, Warnings: warnings}, nil },
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return nil, nil, err
	}
	addrs := func(context.Context, json.RawMessage) (any, error) {
		out := make(map[string]string)
		for name, a := range s.Addrs() {
			out[name] = a.String()
		}
		return out, nil
	}
	// Nothing of worth is under way when a bench ends: its process is stopped.
	return map[string]bench.Verb{"addrs": addrs, "memory": bench.MemoryVerb}, func() {}, nil
}
