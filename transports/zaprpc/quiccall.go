package zaprpc

import (
	"bufio"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/zapcodec"
)

// quicCall is a call or a stream on its QUIC stream.
type quicCall struct {
	p       *quicPort
	s       *quic.Stream
	promise uint32
	stream  bool
	server  bool

	mu            sync.Mutex // of writing
	read, written bool       // that direction has ended; under the port's lock
}

// Codes of our own for streams that end otherwise than by a status.
const (
	codeNone      quic.StreamErrorCode = 0
	codeMalformed quic.StreamErrorCode = zapcodec.RPCBadRequest
)

// ended notes the end of a direction, and forgets a call that has neither.
func (c *quicCall) ended(reading bool) {
	c.p.mu.Lock()
	if reading {
		c.read = true
	} else {
		c.written = true
	}
	over := c.read && c.written && c.p.streams[c.promise] == c
	if over {
		delete(c.p.streams, c.promise)
	}
	c.p.mu.Unlock()
	if !over {
		return
	}
	c.s.CancelRead(codeNone) // nothing more is expected but the end
	if c.server {
		c.s.ReleaseStreamCredit()
	}
}

func (c *quicCall) reset(code quic.StreamErrorCode) {
	c.s.CancelWrite(code)
	c.s.CancelRead(code)
}

// messages delivers what comes on a stream, and its end.
func (c *quicCall) messages(r *bufio.Reader) {
	for {
		frame, err := zapcodec.FramingRPCNext.Read(r, nil, c.p.limit)
		f := &exchange.RPCFrame{Kind: exchange.RPCMessage, Promise: c.promise, Payload: frame.Bytes}
		switch {
		case errors.Is(err, io.EOF):
			f.Kind = exchange.RPCEnd
		case err != nil && c.server:
			f.Kind = exchange.RPCEnd // given up, which the service has no other way to learn
		case err != nil:
			*f = exchange.RPCFrame{Kind: exchange.RPCResponse, Promise: c.promise, Status: statusOf(err)}
		}
		if !c.p.deliver(f) || err != nil {
			return
		}
	}
}

// statusOf is the status that a stream was refused with.
func statusOf(err error) uint32 {
	var e *quic.StreamError
	if errors.As(err, &e) && e.Remote {
		switch e.ErrorCode {
		case zapcodec.RPCBadRequest, zapcodec.RPCUnauthorized, zapcodec.RPCForbidden, zapcodec.RPCNotFound:
			return uint32(e.ErrorCode)
		}
	}
	return zapcodec.RPCError
}

// answer delivers the reply to a call.
func (c *quicCall) answer() {
	frame, err := zapcodec.FramingRPCNext.Read(bufio.NewReader(c.s), nil, c.p.limit)
	var r zapcodec.RPCResponse
	if err == nil {
		err = zapcodec.ParseRPCResponse(frame.Bytes, &r)
	}
	f := &exchange.RPCFrame{Kind: exchange.RPCResponse, Promise: c.promise, Status: r.Status, Payload: r.Body}
	if err != nil {
		f.Status, f.Payload = statusOf(err), nil
		c.s.CancelRead(codeNone)
	}
	c.p.deliver(f)
}

// respond answers a call, or refuses a stream.
func (c *quicCall) respond(f *exchange.RPCFrame) error {
	if c.stream {
		if f.Status == zapcodec.RPCOK {
			return nil
		}
		c.reset(quic.StreamErrorCode(f.Status))
		c.ended(false)
		return nil
	}
	r := zapcodec.RPCResponse{Status: f.Status, Promise: f.Promise, Body: f.Payload}
	out, err := zapcodec.FramingRPCNext.AppendPrefix(nil, 0, r.Size())
	if err == nil {
		out, err = zapcodec.AppendRPCResponse(out, &r)
	}
	if err == nil {
		err = c.put(out)
	}
	_ = c.s.Close()
	c.ended(false)
	return c.lost(err)
}

func (c *quicCall) write(payload []byte) error {
	out, err := zapcodec.FramingRPCNext.AppendPrefix(make([]byte, 0, len(payload)+8), 0, len(payload))
	if err == nil {
		err = c.put(append(out, payload...))
	}
	return c.lost(err)
}

// put writes out in pieces. A peer that takes nothing of one in time has given the stream up.
func (c *quicCall) put(out []byte) error {
	var err error
	for len(out) > 0 && err == nil {
		if c.p.patience > 0 {
			_ = c.s.SetWriteDeadline(time.Now().Add(c.p.patience))
		}
		var n int
		n, err = c.s.Write(out[:min(len(out), queueBytes)])
		out = out[n:]
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.reset(codeNone)
		c.ended(false)
	}
	return err
}

// lost tells an error of the connection from one of a stream, which ends that alone.
func (c *quicCall) lost(err error) error {
	if err == nil || c.p.qc.Context().Err() == nil {
		return nil
	}
	return err
}
