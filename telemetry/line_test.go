package telemetry

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/handshake"
)

// fullRecord has every field set.
func fullRecord() *Record {
	return &Record{
		Time:      time.Date(2026, 11, 30, 14, 5, 6, 78_900_000, time.FixedZone("", 3600)),
		RequestID: []byte("0123456789abcdef0123456789abcdef"),
		Listener:  "edge", Protocol: "h2", Client: "203.0.113.7:50123", Remote: "10.0.0.1:9",
		Method: []byte("POST"), Host: []byte("api.example.com"), Path: []byte("/v1/chat?key=sk-secret#x"),
		Route: "inference", Status: 200, BytesIn: 12, BytesOut: 3456, Duration: 12_345_678 * time.Nanosecond,
		Upstream: "inference", Endpoint: "10.0.0.2:8000", UpstreamDuration: 9 * time.Millisecond,
		UpstreamTLSGroup: tls.X25519,
		TLS:              handshake.Facts{Version: tls.VersionTLS13, Group: tls.X25519MLKEM768, HRR: true, Resumed: true, SNI: "api.example.com", ALPN: "h2"},
		Peer:             "hop-1", PQIdentity: true, Error: "upstream_reset",
	}
}

func TestRequestLine(t *testing.T) {
	tests := []struct {
		name   string
		record *Record
		want   string
	}{
		{"everything set", fullRecord(), `{"time":"2026-11-30T13:05:06.078Z","request_id":"0123456789abcdef0123456789abcdef","listener":"edge","protocol":"h2","client":"203.0.113.7:50123","remote":"10.0.0.1:9","method":"POST","host":"api.example.com","path":"/v1/chat","route":"inference","status":200,"bytes_in":12,"bytes_out":3456,"duration_ms":12.345,"upstream":"inference","endpoint":"10.0.0.2:8000","upstream_ms":9.000,"tls_version":"1.3","tls_group":"X25519MLKEM768","tls_pq":true,"tls_hrr":true,"tls_resumed":true,"tls_sni":"api.example.com","tls_alpn":"h2","upstream_tls_group":"X25519","peer":"hop-1","pq_identity":true,"error":"upstream_reset"}`},
		{"nothing set", &Record{Time: time.Unix(0, 0)}, `{"time":"1970-01-01T00:00:00.000Z","request_id":"","listener":"","protocol":"","client":"","method":"","host":"","path":"","status":0,"bytes_in":0,"bytes_out":0,"duration_ms":0.000,"upstream":"","upstream_ms":0.000,"tls_version":"","tls_group":"","tls_pq":false,"tls_hrr":false,"tls_resumed":false,"tls_sni":"","tls_alpn":"","upstream_tls_group":"","error":""}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := string(appendRecord(nil, new(stamp), tt.record)); got != tt.want+"\n" {
				t.Errorf("got  %s want %s", got, tt.want)
			}
		})
	}
}

func TestRemoteIsShownWhereItIsNotTheClient(t *testing.T) {
	r := fullRecord()
	r.Remote = r.Client
	if line := appendRecord(nil, new(stamp), r); bytes.Contains(line, []byte(`"remote"`)) {
		t.Errorf("the address is shown twice: %s", line)
	}
}

func TestPathIsLoggedWithoutWhatMayHoldKeys(t *testing.T) {
	for in, want := range map[string]string{
		"/a?token=k": "/a", "/a#token=k": "/a", "/a#x?token=k": "/a", "/a?x#token=k": "/a", "?token=k": "", "*": "*", "": "",
	} {
		r := fullRecord()
		r.Path = []byte(in)
		var line struct{ Path string }
		if err := json.Unmarshal(appendRecord(nil, new(stamp), r), &line); err != nil {
			t.Fatal(err)
		}
		if line.Path != want {
			t.Errorf("path %q is logged as %q, want %q", in, line.Path, want)
		}
	}
}

func TestStampFollowsTheClock(t *testing.T) {
	var s stamp
	for _, at := range []time.Time{
		time.Unix(0, 0), time.Unix(1, 1), time.Unix(1, 999_999_999), time.Unix(0, 5e6), time.Unix(-1, 0),
		time.Date(2028, 2, 29, 23, 59, 59, 1e9-1, time.UTC), time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC),
	} {
		want := at.UTC().Format("2006-01-02T15:04:05.000Z")
		if got := string(s.append(nil, at)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	for _, at := range []time.Time{{}, time.Unix(1<<40, 0), time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)} {
		got := string(s.append(nil, at))
		if _, err := time.Parse(time.RFC3339, got); err != nil {
			t.Errorf("%v: %v", at, err)
		}
	}
}

func TestMillis(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.000", 999: "0.000", time.Microsecond: "0.001", 1500 * time.Microsecond: "1.500", time.Hour: "3600000.000", -time.Second: "0.000",
	} {
		if got := string(appendMillis(nil, d)); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestHandshakeLine(t *testing.T) {
	r := &HandshakeRecord{
		Time: time.Unix(1, 0), Listener: "edge", Client: "[2001:db8::1]:9", Reason: "no_shared_pq_group", Detail: "the client offers classical groups only",
		SNI: "api.example.com", ALPN: []string{"h2", "http/1.1"}, Groups: []tls.CurveID{0x0a0a, tls.X25519, tls.CurveP256},
	}
	want := `{"time":"1970-01-01T00:00:01.000Z","event":"handshake_refused","listener":"edge","client":"[2001:db8::1]:9","error":"no_shared_pq_group","detail":"the client offers classical groups only","tls_sni":"api.example.com","alpn_offered":["h2","http/1.1"],"groups_offered":["0x0a0a","X25519","P-256"],"suppressed":7}`
	if got := string(appendHandshake(nil, new(stamp), r, 7)); got != want+"\n" {
		t.Errorf("got  %s want %s", got, want)
	}
}

func TestBrokenConnectionLine(t *testing.T) {
	r := &BrokenRecord{Time: time.Unix(1, 0), Listener: "edge", Client: "192.0.2.1", Protocol: "h1", Reason: "head_cut", Detail: "EOF"}
	want := `{"time":"1970-01-01T00:00:01.000Z","event":"connection_broken","listener":"edge","client":"192.0.2.1","protocol":"h1","error":"head_cut","detail":"EOF"}`
	if got := string(appendBroken(nil, new(stamp), r, 0)); got != want+"\n" {
		t.Errorf("got  %s want %s", got, want)
	}
}

func TestHandshakeLineHasABound(t *testing.T) {
	r := &HandshakeRecord{SNI: strings.Repeat("\x00", 1<<16), ALPN: make([]string, 1000), Groups: make([]tls.CurveID, 30000)}
	for i := range r.ALPN {
		r.ALPN[i] = strings.Repeat("\xff", 255)
	}
	line := appendHandshake(nil, new(stamp), r, 0)
	var v struct {
		ALPN   []string `json:"alpn_offered"`
		Groups []string `json:"groups_offered"`
	}
	if err := json.Unmarshal(line, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.ALPN) != maxALPN || len(v.Groups) != maxGroups || len(line) > 64<<10 {
		t.Errorf("%d protocols, %d groups, %d bytes", len(v.ALPN), len(v.Groups), len(line))
	}
}

func FuzzRequestLine(f *testing.F) {
	f.Add("GET", "example.com", "/", "1.2.3.4:5", int64(1), 200)
	f.Add("\"", "\\", "\n?\u2028", "\xff", int64(-1), -7)
	f.Fuzz(func(t *testing.T, method, host, path, client string, n int64, status int) {
		r := &Record{
			Time: time.Unix(n, n), RequestID: []byte(client), Listener: method, Protocol: host, Client: client, Peer: path,
			Method: []byte(method), Host: []byte(host), Path: []byte(path), Route: path, Status: status, BytesIn: n, BytesOut: -n,
			Duration: time.Duration(n), UpstreamDuration: time.Duration(status), Error: client, TLS: handshake.Facts{SNI: host, ALPN: path},
		}
		line := appendRecord(nil, new(stamp), r)
		if bytes.IndexByte(line, '\n') != len(line)-1 {
			t.Fatalf("not one line: %q", line)
		}
		if !json.Valid(line) {
			t.Fatalf("not JSON: %q", line)
		}
		shake := appendHandshake(nil, new(stamp), &HandshakeRecord{Time: r.Time, Client: client, Reason: handshake.Reason(method), Detail: path, SNI: host, ALPN: []string{path, host}}, uint64(n))
		if bytes.IndexByte(shake, '\n') != len(shake)-1 || !json.Valid(shake) {
			t.Fatalf("not one line of JSON: %q", shake)
		}
	})
}
