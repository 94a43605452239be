package handshakes

import (
	"context"
	"crypto/tls"
	"errors"
	"sync"
)

// session is a cache of one session that tells when a ticket has come.
type session struct {
	mu    sync.Mutex
	state *tls.ClientSessionState
	came  chan struct{}
}

// Get is the newest session.
func (s *session) Get(string) (*tls.ClientSessionState, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.state != nil
}

// Put keeps a session.
func (s *session) Put(_ string, state *tls.ClientSessionState) {
	if state == nil {
		return
	}
	s.mu.Lock()
	s.state = state
	s.mu.Unlock()
	select {
	case s.came <- struct{}{}:
	default:
	}
}

// await returns when a ticket has come since it last did; at once on nil.
func (s *session) await(ctx context.Context) error {
	if s == nil {
		return nil
	}
	select {
	case <-s.came:
		return nil
	case <-ctx.Done():
		return errors.New("no ticket came")
	}
}

// there reports whether there is a session to resume.
func (s *session) there() bool {
	_, ok := s.Get("")
	return ok
}
