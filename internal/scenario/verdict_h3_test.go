package scenario

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/quicvarint"
)

// overHTTP3 sends frames of its own making (RFC 9114, section 7.2) on a
// connection of its own, and looks whether another stream is served.
func overHTTP3(addr string, cfg *tls.Config) func(*testing.T, *message) (verdict, bool) {
	return func(t *testing.T, m *message) (verdict, bool) {
		if m.h2 == nil {
			return verdict{}, false
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		c, err := quic.DialAddr(ctx, addr, cfg, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.CloseWithError(0x100, "") }()
		control, err := c.OpenUniStream()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = control.Write([]byte{0, 4, 0}) // the control stream, and SETTINGS without any
		status := ask3(ctx, t, c, m)
		next := ask3(ctx, t, c, &message{h2: fields(":method: GET", ":scheme: https", ":authority: b.example", ":path: /")})
		return verdict{Status: status, Closed: next == 0}, true
	}
}

// ask3 sends a message on a stream and gives the status of its answer, 0 for none.
func ask3(ctx context.Context, t *testing.T, c *quic.Conn, m *message) int {
	t.Helper()
	s, err := c.OpenStreamSync(ctx)
	if err != nil {
		return 0
	}
	deadline, _ := ctx.Deadline()
	_ = s.SetDeadline(deadline)
	var section bytes.Buffer
	enc := qpack.NewEncoder(&section)
	for _, f := range m.h2 {
		_ = enc.WriteField(qpack.HeaderField{Name: f.Name, Value: f.Value})
	}
	out := frame3(nil, 1, section.Bytes())
	if m.body != "" {
		out = frame3(out, 0, []byte(m.body))
	}
	_, _ = s.Write(out)
	_ = s.Close()
	r := quicvarint.NewReader(s)
	for {
		kind, err := quicvarint.Read(r)
		if err != nil {
			return 0
		}
		n, err := quicvarint.Read(r)
		if err != nil || n > 1<<20 {
			return 0
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(r, b); err != nil {
			return 0
		}
		if kind != 1 {
			continue
		}
		next := qpack.NewDecoder().Decode(b)
		for {
			f, err := next()
			if err != nil {
				return 0
			}
			if f.Name == ":status" {
				status := 0
				_, _ = fmt.Sscan(f.Value, &status)
				return status
			}
		}
	}
}

func frame3(b []byte, kind uint64, payload []byte) []byte {
	b = quicvarint.Append(b, kind)
	b = quicvarint.Append(b, uint64(len(payload)))
	return append(b, payload...)
}
