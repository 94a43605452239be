package lifetime

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/hanzoai/pqgw/bench"
	"github.com/hanzoai/pqgw/bench/identity"
)

// clientRole is the name of the role that makes connections and asks on them.
const clientRole = "lifetime-client"

func init() { bench.RegisterRole(clientRole, openClient) }

// order tells the client to work.
type order struct {
	Address  string      `json:"address"`
	Root     []byte      `json:"root"`
	Group    tls.CurveID `json:"group"`
	Path     string      `json:"path"`
	Body     int         `json:"body"`     // bytes that each answer must have
	Requests int         `json:"requests"` // on each connection
	Parallel int         `json:"parallel"` // connections at the same time
	Slice    bench.Slice `json:"slice"`    // operations are connections
}

// patience bounds one connection.
const patience = 2 * time.Minute

func openClient(context.Context, json.RawMessage) (map[string]bench.Verb, func(), error) {
	return map[string]bench.Verb{"run": func(ctx context.Context, args json.RawMessage) (any, error) {
		var o order
		if err := json.Unmarshal(args, &o); err != nil {
			return nil, err
		}
		return o.run(ctx)
	}}, func() {}, nil
}

// run makes connections until the slice is over, and counts them.
func (o order) run(ctx context.Context) (connections int, err error) {
	roots, err := (identity.Identity{Root: o.Root}).Roots()
	if err != nil {
		return 0, err
	}
	dialer := &tls.Dialer{Config: &tls.Config{
		ServerName: identity.ServerName, RootCAs: roots, MinVersion: tls.VersionTLS13,
		CurvePreferences: []tls.CurveID{o.Group}, NextProtos: []string{"http/1.1"},
	}}
	share := o.Slice
	if share.Ops > 0 {
		share.Ops = (share.Ops + o.Parallel - 1) / o.Parallel
	}
	began := time.Now()
	done, errs := make([]int, o.Parallel), make([]error, o.Parallel)
	var wg sync.WaitGroup
	for i := range o.Parallel {
		wg.Go(func() {
			for ; errs[i] == nil && !share.Over(began, done[i]); done[i]++ {
				errs[i] = o.connection(ctx, dialer)
			}
		})
	}
	wg.Wait()
	for _, n := range done {
		connections += n
	}
	return connections, errors.Join(errs...)
}

// connection connects, asks so many times, one after the other, and closes.
func (o order) connection(ctx context.Context, dialer *tls.Dialer) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := dialer.DialContext(ctx, "tcp", o.Address)
	if err != nil {
		return err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	_ = c.SetDeadline(deadline)
	if cs := c.(*tls.Conn).ConnectionState(); cs.CurveID != o.Group || cs.DidResume || len(cs.VerifiedChains) == 0 {
		return fmt.Errorf("a handshake with %v (resumed: %t), wanted a full one with %v", cs.CurveID, cs.DidResume, o.Group)
	}
	question := "GET " + o.Path + " HTTP/1.1\r\nHost: " + identity.ServerName + "\r\n\r\n"
	answers := bufio.NewReaderSize(c, 32<<10)
	for range o.Requests {
		if _, err := io.WriteString(c, question); err != nil {
			return err
		}
		if err := readAnswer(answers, o.Body); err != nil {
			return err
		}
	}
	return nil
}

// readAnswer reads one answer and holds it to what it must be.
func readAnswer(r *bufio.Reader, body int) error {
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var got content
	if _, err := io.Copy(&got, answer.Body); err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK || got.n != body || answer.Close {
		return fmt.Errorf("status %d, %d bytes, close: %t", answer.StatusCode, got.n, answer.Close)
	}
	return nil
}

// letter fills the bodies of answers.
const letter = "x"

var letters = bytes.Repeat([]byte(letter), 32<<10)

// content counts a body and refuses any other letter.
type content struct{ n int }

// Write takes a piece of the body.
func (c *content) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		piece := rest[:min(len(rest), len(letters))]
		if !bytes.Equal(piece, letters[:len(piece)]) {
			return 0, errors.New("the body has other content than was configured")
		}
		rest = rest[len(piece):]
	}
	c.n += len(p)
	return len(p), nil
}
