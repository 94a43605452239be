package http2

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/exchange"
)

func TestCallersThatGiveUpLeaveNothingBehind(t *testing.T) {
	origin := serve(t, &Options{StreamWindow: 20_000, MaxResets: 1 << 20, Handler: handlerFunc(func(x *exchange.Exchange) {
		x.Response.Status = 200
		if x.Body == nil {
			text(x, 200, strings.Repeat("y", 50_000))
			return
		}
		_ = x.Responder.Respond(&x.Response, x.Body)
	})})
	c := dial(t, origin.addr, &ClientOptions{StreamWindow: 20_000, ConnWindow: 70_000})
	s := serve(t, &Options{StreamWindow: 20_000, ConnWindow: 100_000, MaxResets: 1 << 20, Handler: relay(t, c)})
	tr := transport(t)
	get(t, tr, "http://"+s.addr+"/")
	var wg sync.WaitGroup
	for g := range 20 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(1, uint64(g)))
			for range 40 {
				giveUp(t, tr, "http://"+s.addr, rnd)
			}
		})
	}
	wg.Wait()
	eventually(t, "no stream is left", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		n := c.conn.open()
		for _, c := range s.all {
			n += c.conn.open()
		}
		return n == 0
	})
	// What was given up must not have kept any of the windows.
	sent := strings.Repeat("z", 300_000)
	req, _ := http.NewRequest(http.MethodPost, "http://"+s.addr+"/", strings.NewReader(sent))
	if a := do(t, tr, req); a.body != sent {
		t.Errorf("%d bytes came back", len(a.body))
	}
}

// giveUp begins a request and, most often, breaks it off somewhere.
func giveUp(t *testing.T, tr http.RoundTripper, url string, rnd *rand.Rand) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	size := rnd.IntN(100_000)
	sent := strings.Repeat(fmt.Sprint(size), size/3+1)
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(sent))
	patient := rnd.IntN(4) == 0
	if !patient {
		timer := time.AfterFunc(time.Duration(rnd.IntN(3000))*time.Microsecond, cancel)
		defer timer.Stop()
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		if patient {
			t.Error(err)
		}
		return
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && string(b) != sent || err != nil && patient {
		t.Errorf("%d of %d bytes, %v", len(b), len(sent), err)
	}
}

func TestWhatComesAfterTheLastGoAwayIsIgnored(t *testing.T) {
	release := make(chan struct{})
	p := fakeClient(t, &Options{MaxRequests: 1, Handler: handlerFunc(func(x *exchange.Exchange) {
		<-release
		text(x, 200, "served")
	})})
	p.head(1, true, requestFields...)
	ping := p.await(framePing)
	p.write(appendPing(nil, flagAck, ping.payload))
	p.next("the last GOAWAY", func(f frame) bool { return f.typ == frameGoAway && be32(f.payload) == 1 })
	p.head(3, false, requestFields...)
	p.write(appendData(nil, 3, []byte("too late"), false))
	p.head(3, true, "x-trailer", "too late")
	p.write(appendWindowUpdate(nil, 3, 1))
	p.write(appendPing(nil, 0, healthPing))
	p.next("PING's answer", func(f frame) bool { return f.typ == framePing })
	close(release)
	f := p.next("the answer", func(f frame) bool {
		if f.typ == frameReset || f.stream == 3 {
			t.Errorf("frame of type %d on stream %d", f.typ, f.stream)
		}
		return f.typ == frameData
	})
	if string(f.payload) != "served" {
		t.Errorf("%q", f.payload)
	}
}
