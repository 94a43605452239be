package handshake

import (
	"crypto/fips140"
	"crypto/tls"
	"crypto/x509"
	"os"
	"os/exec"
	"slices"
	"testing"
)

const inFIPS = "HANDSHAKE_TEST_FIPS"

// TestFIPSModeServesTheHybrids runs this binary again under
// GODEBUG=fips140=only, where anything that is not approved fails.
func TestFIPSModeServesTheHybrids(t *testing.T) {
	if os.Getenv(inFIPS) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), inFIPS+"=1", "GODEBUG=fips140=only")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	if !fips140.Enabled() {
		t.Fatal("FIPS mode is off")
	}
	dev, _, err := NewDev(t.TempDir(), "example.com")
	if err != nil {
		t.Fatal(err)
	}
	own, err := dev.Default(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, pq := range []PQ{Prefer, Require} {
		srv := newServer(t, Settings{
			Sources: []Source{dev}, PQ: pq, Tickets: Tickets{Roots: [][]byte{root(1)}},
			ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: []*x509.Certificate{dev.Authority().Certificate()},
		})
		if got := srv.GroupsInForce(); slices.Contains(got, "X25519") || !slices.Equal(got[:3], GroupNames(hybrids)) {
			t.Errorf("groups in force %v", got)
		}
		for _, g := range hybrids {
			client := session(dev.Authority().Pool())
			client.CurvePreferences, client.Certificates = []tls.CurveID{g}, []tls.Certificate{*own}
			for _, resumed := range []bool{false, true} {
				o := shake(t, srv, client)
				mustBoth(t, o)
				if o.server.Group != g || o.server.Resumed != resumed {
					t.Errorf("%s: %+v", GroupName(g), o.server)
				}
			}
		}
	}
}
