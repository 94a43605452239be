package config

import (
	"slices"
	"time"
)

// Version is the only version of the format that there is.
const Version = 1

// LogFile is where a log goes: a word (off, stdout) or the path of a file.
type LogFile string

// Values of LogFile that are not paths.
const (
	AccessLogOff    LogFile = "off"
	AccessLogStdout LogFile = "stdout"
)

// IsWord reports whether f is not the path of a file.
func (f LogFile) IsWord() bool { return f == AccessLogOff || f == AccessLogStdout }

// Trace is the upstream that every tree has without naming it: it answers
// with the facts of the connection that asked.
const Trace = "trace"

// Tree is the whole configuration. After Load, Parse or Resolve it is
// complete and consistent, and is not changed any more: a reload makes another.
type Tree struct {
	// Version of the format; 1.
	Version int `yaml:"version" required:"true"`
	// AccessLog is `off`, `stdout`, or the path of a file that gets one JSON object a line.
	AccessLog LogFile `yaml:"access_log" default:"stdout"`
	// DataDir holds what the gateway keeps between runs, the local CA among it. Empty: the user's data folder.
	DataDir File `yaml:"data_dir"`
	// Log is the gateway's own log, on standard error.
	Log Log `yaml:"log"`
	// KMS is the store of keys and secrets. Left out: there is none.
	KMS *KMS `yaml:"kms" early:"true"`
	// TLS settings by name, for listeners and upstreams to refer to.
	TLS map[string]*TLS `yaml:"tls"`
	// Listeners are where clients arrive.
	Listeners []*Listener `yaml:"listeners" required:"true"`
	// Routes say what becomes of a request. The order in the file does not matter: see CompareRules.
	Routes []*Route `yaml:"routes"`
	// Upstreams by name, for routes to refer to.
	Upstreams map[string]*Upstream `yaml:"upstreams" early:"true"`
	// Admin is the operator's listener, apart from traffic. Left out: none.
	Admin *Admin `yaml:"admin"`
	// Limits on what strangers may take up, for every listener.
	Limits Limits `yaml:"limits" early:"true"`
	// Drain is how the gateway stops.
	Drain Drain `yaml:"drain"`

	// mounts are upstreams that the program has itself; see Mount.
	mounts []string
}

// Mount names upstreams that are handlers of the running program, for routes to
// refer to. A tree that was built in Go needs it before Resolve.
func (t *Tree) Mount(names ...string) { t.mounts = append(t.mounts, names...) }

// mounted tells whether the program itself is the upstream.
func (t *Tree) mounted(name string) bool { return name == Trace || slices.Contains(t.mounts, name) }

// Log is the gateway's own log.
type Log struct {
	// Level is the least level that is written.
	Level LogLevel `yaml:"level" default:"info"`
	// Format of a line: auto is text for a terminal, JSON for all else.
	Format LogFormat `yaml:"format" default:"auto"`
}

// Admin is the operator's listener: metrics, health, status, reload, drain.
type Admin struct {
	// Address is `unix:/path` or `host:port`. Who can reach it can stop the gateway.
	Address Address `yaml:"address" required:"true"`
}

// Drain is how the gateway stops after SIGTERM or `pqgw drain`.
type Drain struct {
	// Timeout is how long requests under way may take to finish before they are cut.
	Timeout time.Duration `yaml:"timeout" default:"30s"`
	// Delay is how long the gateway says that it is not ready before it stops accepting, for load balancers to notice.
	Delay time.Duration `yaml:"delay" default:"0s"`
}

// LimitsFor returns the limits in force on l: its own where it has some, else the tree's.
func (t *Tree) LimitsFor(l *Listener) Limits {
	if l.Limits != nil {
		return *l.Limits
	}
	return t.Limits
}

// TLSFor returns the TLS settings of l, nil where it serves in the clear.
func (t *Tree) TLSFor(l *Listener) *TLS {
	if l.TLS == "" {
		return nil
	}
	return t.TLS[l.TLS]
}

// UpstreamTLS returns the TLS settings towards u: those it names, those it
// has inline, or the defaults. Only endpoints whose scheme uses TLS heed them.
func (t *Tree) UpstreamTLS(u *Upstream) *TLS {
	if u.TLS.Settings != nil {
		return u.TLS.Settings
	}
	if named, ok := t.TLS[u.TLS.Name]; ok {
		return named
	}
	return Default[TLS]()
}

// TimeoutsFor returns the timeouts of a request that r sends to u: the
// route's own where it has some, else the upstream's.
func (t *Tree) TimeoutsFor(r *Route, u *Upstream) Timeouts {
	if r.Timeouts != nil {
		return *r.Timeouts
	}
	return u.Timeouts
}
