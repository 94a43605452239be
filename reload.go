package pqgw

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/handshake/remotesign"
	"github.com/hanzoai/pqgw/telemetry"
)

// ErrDraining: the gateway ends and takes no other configuration.
var ErrDraining = errors.New("draining")

// Reload loads the configuration again and puts it in force for connections
// and exchanges to come; what runs keeps the one it began with. On an error the
// old one stays, whole.
func (s *Server) Reload(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready.Load() {
		return ErrDraining
	}
	err := s.reload()
	s.metrics.ConfigLoaded(err, time.Now())
	s.lastError.Store(nil)
	if err != nil {
		s.stores.refuse()
		text := err.Error()
		s.lastError.Store(&text)
		s.logger.Error("the new configuration was refused; the old one stays", "error", err)
	}
	return err
}

func (s *Server) reload() error {
	loaded, err := s.o.Load()
	if err != nil {
		return err
	}
	old := s.state.Load()
	st, err := s.build(loaded, old)
	if err != nil {
		return err
	}
	undo := func() {
		for key, l := range st.listeners {
			if old.listeners[key] == nil {
				l.Close()
			}
		}
		st.sources.closeBut(old.sources)
	}
	log, err := s.nextLog(loaded.Tree)
	if err != nil {
		undo()
		return err
	}
	admin, err := s.nextAdmin(loaded.Tree)
	if err == nil {
		if err = s.gateway.Swap(loaded.Tree); err != nil && admin != s.admin && admin != nil {
			_ = admin.Close(context.Background())
		}
	}
	if err != nil {
		undo()
		if log != s.log {
			_ = log.Close()
		}
		return err
	}
	s.version = st.version
	s.moveAdmin(loaded.Tree, admin)
	s.moveLog(loaded.Tree, log)
	s.enforce(old, st)
	s.announce(st)
	return nil
}

// enforce lets the listeners of both configurations go on with the new settings, starts the
// new ones and drains those that are gone.
func (s *Server) enforce(old, st *state) {
	for key, l := range st.listeners {
		l.SetAccessLog(s.log)
		if old.listeners[key] != nil {
			l.Update(l.settings)
		} else {
			l.Serve()
		}
	}
	s.state.Store(st)
	timeout := st.loaded.Tree.Drain.Timeout
	for key, l := range old.listeners {
		if st.listeners[key] != nil {
			continue
		}
		s.retiring.Go(func() {
			ctx, cancel := context.WithTimeoutCause(context.Background(), timeout, ErrCut)
			defer cancel()
			if err := l.Drain(ctx); err != nil {
				s.logger.Warn("listener taken away", "listener", key.name, "error", err)
			}
		})
	}
	s.startACME(st)
	s.leaveSources(old, st)
	s.stores.hold(st.loaded.Tree.KMS)
	s.leaveStore(old.loaded.Tree, st.loaded.Tree)
}

// leaveStore gives back the store of a configuration that is not in force any more. Handshakes that
// began under it may still sign by it, as long as they, and listeners that it alone had, can last.
func (s *Server) leaveStore(old, next *config.Tree) {
	if storeKeyOf(old.KMS) == storeKeyOf(next.KMS) {
		s.stores.release(old.KMS)
		return
	}
	s.retiring.Go(func() {
		if s.outlast(old) { // else the end closes all of them
			s.stores.release(old.KMS)
		}
	})
}

// leaveSources closes the sources that only the old configuration has; those that have their
// keys signed elsewhere once no handshake can ask for a signature any more.
func (s *Server) leaveSources(old, next *state) {
	stay := &sources{by: maps.Clone(next.sources.by), identities: next.sources.identities}
	var asking []handshake.Source
	for src, made := range old.sources.by {
		if _, ok := src.(*remotesign.Source); ok && stay.by[src] == nil {
			asking, stay.by[src] = append(asking, src), made
		}
	}
	old.sources.closeBut(stay)
	if len(asking) == 0 {
		return
	}
	s.retiring.Go(func() {
		s.outlast(old.loaded.Tree)
		for _, src := range asking {
			_ = src.Close()
		}
	})
}

// outlast waits for as long as handshakes that began under a configuration, and listeners that
// it alone had, can last. It reports false where the drain begins before.
func (s *Server) outlast(old *config.Tree) bool {
	patience := old.Drain.Timeout
	for _, l := range old.Listeners {
		patience = max(patience, old.LimitsFor(l).HandshakeTimeout)
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ending:
		return false
	}
}

// nextAdmin opens the admin page of another configuration beside the one that is open, or gives
// that one where it stays.
func (s *Server) nextAdmin(t *config.Tree) (*telemetry.AdminServer, error) {
	if adminAddress(t) == s.adminAt {
		return s.admin, nil
	}
	return s.serveAdmin(t)
}

// moveAdmin lets another admin page take over.
func (s *Server) moveAdmin(t *config.Tree, next *telemetry.AdminServer) {
	old := s.admin
	s.admin, s.adminAt = next, adminAddress(t)
	if old == nil || old == next {
		return
	}
	// The call that asked for the reload may be one of its own.
	s.retiring.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = old.Close(ctx)
	})
}

// nextLog opens the access log of another configuration, or gives the one that is open
// where it stays.
func (s *Server) nextLog(t *config.Tree) (*telemetry.AccessLog, error) {
	if t.AccessLog == s.logTarget {
		return s.log, nil
	}
	l, err := telemetry.OpenAccessLog(string(t.AccessLog), s.logger)
	if err != nil {
		return nil, fmt.Errorf("access log: %w", err)
	}
	return l, nil
}

// moveLog lets what ends from now on be written to another log.
func (s *Server) moveLog(t *config.Tree, l *telemetry.AccessLog) {
	if t.AccessLog == s.logTarget {
		return
	}
	old := s.log
	s.log, s.logTarget = l, t.AccessLog
	s.metrics.SetAccessLog(l)
	s.gateway.SetAccessLog(l)
	// Exchanges under way may still hold the old log; it drops what comes after its end.
	s.retiring.Go(func() { _ = old.Close() })
}
