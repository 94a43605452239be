package scenario

import (
	"bufio"
	endian "encoding/binary"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/zapcodec"
)

// overZAP sends what HTTP/2 would as a message of ZAP, without the encoder's checks.
// Where the next message begins is always known, so that the connection goes on
// or not as the server likes: it is not looked at.
func overZAP(dial func(*testing.T) net.Conn) func(*testing.T, *message) (verdict, bool) {
	return func(t *testing.T, m *message) (verdict, bool) {
		raw, ok := zapOf(t, m)
		if !ok {
			return verdict{}, false
		}
		c := dial(t)
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = c.Write(raw)
		f, err := zapcodec.FramingHTTP.Read(bufio.NewReader(c), nil, 0)
		var v zapcodec.ResponseView
		if err != nil || v.Parse(f.Bytes) != nil {
			return verdict{}, true
		}
		return verdict{Status: v.Status()}, true
	}
}

// zapOf makes the message, false where it is one of HTTP/2's own.
func zapOf(t *testing.T, m *message) ([]byte, bool) {
	if m.h2 == nil || strings.Contains(m.name, "HTTP/2") || strings.Contains(m.name, "pseudo-header") {
		return nil, false
	}
	var method, target, authority string
	var block []byte
	count, seen := uint32(0), map[string]bool{}
	pair := func(name, value string) {
		count++
		block = append(endian.LittleEndian.AppendUint32(block, uint32(len(name))), name...)
		block = append(endian.LittleEndian.AppendUint32(block, uint32(len(value))), value...)
	}
	for _, f := range m.h2 {
		if f.Name[0] == ':' && seen[f.Name] || f.Name == ":protocol" || f.Name == "X" {
			return nil, false
		}
		seen[f.Name] = f.Name[0] == ':'
		switch f.Name {
		case ":method":
			method = f.Value
		case ":path":
			target = f.Value
		case ":authority":
			authority = f.Value
			pair("Host", f.Value)
		case ":scheme":
		default:
			pair(f.Name, f.Value)
		}
	}
	if !seen[":method"] {
		return nil, false
	}
	if method == "CONNECT" {
		target = authority
	}
	b := zapcodec.Build(nil, zapcodec.Version1, zapcodec.TypeRequest<<8)
	root := b.Object(48)
	root.SetText(0, method)
	root.SetText(8, target)
	root.SetText(16, "HTTP/1.1")
	root.SetBytes(24, append(endian.LittleEndian.AppendUint32(nil, count), block...))
	root.SetText(32, m.body)
	msg, err := b.Finish(root)
	if err != nil {
		t.Fatal(err)
	}
	return append(endian.BigEndian.AppendUint32(nil, uint32(len(msg))), msg...), true
}
