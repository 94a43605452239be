package gateway

import (
	"errors"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/exchange/mount"
)

// mountResponder stands before the client's responder while a handler in this
// process answers: it applies the route's changes to the answer and notes what
// became of it.
type mountResponder struct {
	exchange.Responder
	f       *flow
	ops     *fieldOps
	aborted bool
}

func (m *mountResponder) note(h *exchange.Head) {
	m.f.status = h.Status
	m.f.plain(h)
	m.f.advertise(h)
	m.ops.apply(h)
}

// Respond implements exchange.Responder.
func (m *mountResponder) Respond(h *exchange.Head, body exchange.Source) error {
	m.note(h)
	return m.failed(m.Responder.Respond(h, body))
}

// Start implements exchange.Responder.
func (m *mountResponder) Start(h *exchange.Head, length int64) (exchange.Sink, error) {
	m.note(h)
	s, err := m.Responder.Start(h, length)
	return s, m.failed(err)
}

// Tunnel implements exchange.Responder.
func (m *mountResponder) Tunnel(h *exchange.Head) (exchange.Tunnel, error) {
	m.ops.apply(h)
	m.f.status = m.f.tunnelStatus()
	t, err := m.Responder.Tunnel(h)
	return t, m.failed(err)
}

// Abort implements exchange.Responder.
func (m *mountResponder) Abort(reason error) {
	m.aborted = true
	if m.f.reason == "" {
		m.f.reason, m.f.err = "handler_aborted", reason
		if m.f.x.Cancelled() != nil || isClientError(reason) {
			m.f.reason = reasonClientGone
		}
	}
	m.Responder.Abort(reason)
}

func (m *mountResponder) failed(err error) error {
	if err != nil && m.f.err == nil {
		m.f.reason, m.f.err = "handler_cut", err
		if m.f.x.Cancelled() != nil || isClientError(err) {
			m.f.reason = reasonClientGone
		}
	}
	return err
}

var errNoAnswer = errors.New("the handler returned without an answer")

// serveMount lets a handler in this process answer.
func (f *flow) serveMount(r *route) {
	if _, ok := r.mount.(mount.Bodiless); ok {
		if bad := f.x.Absorb(); bad != nil {
			f.refuse(bad)
			return
		}
	}
	client := f.x.Responder
	f.mount = mountResponder{Responder: client, f: f, ops: r.responseOps}
	f.x.Responder = &f.mount
	r.mount.Serve(f.x)
	f.x.Responder = client
	if !client.Started() && !f.mount.aborted {
		f.reason, f.err = "no_answer", errNoAnswer
		f.explain(500, "internal", "the service failed to answer")
	}
}
