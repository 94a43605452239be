package scenario

import (
	"crypto/tls"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// The promise: a client that insists on any of the hybrid groups is served by
// it, one that has none is refused where post-quantum is required, and the log
// says which it was. The client is OpenSSL 3.5, in node.

// tlsFacts is what tls-client.mjs prints.
type tlsFacts struct {
	Group, Version, ALPN   string
	Authorized             bool
	Status                 int
	Body                   string
	Error, Reason, Message string
}

func nodeTLS(t *testing.T, f *Front, groups string) tlsFacts {
	t.Helper()
	var facts tlsFacts
	NodeResult(t, &facts, "tls-client.mjs", "127.0.0.1", Port(t, f.Addr), groups, f.CA.File, "localhost")
	return facts
}

func TestEachHybridGroupServes(t *testing.T) {
	origin := NewOrigin(t, false, nil)
	for _, policy := range []string{"require", "prefer"} {
		f := NewFront(t, FrontOptions{PQ: policy, Routes: To(origin.URL)})
		for _, group := range []string{"X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024"} {
			t.Run(policy+" "+group, func(t *testing.T) {
				facts := nodeTLS(t, f, group)
				if facts.Error != "" || facts.Status != http.StatusOK {
					t.Fatalf("node was not served: %+v", facts)
				}
				if facts.Group != group || facts.Version != "TLSv1.3" || !facts.Authorized {
					t.Errorf("node says %+v, want group %s, TLSv1.3, authorized", facts, group)
				}
				seen := origin.Last(t)
				if got := seen.Header.Get("X-PQ-Group"); got != group || seen.Header.Get("X-PQ") != "1" {
					t.Errorf("the origin saw X-PQ-Group %q, X-PQ %q; want %s, 1", got, seen.Header.Get("X-PQ"), group)
				}
				entry := f.AwaitAccess(t, "group "+group, func(a Access) bool { return a.TLSGroup == group })
				if !entry.TLSPQ || entry.TLSVersion != "1.3" && entry.TLSVersion != "TLS 1.3" && entry.TLSVersion != "TLSv1.3" || entry.Status != http.StatusOK {
					t.Errorf("the access log says %+v", entry)
				}
			})
		}
	}
}

// Where only what FIPS 140 approves may be used, the hybrids are, X25519 alone is not.
func TestEachHybridGroupServesInFIPSMode(t *testing.T) {
	ca := NewCA(t)
	f := &Front{CA: ca, Leaf: ca.Leaf(t, "localhost", "127.0.0.1"), Addr: FreeAddr(t), Plain: FreeAddr(t)}
	f.Gateway = RunBy(t, Binary(t), []string{"GODEBUG=fips140=only"}, f.Config(FrontOptions{}))
	for _, group := range []string{"X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024"} {
		if facts := nodeTLS(t, f, group); facts.Group != group || facts.Status != http.StatusOK || !facts.Authorized {
			t.Errorf("%s: %+v", group, facts)
		}
	}
	if facts := nodeTLS(t, f, "X25519"); facts.Error == "" {
		t.Errorf("X25519 alone was served: %+v", facts)
	}
}

func TestClassicalClientIsServedUnderPreferAndCalledClassical(t *testing.T) {
	origin := NewOrigin(t, false, nil)
	f := NewFront(t, FrontOptions{PQ: "prefer", Routes: To(origin.URL)})
	facts := nodeTLS(t, f, "X25519")
	if facts.Group != "X25519" || facts.Status != http.StatusOK {
		t.Fatalf("node says %+v, want to be served by X25519", facts)
	}
	if got := origin.Last(t).Header.Get("X-PQ"); got != "0" {
		t.Errorf("the origin saw X-PQ %q, want 0", got)
	}
	entry := f.AwaitAccess(t, "group X25519", func(a Access) bool { return a.TLSGroup == "X25519" })
	if entry.TLSPQ {
		t.Errorf("the access log calls X25519 post-quantum: %+v", entry)
	}
}

func TestClassicalClientIsRefusedUnderRequire(t *testing.T) {
	origin := NewOrigin(t, false, nil)
	f := NewFront(t, FrontOptions{PQ: "require", Routes: To(origin.URL)})
	facts := nodeTLS(t, f, "X25519")
	if !strings.Contains(facts.Error, "ALERT_HANDSHAKE_FAILURE") {
		t.Errorf("node says %+v, want the alert handshake_failure", facts)
	}
	entry := f.AwaitAccess(t, "the refused handshake", func(a Access) bool { return a.Error == "no_shared_pq_group" })
	if entry.Listener != "edge" || entry.TLSSNI != "localhost" {
		t.Errorf("the line of the refusal says %+v, want listener edge and SNI localhost", entry)
	}
	_, metrics := f.Admin(t, http.MethodGet, "/metrics")
	if want := `pqgw_tls_refused_total{listener="edge",reason="no_shared_pq_group"} 1`; !strings.Contains(metrics, want) {
		t.Errorf("the metrics lack %s", want)
	}
	if n := len(origin.Requests()); n != 0 {
		t.Errorf("%d requests reached the origin", n)
	}
}

func TestClientCannotClaimToBePostQuantum(t *testing.T) {
	origin := NewOrigin(t, false, nil)
	f := NewFront(t, FrontOptions{Routes: To(origin.URL)})
	req, err := http.NewRequest(http.MethodGet, f.PlainURL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-PQ", "1")
	req.Header.Set("X-PQ-Group", "X25519MLKEM768")
	client := f.CA.Client(t, false)
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	seen := origin.Last(t).Header
	if v := seen.Values("X-Pq"); len(v) != 1 || v[0] != "0" {
		t.Errorf("the origin saw X-PQ %q from a connection in the clear, want 0", v)
	}
	if v := seen.Values("X-Pq-Group"); slices.Contains(v, "X25519MLKEM768") || len(v) > 1 {
		t.Errorf("the origin saw X-PQ-Group %q from a connection in the clear", v)
	}
}

func TestARefusedHandshakeIsLoggedWithWhatWasOffered(t *testing.T) {
	f := NewFront(t, FrontOptions{PQ: "require", Routes: To(NewOrigin(t, false, nil).URL)})
	conn, err := tls.Dial("tcp", f.Addr, &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{"h2"}, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
	})
	if err == nil {
		_ = conn.Close()
		t.Fatal("a classical client was let in")
	}
	line := f.Stdout.AwaitText(t, `"error":"no_shared_pq_group"`)
	if want := `"alpn_offered":["h2"],"groups_offered":["X25519","P-256"]`; !strings.Contains(line, want) {
		t.Errorf("%s\nlacks %s", line, want)
	}
}
