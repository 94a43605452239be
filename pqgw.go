// Package pqgw is the gateway as a library: a configuration made into
// listeners, certificates, routes and an admin page that run until they are
// drained. The command pqgw is this and flags; a program of one's own can mount its
// handlers behind its own edge by it.
package pqgw

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/gateway"
	"github.com/hanzoai/pqgw/handshake/acme"
	"github.com/hanzoai/pqgw/telemetry"
	"github.com/hanzoai/pqgw/transports"
	"github.com/hanzoai/pqgw/transports/deadline"
)

// Loaded is a configuration and where it came from.
type Loaded struct {
	Tree     *config.Tree
	Warnings config.Warnings
	Path     string // "" where it was made of flags
	Hash     string // SHA-256 of the file, in hexadecimal
}

// Options say what to run.
type Options struct {
	// Load gives the configuration, at the start and at every reload. Required.
	Load func() (*Loaded, error)
	// Mounts are upstreams in this process by the names that routes use.
	Mounts map[string]exchange.Handler
	// Taken is told of each configuration that Load gave and that is in force from then
	// on, at the start and at every reload. Nil is not told.
	Taken func(*Loaded)
	// Logger is the gateway's own log. Nil discards.
	Logger *slog.Logger
	// Stores are the key stores that Load has opened already, and that stay the
	// caller's to close. Nil makes some of the server's own.
	Stores *Stores
	// Build tells status and metrics what runs.
	Build telemetry.Build
}

// Server is a running gateway.
type Server struct {
	o       Options
	logger  *slog.Logger
	metrics *telemetry.Metrics
	watch   *deadline.Watch
	early   *transports.EarlyGuard
	gateway *gateway.Gateway
	started time.Time
	ready   atomic.Bool
	state   atomic.Pointer[state]
	stores  *Stores
	keeper  *keeper
	solvers atomic.Pointer[[]*acme.Source]

	mu        sync.Mutex // of reloads and drain
	log       *telemetry.AccessLog
	logTarget config.LogFile
	admin     *telemetry.AdminServer
	adminAt   config.Address
	lastError atomic.Pointer[string]
	version   int
	building  *sources // of the configuration that is being put in force
	drainOnce sync.Once
	drained   chan struct{}
	ending    chan struct{} // closed when the drain begins
	drainErr  error
	retiring  sync.WaitGroup // what a reload took away
}

// state is what one configuration came to; it is replaced as a whole.
type state struct {
	loaded    *Loaded
	at        time.Time
	version   int
	listeners map[listenerKey]*running
	sources   *sources
	rings     *rings
	roots     [][]byte // for session tickets, as last put in force
}

// listenerKey tells which listeners of two configurations are the same socket.
type listenerKey struct{ name, address string }

// running is a listener and the settings it got.
type running struct {
	*transports.Listener
	config   *config.Listener
	settings transports.Settings
}

// ErrConfig: the configuration is well formed but cannot be put in force.
var ErrConfig = errors.New("configuration")

// Start loads the configuration and serves it. Errors are *config.Problems where
// it is invalid, *transports.BindError where an address cannot be had.
func Start(o Options) (*Server, error) {
	s := &Server{o: o, logger: o.Logger, started: time.Now(), drained: make(chan struct{}), ending: make(chan struct{})}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	if s.stores = o.Stores; s.stores == nil {
		s.stores = &Stores{Logger: s.logger}
	}
	s.metrics = telemetry.NewMetrics(o.Build)
	s.watch = deadline.New()
	s.early = transports.NewEarlyGuard()
	s.keeper = newKeeper(s)
	if err := s.start(); err != nil {
		s.abandon()
		return nil, err
	}
	s.ready.Store(true)
	return s, nil
}

func (s *Server) start() error {
	loaded, err := s.o.Load()
	if err != nil {
		return err
	}
	t := loaded.Tree
	if err := s.openLog(t); err != nil {
		return err
	}
	st, err := s.build(loaded, nil)
	if err != nil {
		return err
	}
	s.state.Store(st)
	s.stores.hold(t.KMS)
	s.gateway, err = gateway.New(t, gateway.Options{
		Dial: s.dialer(), DialRPC: s.dialRPC, Mounts: s.o.Mounts, Metrics: s.metrics, AccessLog: s.log,
		Challenge: s.keyAuthorization,
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if s.admin, err = s.serveAdmin(t); err != nil {
		return err
	}
	s.adminAt, s.version = adminAddress(t), st.version
	for _, l := range st.listeners {
		l.Serve()
	}
	s.startACME(st)
	s.announce(st)
	s.keeper.start()
	return nil
}

// abandon takes back what a start that failed has done.
func (s *Server) abandon() {
	defer s.closeStores()
	if st := s.state.Load(); st != nil {
		for _, l := range st.listeners {
			l.Close()
		}
		st.sources.close()
	}
	if s.admin != nil {
		_ = s.admin.Close(context.Background())
	}
	if s.gateway != nil {
		_ = s.gateway.Close(context.Background())
	}
	_ = s.log.Close()
	s.watch.Close()
}

// closeStores closes the stores that are the server's own.
func (s *Server) closeStores() {
	if s.o.Stores == nil {
		_ = s.stores.Close()
	}
}

func (s *Server) openLog(t *config.Tree) error {
	l, err := telemetry.OpenAccessLog(string(t.AccessLog), s.logger)
	if err != nil {
		return fmt.Errorf("access log: %w", err)
	}
	s.log, s.logTarget = l, t.AccessLog
	s.metrics.SetAccessLog(l)
	return nil
}

// adminAddress is the zero Address where there is no admin page.
func adminAddress(t *config.Tree) config.Address {
	if t.Admin == nil {
		return config.Address{}
	}
	return t.Admin.Address
}

// serveAdmin opens the admin page of a configuration, nil where it has none.
func (s *Server) serveAdmin(t *config.Tree) (*telemetry.AdminServer, error) {
	if t.Admin == nil {
		return nil, nil //nolint:nilnil // none is no fault
	}
	a := &telemetry.Admin{
		Metrics: s.metrics.Handler(),
		Status:  s.Status,
		PQ:      s.metrics.PQReport,
		Reload:  s.Reload,
		Drain:   func() { go s.Drain() },
		Ready:   s.ready.Load,
	}
	srv, err := telemetry.ServeAdmin(t.Admin.Address.String(), a, s.logger)
	if err != nil {
		return nil, &transports.BindError{Listener: "admin", Address: t.Admin.Address.String(), Err: err}
	}
	return srv, nil
}

// ReopenLogs opens the access log's file anew, after it was moved away.
func (s *Server) ReopenLogs() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.log.Reopen(); err != nil {
		s.logger.Error("access log cannot be reopened; the old file goes on", "error", err)
	}
}

// Addrs are the addresses that the listeners have bound, by name.
func (s *Server) Addrs() map[string]net.Addr {
	addrs := map[string]net.Addr{}
	for key, l := range s.state.Load().listeners {
		addrs[key.name] = l.Addr()
	}
	return addrs
}

// Done is closed when the gateway has ended.
func (s *Server) Done() <-chan struct{} { return s.drained }

// ErrCut: exchanges that were under way at the end of the drain's time were cut.
var ErrCut = errors.New("exchanges still under way were cut")

// Drain ends the gateway in good order: it says that it is not ready, stops
// accepting, lets what runs end until drain.timeout, and cuts the rest, which is
// ErrCut. A second call waits for the first.
func (s *Server) Drain() error {
	s.drainOnce.Do(func() {
		s.drainErr = s.drain()
		close(s.drained)
	})
	<-s.drained
	return s.drainErr
}

func (s *Server) drain() error {
	s.ready.Store(false)
	close(s.ending)
	s.keeper.stop() // it may hold mu while it waits for another writer of the store
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.state.Load()
	d := st.loaded.Tree.Drain
	s.logger.Info("draining", "timeout", d.Timeout, "delay", d.Delay)
	time.Sleep(d.Delay)
	ctx, cancel := context.WithTimeoutCause(context.Background(), d.Timeout, ErrCut)
	defer cancel()
	err := drainListeners(ctx, st.listeners)
	s.retiring.Wait()
	if e := s.gateway.Close(ctx); err == nil {
		err = e
	}
	s.keeper.close()
	st.sources.close()
	s.closeStores()
	if s.admin != nil {
		_ = s.admin.Close(ctx)
	}
	if e := s.log.Close(); err == nil {
		err = e
	}
	s.watch.Close()
	s.logger.Info("drained")
	return err
}

func drainListeners(ctx context.Context, listeners map[listenerKey]*running) error {
	var wg sync.WaitGroup
	var cut atomic.Pointer[error]
	for _, l := range listeners {
		wg.Go(func() {
			if err := l.Drain(ctx); err != nil {
				cut.Store(&err)
			}
		})
	}
	wg.Wait()
	if err := cut.Load(); err != nil {
		return *err
	}
	return nil
}
