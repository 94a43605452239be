package load

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/identity"
)

// Handshakes makes connections, each with one request for a body of 1 KiB over
// HTTP/1.1.
type Handshakes struct {
	Address string      `json:"address"`
	Root    []byte      `json:"root"`
	Group   tls.CurveID `json:"group"`
	Resumed bool        `json:"resumed"`
	Workers int         `json:"workers"`
	Slice   bench.Slice `json:"slice"`
}

// Handshakes makes connections one after the other. Ops are connections.
func (c *Client) Handshakes(ctx context.Context, h Handshakes) (out Done, err error) {
	err = c.Call(ctx, "handshakes", h, &out)
	return out, err
}

func handshakes(ctx context.Context, h Handshakes) (Done, error) {
	roots, err := (identity.Identity{Root: h.Root}).Roots()
	if err != nil {
		return Done{}, err
	}
	share := h.Slice
	if share.Ops > 0 {
		share.Ops = (share.Ops + h.Workers - 1) / h.Workers
	}
	var all atomic.Int64
	errs := make([]error, h.Workers)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range h.Workers {
		config := &tls.Config{
			ServerName: identity.ServerName, RootCAs: roots, MinVersion: tls.VersionTLS13,
			CurvePreferences: []tls.CurveID{h.Group}, NextProtos: []string{"http/1.1"},
		}
		wg.Go(func() {
			if h.Resumed {
				config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			}
			for n := 0; errs[i] == nil && !share.Over(began, n); n++ {
				// The first of a worker has nothing to resume yet.
				if errs[i] = h.connection(ctx, config, h.Resumed && n > 0); errs[i] == nil {
					all.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return Done{Ops: int(all.Load()), Wall: time.Since(began)}, errors.Join(errs...)
}

func (h Handshakes) connection(ctx context.Context, config *tls.Config, resumed bool) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	nc, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", h.Address)
	if err != nil {
		return err
	}
	defer nc.Close()
	c := nc.(*tls.Conn)
	deadline, _ := ctx.Deadline()
	_ = c.SetDeadline(deadline) // a connection that is closed says so when it is used
	if s := c.ConnectionState(); s.DidResume != resumed || s.CurveID != h.Group {
		return fmt.Errorf("a handshake with %v, resumed: %t; wanted %v, %t", s.CurveID, s.DidResume, h.Group, resumed)
	}
	return oneRequest(c)
}

// oneRequest asks for 1 KiB and for the end, and reads to it: the session
// ticket comes before.
func oneRequest(c net.Conn) error {
	const size = 1 << 10
	if _, err := io.WriteString(c, "GET "+Path(size)+" HTTP/1.1\r\nHost: "+identity.ServerName+"\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK || len(body) != size || !same(body, 0) {
		return fmt.Errorf("status %d with %d bytes: not the answer", answer.StatusCode, len(body))
	}
	return nil
}
