package scenario

// Promise: whatever clients and services do to their connections, an answer
// reaches the one who asked, whole, or visibly not at all: never another's bytes, never a
// part that passes for the whole.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// moody is a service that answers with what it was sent, in many ways, and
// sometimes breaks off.
func moody(w http.ResponseWriter, r *http.Request) {
	rng := rand.New(rand.NewPCG(seed(r.Header.Get("X-Seed")), 1))
	if rng.IntN(10) == 0 { // early: the body is not read
		w.Header().Set("X-Early", "1")
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, r.Header.Get("X-Seed"))
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	sum := sha256.Sum256(body)
	w.Header().Set("X-Sum", hex.EncodeToString(sum[:]))
	if rng.IntN(2) == 0 {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	if rng.IntN(12) == 0 {
		panic(http.ErrAbortHandler) // before the answer
	}
	cut := -1
	if rng.IntN(12) == 0 && len(body) > 1 {
		cut = rng.IntN(len(body))
	}
	for off := 0; off < len(body); {
		n := min(len(body)-off, 1+rng.IntN(40<<10))
		if cut >= 0 && off+n > cut {
			_, _ = w.Write(body[off:cut])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler) // in the middle of it
		}
		_, _ = w.Write(body[off : off+n])
		if off += n; rng.IntN(3) == 0 {
			_ = http.NewResponseController(w).Flush()
		}
	}
}

func seed(s string) uint64 {
	n, _ := strconv.ParseUint(s, 10, 64)
	return n
}

func TestNoAnswerReachesAnotherOrPassesForWholeWhenItIsNot(t *testing.T) {
	for _, engine := range []string{"auto", "portable"} {
		for _, upstream := range []string{"http", "h2c"} {
			t.Run(engine+" to "+upstream, func(t *testing.T) { testCrosstalk(t, engine, upstream) })
		}
	}
}

func testCrosstalk(t *testing.T, engine, upstream string) {
	origin := NewOrigin(t, true, http.HandlerFunc(moody))
	ca := NewCA(t)
	leaf := ca.Leaf(t, "127.0.0.1")
	clear, secure := FreeAddr(t), FreeAddr(t)
	Run(t, fmt.Sprintf(`
version: 1
access_log: off
log: {level: error}
tls: {t: {certificates: {files: {cert: %s, key: %s}}}}
listeners:
  - {name: clear, address: %q, protocols: [h1, h2c], engine: %s}
  - {name: secure, address: %q, protocols: [h1, h2], tls: t, engine: %[4]s}
routes: [{to: o}]
upstreams: {o: {endpoints: ["%[6]s://%[7]s"]}}
`, leaf.CertFile, leaf.KeyFile, clear, engine, secure, upstream, origin.Addr))
	clients := map[string]*http.Client{
		"http://" + clear: {}, "https://" + secure: ca.Client(t, false), "https://" + secure + "/": ca.Client(t, true),
	}
	var whole, broken, gone atomic.Int64
	var wg sync.WaitGroup
	for base, c := range clients {
		for worker := range 8 {
			rng := rand.New(rand.NewPCG(uint64(worker), uint64(len(base))))
			wg.Go(func() {
				for range 60 {
					switch err := oneExchange(t.Context(), c, base, rng); {
					case err == nil:
						whole.Add(1)
					case errors.Is(err, errBroken):
						broken.Add(1)
					case errors.Is(err, errGone):
						gone.Add(1)
					default:
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	t.Logf("%d whole, %d visibly broken, %d given up by the client", whole.Load(), broken.Load(), gone.Load())
	if whole.Load() < 700 || broken.Load() == 0 || gone.Load() == 0 {
		t.Error("the mix is not what this test means to be")
	}
}

var (
	errBroken = errors.New("visibly broken")
	errGone   = errors.New("given up by us")
)

// oneExchange sends a body of its own and checks that what comes back is that,
// or an error that shows.
func oneExchange(ctx context.Context, c *http.Client, base string, rng *rand.Rand) error {
	body := make([]byte, []int{0, 1, 100, 4 << 10, 70 << 10, 300 << 10}[rng.IntN(6)])
	for i := range body {
		body[i] = byte(rng.Uint32())
	}
	id := strconv.FormatUint(rng.Uint64(), 10)
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	leave := rng.IntN(8) == 0
	var src io.Reader = &pieces{data: body, rng: rand.New(rand.NewPCG(seed(id), 2))}
	if leave {
		src = &leaver{Reader: src, cancel: cancel, after: rng.IntN(len(body) + 1)}
	}
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, base, src)
	if req.Header.Set("X-Seed", id); rng.IntN(2) == 0 && !leave {
		req.ContentLength = int64(len(body))
		if len(body) == 0 {
			req.Body = http.NoBody
		}
	}
	resp, err := c.Do(req)
	if leave && err != nil {
		return errGone
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	switch {
	case leave && err != nil:
		return errGone
	case err != nil:
		return fmt.Errorf("%w: %w", errBroken, err)
	case resp.StatusCode == http.StatusBadGateway:
		return fmt.Errorf("%w: 502", errBroken)
	case resp.Header.Get("X-Early") != "":
		if string(got) != id {
			return fmt.Errorf("an early answer to %s is %.60q", id, got)
		}
		return nil
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("status %d: %.100q", resp.StatusCode, got)
	}
	sum := sha256.Sum256(got)
	if string(got) != string(body) || hex.EncodeToString(sum[:]) != resp.Header.Get("X-Sum") {
		return fmt.Errorf("%d bytes came back for %d that were sent, and they differ", len(got), len(body))
	}
	return nil
}

// pieces gives its data in pieces of every size.
type pieces struct {
	data []byte
	rng  *rand.Rand
}

func (s *pieces) Read(p []byte) (int, error) {
	if len(s.data) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+s.rng.IntN(20<<10))], s.data)
	s.data = s.data[n:]
	return n, nil
}

// leaver goes away in the middle of a body.
type leaver struct {
	io.Reader
	cancel func()
	after  int
}

func (l *leaver) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if l.after -= n; l.after <= 0 || err != nil {
		l.cancel()
	}
	return n, err
}

// Promise: a client that downloads much over HTTP/2, opening its windows in small
// steps as Go's does, is not taken for a flood.
func TestLongDownloadsOverHTTP2AreNoFlood(t *testing.T) {
	const size = 8 << 20
	origin := NewOrigin(t, false, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = io.Copy(w, &pattern{n: size})
	}))
	front := NewFront(t, FrontOptions{Routes: To(origin.URL)})
	client := front.CA.Client(t, true)
	for range 12 {
		resp, err := client.Get(front.URL + "/")
		if err != nil {
			t.Fatal(err)
		}
		err = same(resp.Body, &pattern{n: size})
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
}
