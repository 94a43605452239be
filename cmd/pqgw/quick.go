package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw"
	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/handshake"
)

// quick are the flags of the commands that run without a file: a listener, a
// route for all that comes, an upstream.
type quick struct {
	to                  []string
	dataDir, log, admin string
	print               bool
}

func (q *quick) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&q.dataDir, "data-dir", "", "folder for what is kept between runs (default: the user's data folder)")
	fl.StringVar(&q.log, "access-log", "stdout", "off, stdout, or a file")
	fl.StringVar(&q.admin, "admin", "", "address of the admin page, unix:/path or host:port (default: none)")
	fl.BoolVar(&q.print, "print-config", false, "print the configuration file that the flags amount to, and end")
}

// tree begins a configuration with one listener and one route to the upstream "service",
// or to the trace page where there is none.
func (q *quick) tree(l *config.Listener) (*config.Tree, error) {
	t := config.New()
	t.AccessLog, t.DataDir = config.LogFile(q.log), config.File(q.dataDir)
	t.Listeners = []*config.Listener{l}
	if q.admin != "" {
		a, err := config.ParseAddress(q.admin)
		if err != nil {
			return nil, fmt.Errorf("--admin: %w", err)
		}
		t.Admin = &config.Admin{Address: a}
	}
	route := config.Default[config.Route]()
	route.Name, route.To = "all", config.Trace
	t.Routes = []*config.Route{route}
	if len(q.to) == 0 {
		return t, nil
	}
	u := config.Default[config.Upstream]()
	for _, url := range q.to {
		e, err := config.ParseEndpoint(url)
		if err != nil {
			return nil, fmt.Errorf("--to: %w", err)
		}
		u.Endpoints = append(u.Endpoints, e)
	}
	t.Upstreams = map[string]*config.Upstream{"service": u}
	route.To = "service"
	return t, nil
}

// run serves the tree, or prints it.
func (q *quick) run(cmd *cobra.Command, t *config.Tree, started func(*pqgw.Server)) error {
	warnings, err := t.Resolve()
	if err != nil {
		return withCode(exitUsage, err)
	}
	if q.print {
		_, err := cmd.OutOrStdout().Write(config.Marshal(t))
		return err
	}
	return serve(cmd, func() (*pqgw.Loaded, error) { return &pqgw.Loaded{Tree: t, Warnings: warnings}, nil }, started)
}

// policyFlag checks the value of --pq.
func policyFlag(pq string) (config.PQ, error) {
	p := config.PQ(pq)
	if p == config.PQCNSA2 {
		_, err := handshake.ParsePQ(pq) // this build may not have it
		return p, withCode(exitUsage, err)
	}
	if p == config.PQRequire || p == config.PQPrefer {
		return p, nil
	}
	return "", withCode(exitUsage, fmt.Errorf("--pq is require or prefer, not %q", pq))
}
