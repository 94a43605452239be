package scenario

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"
)

// The promise: certificates come by themselves. Each challenge works, port 80
// answers the issuer and leads everyone else to https, and what is due is renewed
// while the old certificate serves on.

// acmeConfig is a gateway for two hosts with certificates of the issuer.
func acmeConfig(i *Issuer, kms, acme, more string) string {
	return fmt.Sprintf(`version: 1
%s
tls: {public: {certificates: {%s}}}
listeners:
  - {name: edge, address: %q, tls: public}
  - {name: http, address: %q, redirect_https: true}
routes: [{match: {host: [a.example.com, b.example.com]}, to: trace}]
%s`, kms, i.YAML(acme), i.TLS, i.HTTP, more)
}

func TestCertificatesComeByHTTP01(t *testing.T) {
	i, s := NewIssuer(t, IssuerOptions{}), NewStore(t)
	g := Run(t, acmeConfig(i, s.YAML(), "challenges: http-01", ""))
	a := i.AwaitLeaf(t, i.TLS, "a.example.com", nil)
	b := i.AwaitLeaf(t, i.TLS, "B.example.com", nil)
	if a.DNSNames[0] != "a.example.com" || b.DNSNames[0] != "b.example.com" {
		t.Errorf("served %v and %v", a.DNSNames, b.DNSNames)
	}
	g.AwaitAccess(t, "the challenge", func(a Access) bool {
		return a.Listener == "http" && strings.HasPrefix(a.Path, "/.well-known/acme-challenge/") && a.Status == 200
	})
	checkRedirect(t, i)
	if list := s.KMS(t, "", "list"); !strings.Contains(list, "a.example.com.key") {
		t.Errorf("the key is not in the store:\n%s", list)
	}
	Await(t, "the metrics to tell when the certificate ends", func() bool {
		_, metrics := g.Admin(t, http.MethodGet, "/metrics")
		return strings.Contains(metrics, `pqgw_certificate_expiry_seconds{name="a.example.com"}`)
	})
}

// checkRedirect: what is no challenge is led to https.
func checkRedirect(t *testing.T, i *Issuer) {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	for path, want := range map[string]string{
		"/x?y=z":                           "https://a.example.com/x?y=z",
		"/.well-known/acme-challenge/none": "https://a.example.com/.well-known/acme-challenge/none",
	} {
		r, err := http.NewRequest(http.MethodGet, "http://"+i.HTTP+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "a.example.com:80"
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusPermanentRedirect || resp.Header.Get("Location") != want {
			t.Errorf("%s: %s to %s, want %s", path, resp.Status, resp.Header.Get("Location"), want)
		}
	}
}

// The issuer has no client certificate and may be classical: it is let in for
// the challenge all the same, where clients must be neither.
func TestCertificatesComeByTLSALPN01EvenWhereClientsMustProveThemselves(t *testing.T) {
	i, clients := NewIssuer(t, IssuerOptions{}), NewCA(t)
	config := strings.Replace(acmeConfig(i, NewStore(t).YAML(), "challenges: tls-alpn-01", ""),
		"tls: {public: {", fmt.Sprintf("tls: {public: {pq: require, client_ca: %q, ", clients.File), 1)
	g := Run(t, config)
	own := clients.Leaf(t, "client")
	leaf, err := tls.LoadX509KeyPair(own.CertFile, own.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	c := &tls.Config{RootCAs: i.Roots(t), ServerName: "a.example.com", Certificates: []tls.Certificate{leaf}}
	Await(t, "a certificate", func() bool {
		_, err := visit(i.TLS, c)
		return err == nil
	})
	bare := &tls.Config{RootCAs: i.Roots(t), ServerName: "a.example.com", NextProtos: []string{"acme-tls/1"}}
	if _, err := visit(i.TLS, bare); err == nil {
		t.Error("one who claims to be the issuer was let in without a challenge")
	}
	if _, metrics := g.Admin(t, http.MethodGet, "/metrics"); strings.Contains(metrics, `exposure_connections_total{class="classical",listener="edge"} 1`) {
		t.Error("the issuer's connection counts as a client's")
	}
}

func dnsConfig(i *Issuer, kms, dns string) string {
	return fmt.Sprintf(`version: 1
%s
tls: {public: {certificates: {%s}}}
listeners: [{name: edge, address: %q, tls: public}]
routes: [{match: {host: "*.example.com"}, to: trace}, {match: {host: example.com}, to: trace}]`, kms, i.YAML(dns), i.TLS)
}

func TestCertificatesComeByDNS01(t *testing.T) {
	i := NewIssuer(t, IssuerOptions{})
	hook := filepath.Join(t.TempDir(), "calls")
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		i.DNS.Change(q.Get("name")+".", q.Get("value"), q.Get("what") == "present")
	}))
	defer server.Close()
	script := fmt.Sprintf("echo $1 $2 >> %s; exec curl -fsSG %s -d what=$1 -d name=$2 -d value=$3", hook, server.URL)
	for name, dns := range map[string]string{
		"by updates":   fmt.Sprintf("dns: {rfc2136: {server: %q, key_name: update, key_secret: \"${kms:tsig}\"}}", i.DNS.Addr),
		"by a program": fmt.Sprintf("dns: {exec: [sh, -c, %q, hook], resolvers: %q}", script, i.DNS.Addr),
	} {
		t.Run(name, func(t *testing.T) {
			s := NewStore(t)
			s.KMS(t, i.DNS.KeySecret+"\n", "put", "tsig")
			before := len(i.DNS.Records())
			g := Run(t, dnsConfig(i, s.YAML(), "challenges: dns-01, "+dns))
			wild := i.AwaitLeaf(t, i.TLS, "any.example.com", nil)
			if wild.DNSNames[0] != "*.example.com" {
				t.Errorf("served %v for a name under the wildcard", wild.DNSNames)
			}
			apex := i.AwaitLeaf(t, i.TLS, "example.com", nil)
			if apex.DNSNames[0] != "example.com" {
				t.Errorf("served %v", apex.DNSNames)
			}
			if got := len(i.DNS.Records()) - before; got != 2 {
				t.Errorf("%d records were written, want one for each order", got)
			}
			Await(t, "the records to be taken away", func() bool { return i.DNS.Left() == 0 })
			g.Stop(t)
		})
	}
	if calls, err := os.ReadFile(hook); err != nil || strings.Count(string(calls), "present _acme-challenge.example.com") != 2 || strings.Count(string(calls), "cleanup") != 2 {
		t.Errorf("the program was called so:\n%s%v", calls, err)
	}
}

func TestAnAccountIsBoundToTheOneThatTheIssuerKnows(t *testing.T) {
	const mac = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
	i := NewIssuer(t, IssuerOptions{EAB: [2]string{"kid-1", mac}})
	s := NewStore(t)
	s.KMS(t, mac, "put", "eab")
	Run(t, acmeConfig(i, s.YAML(), `eab: {key_id: kid-1, mac_key: "${kms:eab}"}, email: ops@example.com`, ""))
	i.AwaitLeaf(t, i.TLS, "a.example.com", nil)
}

func TestCertificatesAreRenewedUnderLoad(t *testing.T) {
	i := NewIssuer(t, IssuerOptions{Life: 30 * time.Second})
	Run(t, acmeConfig(i, NewStore(t).YAML(), "challenges: [tls-alpn-01, http-01]", ""))
	first := i.AwaitLeaf(t, i.TLS, "a.example.com", nil)
	c := &tls.Config{RootCAs: i.Roots(t), ServerName: "a.example.com"}
	load := StartLoad(t, 2, func() (bool, error) {
		_, err := visit(i.TLS, c)
		return false, err
	})
	second := i.AwaitLeaf(t, i.TLS, "a.example.com", first)
	load.AwaitProgress(t, 5)
	load.Stop(t)
	if first.Equal(second) || string(first.RawSubjectPublicKeyInfo) == string(second.RawSubjectPublicKeyInfo) {
		t.Error("the renewed certificate has the old key")
	}
}

func TestAnIssuerThatIsDownDelaysNothing(t *testing.T) {
	i := NewIssuer(t, IssuerOptions{Life: 12 * time.Second})
	g := Run(t, acmeConfig(i, NewStore(t).YAML(), "challenges: tls-alpn-01", ""))
	i.AwaitLeaf(t, i.TLS, "a.example.com", nil)
	roots := i.Roots(t)
	i.Kill()
	g.Stderr.AwaitText(t, "the old one serves on until")
	first := servedNow(t, i.TLS, "a.example.com") // it may have been renewed since the first look
	g.Stderr.AwaitText(t, "a certificate that is served has ended")
	peek := func() string {
		began := time.Now()
		cs, err := visit(i.TLS, &tls.Config{RootCAs: roots, ServerName: "a.example.com", Time: func() time.Time { return first.NotBefore }})
		if err != nil {
			t.Fatalf("while the issuer is down: %v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("a handshake took %v", took)
		}
		return cs.PeerCertificates[0].SerialNumber.String()
	}
	if got := peek(); got != first.SerialNumber.String() {
		t.Errorf("served %s, want the old one", got)
	}
	if body := statusOf(t, g); !strings.Contains(body, "a.example.com") {
		t.Errorf("the status does not tell of the certificate: %s", body)
	}
	restarted := Run(t, strings.Replace(strings.Replace(readConfig(t, g), i.TLS, FreeAddr(t), 1), i.HTTP, FreeAddr(t), 1))
	_, metrics := restarted.Admin(t, http.MethodGet, "/metrics")
	if !strings.Contains(metrics, `pqgw_certificate_expiry_seconds{name="a.example.com"}`) {
		t.Error("a gateway that starts while the issuer is down does not serve what the store has")
	}
}

// servedNow is the certificate for the host, whatever the clock and the issuer say of it.
func servedNow(t *testing.T, addr, host string) *x509.Certificate {
	t.Helper()
	cs, err := visit(addr, &tls.Config{InsecureSkipVerify: true, ServerName: host}) //nolint:gosec // who vouches for it is not asked here
	if err != nil {
		t.Fatal(err)
	}
	return cs.PeerCertificates[0]
}

func statusOf(t *testing.T, g *Gateway) string {
	t.Helper()
	_, body := g.Admin(t, http.MethodGet, "/status")
	return body
}

// readConfig is the gateway's configuration without what the harness added.
func readConfig(t *testing.T, g *Gateway) string {
	t.Helper()
	data, err := os.ReadFile(g.Config)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(data), "\nadmin:")
	return text
}

func TestARevokedCertificateIsReplaced(t *testing.T) {
	i := NewIssuer(t, IssuerOptions{})
	g := Run(t, acmeConfig(i, NewStore(t).YAML(), "challenges: tls-alpn-01", ""))
	first := i.AwaitLeaf(t, i.TLS, "a.example.com", nil)
	p := Pqgw(t, "acme", "revoke", "-c", g.Config, "--reason", "key-compromise", "a.example.com")
	if code := p.ExitCode(t); code != 0 {
		t.Fatalf("revoke exited with %d", code)
	}
	if got := i.Status(t, first); got != "Revoked" {
		t.Errorf("the issuer says %s", got)
	}
	second := i.AwaitLeaf(t, i.TLS, "a.example.com", first)
	if got := i.Status(t, second); got != "Valid" {
		t.Errorf("the issuer says %s of the new one", got)
	}
	if p = Pqgw(t, "acme", "revoke", "-c", g.Config, "other.example.com"); p.ExitCode(t) != 2 {
		t.Errorf("a host that is not served: exit %d, want 2", p.ExitCode(t))
	}
}

func TestGatewaysOfOneStorageAskTheIssuerOnce(t *testing.T) {
	i, s := NewIssuer(t, IssuerOptions{}), NewStore(t)
	config := acmeConfig(i, s.YAML(), "challenges: http-01", "")
	other := FreeAddr(t)
	// The second begins while the first's order is under way; only the first can
	// be reached by the issuer, which may ask it for the second's orders as well.
	Run(t, config)
	Run(t, strings.Replace(strings.Replace(config, i.TLS, other, 1), i.HTTP, FreeAddr(t), 1))
	for _, host := range []string{"a.example.com", "b.example.com"} {
		if a, b := i.AwaitLeaf(t, i.TLS, host, nil), i.AwaitLeaf(t, other, host, nil); !a.Equal(b) {
			t.Errorf("%s: two certificates are served", host)
		}
	}
	if n := i.Issued(); n != 2 {
		t.Errorf("the issuer has issued %d certificates for two hosts", n)
	}
}

func TestAGatewayThatDiesInAnOrderGoesOnWhenItIsBack(t *testing.T) {
	i, s := NewIssuer(t, IssuerOptions{Sleep: 2 * time.Second}), NewStore(t)
	config := acmeConfig(i, s.YAML(), "challenges: tls-alpn-01", "")
	file := filepath.Join(t.TempDir(), "pqgw.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	doomed := StartProcess(t, exec.Command(Binary(t), "run", "-c", file))
	i.Stdout.AwaitText(t, "Pulled a task") // the issuer is about to look
	doomed.Signal(t, syscall.SIGKILL)
	<-doomed.Exited()
	Run(t, config)
	i.AwaitLeaf(t, i.TLS, "a.example.com", nil)
	i.AwaitLeaf(t, i.TLS, "b.example.com", nil)
	s.KMS(t, "", "audit", "--verify")
}

func TestCertificatesOnDemandOnlyForThoseThatMay(t *testing.T) {
	i := NewIssuer(t, IssuerOptions{})
	var asked atomic.Int64
	ask := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if !strings.HasPrefix(r.URL.Query().Get("domain"), "tenant") {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer ask.Close()
	g := Run(t, acmeConfig(i, NewStore(t).YAML(), fmt.Sprintf("challenges: tls-alpn-01, on_demand: {ask: %q, rate: 1}", ask.URL), ""))
	i.AwaitLeaf(t, i.TLS, "a.example.com", nil) // which nobody is asked about
	if asked.Load() != 0 {
		t.Error("a host of the routes was asked for")
	}
	i.AwaitLeaf(t, i.TLS, "tenant1.example.com", nil)
	for host, why := range map[string]string{"evil.example.com": "may not have a certificate", "tenant2.example.com": "within the hour"} {
		if _, err := i.Peek(t, i.TLS, host); err == nil {
			t.Errorf("%s got a certificate", host)
		}
		g.Stderr.AwaitText(t, why)
	}
	before := asked.Load()
	if _, err := i.Peek(t, i.TLS, "evil.example.com"); err == nil || asked.Load() != before {
		t.Error("what was refused just now is asked for again")
	}
}

func TestSourcesOfCertificatesServeSideBySide(t *testing.T) {
	i, s, ca := NewIssuer(t, IssuerOptions{}), NewStore(t), NewCA(t)
	files, stored := ca.Leaf(t, "files.example.com"), ca.Leaf(t, "stored.example.com")
	s.putLeaf(t, "edge", stored)
	config := strings.Replace(acmeConfig(i, s.YAML(), "challenges: tls-alpn-01", ""), "certificates: {", fmt.Sprintf(
		"certificates: {files: {cert: %q, key: %q}, kms: {store: edge}, dev: {}, ", files.CertFile, files.KeyFile), 1)
	g := Run(t, config+fmt.Sprintf("\ndata_dir: %q", t.TempDir()))
	i.AwaitLeaf(t, i.TLS, "a.example.com", nil)
	for host, want := range map[string]Leaf{"files.example.com": files, "stored.example.com": stored, "unknown.example.com": files} {
		conn, err := tls.Dial("tcp", i.TLS, &tls.Config{InsecureSkipVerify: true, ServerName: host}) //nolint:gosec // the certificate is looked at below
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.ConnectionState().PeerCertificates[0].SerialNumber; got.Cmp(want.Serial) != 0 {
			t.Errorf("%s: served %v, want %v", host, got, want.Serial)
		}
		conn.Close()
	}
	for _, source := range []string{"files", "kms", "dev", "acme"} {
		if !strings.Contains(statusOf(t, g), fmt.Sprintf("%q", source)) {
			t.Errorf("the status shows no certificate of %s", source)
		}
	}
}

func TestWithoutAStoreKeysLieInAFolderOfOurOwn(t *testing.T) {
	i, data := NewIssuer(t, IssuerOptions{}), t.TempDir()
	config := acmeConfig(i, fmt.Sprintf("data_dir: %q", data), "challenges: tls-alpn-01", "")
	g := Run(t, config)
	i.AwaitLeaf(t, i.TLS, "a.example.com", nil)
	i.AwaitLeaf(t, i.TLS, "b.example.com", nil)
	g.Stop(t)
	keys := 0
	err := filepath.Walk(data, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 && path != data {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if filepath.Ext(path) == ".key" {
			keys++
		}
		return nil
	})
	if err != nil || keys != 3 { // of two hosts and the account
		t.Errorf("%d keys, %v", keys, err)
	}
	if err := os.Chmod(filepath.Join(data, "acme"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := Pqgw(t, "run", "-c", g.Config)
	if code := p.ExitCode(t); code != 4 || !strings.Contains(p.Stderr.String(), "chmod 0700") {
		t.Errorf("keys that others can read were used: exit %d", code)
	}
}

func TestThePreferredChainIsServed(t *testing.T) {
	i := NewIssuer(t, IssuerOptions{Roots: 1})
	root, err := x509.ParseCertificate(i.PEM(t, "/roots/1"))
	if err != nil {
		t.Fatal(err)
	}
	Run(t, acmeConfig(i, NewStore(t).YAML(), fmt.Sprintf("challenges: tls-alpn-01, preferred_chain: %q", root.Subject.CommonName), ""))
	pool := x509.NewCertPool()
	pool.AddCert(root)
	Await(t, "the chain to the other root", func() bool {
		_, err := visit(i.TLS, &tls.Config{RootCAs: pool, ServerName: "a.example.com"})
		return err == nil
	})
}

func TestCertificatesThatNameAResponderAreStapled(t *testing.T) {
	var sign func(q *ocsp.Request) ([]byte, error)
	responder := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		q, err := ocsp.ParseRequest(raw)
		if err == nil {
			raw, err = sign(q)
		}
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(raw)
	}))
	defer responder.Close()
	i := NewIssuer(t, IssuerOptions{OCSP: responder.URL})
	ca, err1 := x509.ParseCertificate(i.PEM(t, "/intermediates/0"))
	key, err2 := x509.ParsePKCS1PrivateKey(i.PEM(t, "/intermediate-keys/0"))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	sign = func(q *ocsp.Request) ([]byte, error) {
		now := time.Now()
		return ocsp.CreateResponse(ca, ca, ocsp.Response{
			Status: ocsp.Good, SerialNumber: q.SerialNumber, ThisUpdate: now.Add(-time.Minute), NextUpdate: now.Add(time.Hour),
		}, key)
	}
	Run(t, acmeConfig(i, NewStore(t).YAML(), "challenges: tls-alpn-01", ""))
	i.AwaitLeaf(t, i.TLS, "a.example.com", nil)
	Await(t, "a staple", func() bool {
		cs, err := visit(i.TLS, &tls.Config{RootCAs: i.Roots(t), ServerName: "a.example.com"})
		return err == nil && len(cs.OCSPResponse) > 0
	})
}

func TestAReloadThatAddsAHostKeepsTheCertificatesOfTheOthers(t *testing.T) {
	i := NewIssuer(t, IssuerOptions{})
	config := acmeConfig(i, NewStore(t).YAML(), "challenges: tls-alpn-01", "")
	g := Run(t, config)
	before := i.AwaitLeaf(t, i.TLS, "a.example.com", nil)
	i.AwaitLeaf(t, i.TLS, "b.example.com", nil)
	c := &tls.Config{RootCAs: i.Roots(t), ServerName: "a.example.com"}
	load := StartLoad(t, 2, func() (bool, error) {
		_, err := visit(i.TLS, c)
		return false, err
	})
	g.WriteConfig(t, strings.Replace(config, "b.example.com]", "b.example.com, c.example.com]", 1))
	g.Signal(t, syscall.SIGHUP)
	i.AwaitLeaf(t, i.TLS, "c.example.com", nil)
	load.AwaitProgress(t, 5)
	load.Stop(t)
	if after, err := i.Peek(t, i.TLS, "a.example.com"); err != nil || !after.Equal(before) {
		t.Errorf("another certificate is served for a host that stayed: %v", err)
	}
	if n := i.Issued(); n != 3 {
		t.Errorf("%d certificates were issued for three hosts", n)
	}
}
