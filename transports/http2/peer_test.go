package http2

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/hanzoai/pqgw/exchange"
)

// peer is the other end of a connection, driven frame by frame. What comes is
// read in the background, so that neither end waits for the other.
type peer struct {
	t  testing.TB
	nc net.Conn

	mu     sync.Mutex
	came   []frame
	seen   int
	err    error
	change *sync.Cond
}

type frame struct {
	frameHeader
	payload []byte
}

func newPeer(t testing.TB, nc net.Conn, skip int) *peer {
	p := &peer{t: t, nc: nc}
	p.change = sync.NewCond(&p.mu)
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.read(skip)
	}()
	t.Cleanup(func() {
		nc.Close()
		<-done
	})
	return p
}

func (p *peer) read(skip int) {
	if _, err := io.ReadFull(p.nc, make([]byte, skip)); err != nil {
		p.end(err)
		return
	}
	for {
		var h [frameHeaderLen]byte
		if _, err := io.ReadFull(p.nc, h[:]); err != nil {
			p.end(err)
			return
		}
		f := frame{frameHeader: parseFrameHeader(h[:])}
		f.payload = make([]byte, f.length)
		if _, err := io.ReadFull(p.nc, f.payload); err != nil {
			p.end(err)
			return
		}
		p.mu.Lock()
		p.came = append(p.came, f)
		p.change.Broadcast()
		p.mu.Unlock()
	}
}

func (p *peer) end(err error) {
	p.mu.Lock()
	p.err = err
	p.change.Broadcast()
	p.mu.Unlock()
}

func (p *peer) write(b []byte) { _, _ = p.nc.Write(b) }

// head writes HEADERS, in CONTINUATION frames where they are long.
func (p *peer) head(id uint32, end bool, fields ...string) {
	var c conn
	p.write(c.appendHead(nil, id, func(b []byte) []byte { return append(b, block(fields...)...) }, end))
}

// block encodes names and values.
func block(fields ...string) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	enc.SetMaxDynamicTableSize(0)
	for i := 0; i < len(fields); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.Bytes()
}

// next gives the next frame that ok accepts, at most five seconds later.
func (p *peer) next(what string, ok func(f frame) bool) frame {
	p.t.Helper()
	timer := time.AfterFunc(5*time.Second, func() { p.end(errTimedOut) })
	defer timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for ; p.seen < len(p.came); p.seen++ {
			if ok(p.came[p.seen]) {
				p.seen++
				return p.came[p.seen-1]
			}
		}
		if p.err != nil {
			p.t.Errorf("no %s: %v", what, p.err)
			runtime.Goexit() // whichever goroutine of the test this is
		}
		p.change.Wait()
	}
}

var errTimedOut = io.ErrNoProgress

func (p *peer) await(typ frameType) frame {
	p.t.Helper()
	return p.next("frame of type "+string('0'+rune(typ)), func(f frame) bool { return f.typ == typ && (typ != frameSettings || !f.has(flagAck)) })
}

// awaitGoAway gives the code of the GOAWAY, and sees that the connection ends.
func (p *peer) awaitGoAway() ErrCode {
	p.t.Helper()
	f := p.await(frameGoAway)
	if len(f.payload) < goAwayLen {
		return noReset
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil {
		p.change.Wait()
	}
	return ErrCode(be32(f.payload[4:]))
}

// fakeUpstream gives a connection of ours to a peer that has sent its SETTINGS.
func fakeUpstream(t testing.TB, o *ClientOptions) (*peer, *ClientConn) {
	t.Helper()
	if o == nil {
		o = &ClientOptions{}
	}
	o.Limits = clientLimits
	ours, theirs := tcpPair(t)
	c := NewClientConn(ours, &exchange.Conn{Protocol: exchange.HTTP2}, o)
	t.Cleanup(c.Close)
	p := newPeer(t, theirs, len(preface))
	p.write(appendFrameHeader(nil, 0, frameSettings, 0, 0))
	return p, c
}

// fakeClient gives a peer that has begun a connection to a server of ours.
func fakeClient(t testing.TB, o *Options) *peer {
	t.Helper()
	s := serve(t, o)
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	p := newPeer(t, nc, 0)
	p.write(appendFrameHeader([]byte(preface), 0, frameSettings, 0, 0))
	return p
}

func tcpPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

func dialRaw(t testing.TB, addr string) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return nc
}
