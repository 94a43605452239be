package zaprpc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/zapcodec"
)

// quicPort carries each call and each stream on a QUIC stream of its own. A stream
// that was opened is refused by a reset whose code is the status, since all that
// comes on it are messages.
type quicPort struct {
	qc       *quic.Conn
	limit    int
	patience time.Duration // how long the peer may take nothing of what is written on a stream; 0 for ever
	frames   chan *exchange.RPCFrame
	stop     chan struct{} // closed by wake
	once     sync.Once
	wg       sync.WaitGroup

	mu      sync.Mutex
	streams map[uint32]*quicCall
	over    bool // no goroutine begins any more
	known   arrivals
}

// openTime bounds how long a frame may take to arrive that opens a stream.
const openTime = 10 * time.Second

func newQUICPort(qc *quic.Conn, limit int) *quicPort {
	if limit <= 0 {
		limit = DefaultFrameBytes
	}
	return &quicPort{qc: qc, limit: limit, frames: make(chan *exchange.RPCFrame), stop: make(chan struct{}), streams: map[uint32]*quicCall{}}
}

// NewQUICConn makes the server's side of a QUIC connection.
func NewQUICConn(qc *quic.Conn, info *exchange.Conn, o *Options) *Conn {
	p := newQUICPort(qc, o.FrameBytes)
	p.patience = o.WriteTimeout
	p.run(p.accept)
	return newConn(p, info, o)
}

// NewQUICClientConn makes the client's side of a QUIC connection; see
// NewClientConn.
func NewQUICClientConn(qc *quic.Conn, info *exchange.Conn, frameBytes int, release func(c *ClientConn, reusable bool)) *ClientConn {
	return newClientConn(newQUICPort(qc, frameBytes), info, release)
}

// read implements port.
func (p *quicPort) read(f *exchange.RPCFrame) error {
	select {
	case next := <-p.frames:
		*f = *next
		return nil
	case <-p.stop:
		return io.EOF
	case <-p.qc.Context().Done():
		var e *quic.ApplicationError
		if err := context.Cause(p.qc.Context()); !errors.As(err, &e) || e.ErrorCode != 0 {
			return err
		}
		return io.EOF
	}
}

// deliver gives a frame to read; false where nobody reads any more.
func (p *quicPort) deliver(f *exchange.RPCFrame) bool {
	select {
	case p.frames <- f:
		return true
	case <-p.stop:
	case <-p.qc.Context().Done():
	}
	return false
}

// run runs f in a goroutine that close waits for; not at all where it has been
// called.
func (p *quicPort) run(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over {
		p.wg.Go(f)
	}
}

func (p *quicPort) wake() { p.once.Do(func() { close(p.stop) }) }

func (p *quicPort) leave() { p.wake() }

func (p *quicPort) close() {
	p.cut()
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.wg.Wait()
}

func (p *quicPort) cut() { _ = p.qc.CloseWithError(0, "") }

// accept takes the streams that the client opens.
func (p *quicPort) accept() {
	for {
		s, err := p.qc.AcceptStream(context.Background())
		if err != nil {
			return
		}
		p.run(func() { p.serve(s) })
	}
}

// serve reads what comes on a stream that the client opened.
func (p *quicPort) serve(s *quic.Stream) {
	c := &quicCall{p: p, s: s, server: true}
	_ = s.SetReadDeadline(time.Now().Add(openTime))
	r := bufio.NewReader(s)
	frame, err := zapcodec.FramingRPCOpen.Read(r, nil, p.limit)
	var q zapcodec.RPCRequest
	if err == nil {
		err = zapcodec.ParseRPCRequest(frame.Bytes, &q)
	}
	c.promise, c.stream = q.Promise, frame.Tag == zapcodec.TagStream
	if err == nil && !p.add(c) {
		err = errors.New("a call with this promise is in flight")
	}
	if err != nil {
		c.reset(codeMalformed)
		s.ReleaseStreamCredit()
		return
	}
	_ = s.SetReadDeadline(time.Time{})
	f := &exchange.RPCFrame{Kind: exchange.RPCRequest, Method: q.Method, Promise: q.Promise, Target: q.Target, Cap: q.Cap, Payload: q.Payload}
	if c.stream {
		f.Kind = exchange.RPCOpen
	}
	if q.Target != 0 {
		p.await(q.Target)
	}
	if p.deliver(f) {
		p.arrived(q.Promise)
		if c.stream {
			c.messages(r)
		}
	}
	c.ended(true)
}

// add registers a call; false where its promise is in flight.
func (p *quicPort) add(c *quicCall) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams[c.promise] != nil {
		return false
	}
	p.streams[c.promise] = c
	return true
}

// send implements port.
func (p *quicPort) send(f *exchange.RPCFrame) error {
	if f.Kind == exchange.RPCRequest || f.Kind == exchange.RPCOpen {
		return p.open(f)
	}
	p.mu.Lock()
	c := p.streams[f.Promise]
	p.mu.Unlock()
	if c == nil {
		return nil // it was given up
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch f.Kind {
	case exchange.RPCResponse:
		return c.respond(f)
	case exchange.RPCMessage:
		return c.write(f.Payload)
	case exchange.RPCEnd:
		var err error
		if len(f.Payload) > 0 {
			err = c.write(f.Payload)
		}
		_ = c.s.Close()
		c.ended(false)
		return err
	}
	return errKind
}

// abandon resets the call's stream.
func (p *quicPort) abandon(promise uint32, _ bool) {
	p.mu.Lock()
	c := p.streams[promise]
	p.mu.Unlock()
	if c == nil {
		return
	}
	c.reset(codeNone)
	c.ended(false)
	c.ended(true)
}

// open makes a call on a stream of its own.
func (p *quicPort) open(f *exchange.RPCFrame) error {
	s, err := p.qc.OpenStreamSync(p.qc.Context())
	if err != nil {
		return err
	}
	c := &quicCall{p: p, s: s, promise: f.Promise, stream: f.Kind == exchange.RPCOpen}
	if !p.add(c) {
		c.reset(codeNone)
		return fmt.Errorf("promise %d is in flight", f.Promise)
	}
	q := zapcodec.RPCRequest{Method: f.Method, Promise: f.Promise, Target: f.Target, Cap: f.Cap, Payload: f.Payload}
	tag := byte(zapcodec.TagCall)
	if c.stream {
		tag = zapcodec.TagStream
	}
	out, err := zapcodec.FramingRPCOpen.AppendPrefix(nil, tag, q.Size())
	if err == nil {
		out, err = zapcodec.AppendRPCRequest(out, &q)
	}
	if err == nil {
		_, err = s.Write(out)
	}
	if err != nil {
		c.reset(codeNone)
		c.ended(true)
		c.ended(false)
		return err
	}
	if !c.stream {
		_ = s.Close()
		c.ended(false)
	}
	p.run(func() {
		if c.stream {
			c.messages(bufio.NewReader(s))
		} else {
			c.answer()
		}
		c.ended(true)
	})
	return nil
}
