// Package zaprpc forwards ZAP RPC envelopes on byte streams: the server's side
// of a connection, whose calls it sends on to upstreams by their method, and the
// client's side towards those.
//
// A client connection has one connection to each upstream that its calls
// go to, leased for it alone: so answers that it is slow to take hold up nobody
// else, and a call whose target is an earlier one meets it at the same peer. The
// caller's promise ids are its own; each upstream connection numbers the calls on it
// anew, going on from lease to lease.
package zaprpc

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/deadline"
	"github.com/hanzoai/pqgw/transports/stream"
	"github.com/hanzoai/pqgw/zapcodec"
)

// ALPN is the protocol id that we offer on TLS; public peers send none.
const ALPN = "zap/1"

// DefaultFrameBytes is the most bytes of one frame unless told otherwise.
const DefaultFrameBytes = 4 << 20

// readBytes is the size of a connection's read buffer, queueBytes how much may wait to be
// written before a sender waits, keptBytes the largest buffer that is kept for the next frame.
const (
	readBytes  = 16 << 10
	queueBytes = 256 << 10
	keptBytes  = 256 << 10
)

// MalformedError is a frame that is not what it should be. Promise is the call
// that it was, where that could be read.
type MalformedError struct {
	Promise uint32
	Known   bool // Promise was read: the call can be answered
	Err     error
}

func (e *MalformedError) Error() string { return fmt.Sprintf("malformed RPC frame: %v", e.Err) }

// Unwrap gives the fault.
func (e *MalformedError) Unwrap() error { return e.Err }

// port is what frames come by and leave by: a byte stream, or a QUIC connection.
type port interface {
	// read waits for a frame, which is valid until the next read.
	read(f *exchange.RPCFrame) error
	// send writes a frame; any number of goroutines may.
	send(f *exchange.RPCFrame) error
	// abandon tells the peer that nobody waits for a call; see exchange.RPCConn.
	abandon(promise uint32, open bool)
	// wake ends the waits of both.
	wake()
	// leave ends the wait of read, and lets what is being written go on.
	leave()
	// close ends it in order, cut at once.
	close()
	cut()
}

// wire reads and writes frames on one stream. One goroutine reads; any number
// write, sharing system calls.
type wire struct {
	conn  net.Conn // TLS or the socket
	s     *stream.Stream
	r     *bufio.Reader
	buf   []byte
	limit int

	watch    *deadline.Watch // of stalled, where patience is not 0
	stalled  deadline.Entry  // of the write that is under way
	patience time.Duration   // how long the peer may take nothing of it

	mu      sync.Mutex
	room    sync.Cond
	out     []byte // waits to be written
	spare   []byte
	writing bool
	err     error // sticky, of writing
}

func newWire(s *stream.Stream, limit int) *wire {
	w := &wire{s: s, conn: s.Sock, limit: limit}
	if s.TLS != nil {
		w.conn = s.TLS
	}
	if limit <= 0 {
		w.limit = DefaultFrameBytes
	}
	w.r = bufio.NewReaderSize(w.conn, readBytes)
	w.room.L = &w.mu
	return w
}

// read waits for a frame, which is valid until the next read. An envelope that is
// malformed inside a sound frame is a *MalformedError; what follows it can be
// read.
func (w *wire) read(f *exchange.RPCFrame) error {
	if cap(w.buf) > keptBytes {
		w.buf = nil
	}
	raw, err := zapcodec.FramingRPC.Read(w.r, w.buf, w.limit)
	if err != nil {
		return err
	}
	w.buf = raw.Bytes
	*f = exchange.RPCFrame{Kind: exchange.RPCKind(raw.Tag)}
	switch raw.Tag {
	case zapcodec.DirectionRequest, zapcodec.DirectionStreamOpen:
		var q zapcodec.RPCRequest
		if err := zapcodec.ParseRPCRequest(raw.Bytes, &q); err != nil {
			// The number lies in front of what can be wrong with the rest.
			known := q.Promise != 0 || q.Method != 0
			return &MalformedError{Promise: q.Promise, Known: known, Err: err}
		}
		f.Method, f.Promise, f.Target, f.Cap, f.Payload = q.Method, q.Promise, q.Target, q.Cap, q.Payload
	case zapcodec.DirectionResponse:
		var p zapcodec.RPCResponse
		if err := zapcodec.ParseRPCResponse(raw.Bytes, &p); err != nil {
			return &MalformedError{Err: err}
		}
		f.Promise, f.Status, f.Payload = p.Promise, p.Status, p.Body
	default:
		f.Promise, f.Payload, err = zapcodec.ParseStreamFrame(raw.Bytes)
		if err != nil {
			return &MalformedError{Err: err}
		}
	}
	return nil
}

// errKind: a frame of a kind that does not exist, a mistake of ours.
var errKind = errors.New("no such kind of RPC frame")

func appendFrame(out []byte, f *exchange.RPCFrame) ([]byte, error) {
	switch f.Kind {
	case exchange.RPCRequest, exchange.RPCOpen:
		q := zapcodec.RPCRequest{Method: f.Method, Promise: f.Promise, Target: f.Target, Cap: f.Cap, Payload: f.Payload}
		out, err := zapcodec.FramingRPC.AppendPrefix(out, byte(f.Kind), q.Size())
		if err != nil {
			return nil, err
		}
		return zapcodec.AppendRPCRequest(out, &q)
	case exchange.RPCResponse:
		p := zapcodec.RPCResponse{Status: f.Status, Promise: f.Promise, Body: f.Payload}
		out, err := zapcodec.FramingRPC.AppendPrefix(out, byte(f.Kind), p.Size())
		if err != nil {
			return nil, err
		}
		return zapcodec.AppendRPCResponse(out, &p)
	case exchange.RPCMessage, exchange.RPCEnd:
		return zapcodec.AppendStreamFrame(out, byte(f.Kind), f.Promise, f.Payload)
	}
	return nil, errKind
}

// send writes a frame. Frames of several senders leave together; a sender waits while
// much is waiting already.
func (w *wire) send(f *exchange.RPCFrame) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.out) > queueBytes && w.err == nil {
		w.room.Wait()
	}
	if w.err != nil {
		return w.err
	}
	out, err := appendFrame(w.out, f)
	if err != nil {
		return err
	}
	w.out = out
	if w.writing {
		return nil // who writes takes it along
	}
	w.writing = true
	for len(w.out) > 0 && w.err == nil {
		w.flush()
	}
	w.writing = false
	w.room.Broadcast()
	return w.err
}

// flush writes what waits; the lock is given up meanwhile.
func (w *wire) flush() {
	out := w.out
	w.out, w.spare = w.spare[:0], nil
	w.mu.Unlock()
	err := w.write(out)
	w.mu.Lock()
	if cap(out) <= 2*queueBytes {
		w.spare = out[:0]
	}
	if err != nil && w.err == nil {
		w.err = err
	}
	w.room.Broadcast()
}

// hurry bounds by d how long the peer may take nothing of what is written: then both
// directions end. It is called before all else; close and cut end it.
func (w *wire) hurry(watch *deadline.Watch, d time.Duration) {
	if d <= 0 {
		return
	}
	w.watch, w.patience = watch, d
	w.stalled = deadline.Entry{Expire: w.wake, FD: -1}
	watch.Add(&w.stalled)
}

func (w *wire) unhurry() {
	if w.patience > 0 {
		w.watch.Remove(&w.stalled)
	}
}

// write hands out over in pieces, so that a peer that is slow is not held to take all of it
// at once.
func (w *wire) write(out []byte) error {
	if w.patience <= 0 {
		_, err := w.s.Write(out)
		return err
	}
	var err error
	for len(out) > 0 && err == nil {
		w.watch.Set(&w.stalled, w.patience)
		var n int
		n, err = w.s.Write(out[:min(len(out), queueBytes)])
		out = out[n:]
	}
	w.watch.Set(&w.stalled, 0)
	return err
}

// abandon ends our half of a stream. The wire has no way to take a call back.
func (w *wire) abandon(promise uint32, open bool) {
	if open {
		_ = w.send(&exchange.RPCFrame{Kind: exchange.RPCEnd, Promise: promise})
	}
}

// wake ends the waits of reading and writing.
func (w *wire) wake() { _ = w.s.Sock.SetDeadline(time.Unix(1, 0)) }

func (w *wire) leave() { _ = w.s.Sock.SetReadDeadline(time.Unix(1, 0)) }

func (w *wire) close() {
	w.unhurry()
	_ = w.s.Close()
}

func (w *wire) cut() {
	w.unhurry()
	_ = w.s.Sock.Close()
}
