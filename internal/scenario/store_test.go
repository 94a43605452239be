package scenario

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanzoai/pqgw/kms"
)

// The promise: keys come from a sealed store. Gateways that share it resume
// each other's sessions; what is rotated in it is taken up without a restart and
// without a lost handshake; the configuration reads its secrets from it.

// storeGateway is a gateway with one listener, whose certificate is an entry
// of the store named edge.
func storeGateway(t *testing.T, s *Store, listener, more string) (g *Gateway, addr string) {
	t.Helper()
	addr = FreeAddr(t)
	return Run(t, fmt.Sprintf(`version: 1
%s
tls: {public: {certificates: {kms: {store: edge}}}}
listeners: [{name: edge, address: %q, tls: public%s}]
routes: [{to: trace}]
%s`, s.YAML("ech_public_name: cover.example.com"), addr, listener, more)), addr
}

// putLeaf puts a certificate into the store, its key by stdin.
func (s *Store) putLeaf(t *testing.T, name string, leaf Leaf) {
	t.Helper()
	key, err := os.ReadFile(leaf.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	s.KMS(t, string(key), "put", name, "--kind", "certificate", "--public", leaf.CertFile)
}

// visit makes one connection by the configuration, with one request, so that
// the client has its ticket.
func visit(addr string, c *tls.Config) (tls.ConnectionState, error) {
	conn, err := tls.Dial("tcp", addr, c)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	buf := make([]byte, 1)
	_, err = conn.Read(buf)
	return conn.ConnectionState(), err
}

func TestGatewaysOfOneStoreResumeEachOthersSessions(t *testing.T) {
	ca, s := NewCA(t), NewStore(t)
	s.putLeaf(t, "edge", ca.Leaf(t, "localhost"))
	_, first := storeGateway(t, s, "", "")
	_, second := storeGateway(t, s, "", "")
	c := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(4)}
	for i, addr := range []string{first, second, first} {
		cs, err := visit(addr, c)
		if err != nil {
			t.Fatal(err)
		}
		if cs.DidResume != (i > 0) {
			t.Errorf("visit %d: resumed %v", i, cs.DidResume)
		}
	}
	other := NewStore(t)
	other.putLeaf(t, "edge", ca.Leaf(t, "localhost"))
	_, stranger := storeGateway(t, other, "", "")
	if cs, err := visit(stranger, c); err != nil || cs.DidResume {
		t.Errorf("a gateway of another store resumed: %v, %v", cs.DidResume, err)
	}
}

func TestRotationsLoseNoHandshake(t *testing.T) {
	ca, s := NewCA(t), NewStore(t)
	s.putLeaf(t, "edge", ca.Leaf(t, "localhost"))
	g, addr := storeGateway(t, s, "", "")
	resuming := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost", ClientSessionCache: tls.NewLRUClientSessionCache(4)}
	fresh := &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}
	load := StartLoad(t, 2, func() (bool, error) {
		if cs, err := visit(addr, resuming); err != nil {
			return false, fmt.Errorf("resumed %v: %w", cs.DidResume, err)
		}
		_, err := visit(addr, fresh)
		return false, err
	})
	load.AwaitProgress(t, 5)
	s.KMS(t, "", "rotate", "tickets")
	g.Stderr.AwaitText(t, "2 ticket roots")
	load.AwaitProgress(t, 5)

	next := ca.Leaf(t, "localhost")
	s.putLeaf(t, "edge", next)
	Await(t, "the new certificate to be served", func() bool {
		cs, err := visit(addr, fresh)
		return err == nil && cs.PeerCertificates[0].SerialNumber.Cmp(next.Serial) == 0
	})
	load.AwaitProgress(t, 5)

	s.KMS(t, "", "rotate")
	s.KMS(t, "", "rotate", "tickets") // sealed to the new master, of which the gateway must learn
	g.Stderr.AwaitText(t, "3 ticket roots")
	load.AwaitProgress(t, 5)
	load.Stop(t)
	s.KMS(t, "", "audit", "--verify")
}

// The store's lock in the hands of a process that was stopped keeps no gateway from
// serving, nor from ending.
func TestAWriterOfTheStoreThatHangsHoldsNothingUp(t *testing.T) {
	ca, s := NewCA(t), NewStore(t)
	s.putLeaf(t, "edge", ca.Leaf(t, "localhost"))
	addr := FreeAddr(t)
	g := Run(t, fmt.Sprintf(`version: 1
%s
tls: {public: {certificates: {kms: {store: edge}}}}
listeners: [{name: edge, address: %q, tls: public}]
routes: [{to: trace}]`, s.YAML("ticket_rotation: 1s"), addr))
	g.Stderr.AwaitText(t, "2 ticket roots")
	unlock, err := kms.LockFile(t.Context(), filepath.Join(s.Dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	g.Stderr.AwaitText(t, "another writer may be at work")
	if _, err := visit(addr, &tls.Config{RootCAs: ca.Pool(), ServerName: "localhost"}); err != nil {
		t.Errorf("while a writer hangs: %v", err)
	}
	g.Stop(t)
}

func TestSecretsOfTheConfigurationComeFromTheStore(t *testing.T) {
	ca, s := NewCA(t), NewStore(t)
	leaf, addr := ca.Leaf(t, "localhost"), FreeAddr(t)
	s.KMS(t, "hunter2\n", "put", "greeting")
	Run(t, fmt.Sprintf(`version: 1
%s
tls: {public: {certificates: {files: {cert: %q, key: %q}}}}
listeners: [{name: edge, address: %q, tls: public}]
routes: [{respond: {body: "${kms:greeting}"}}]`, s.YAML(), leaf.CertFile, leaf.KeyFile, addr))
	body, _, err := Get(ca.Client(t, true), "https://localhost:"+Port(t, addr)+"/")
	if err != nil || body != "hunter2" {
		t.Errorf("got %q, %v; want the secret", body, err)
	}
}

// published is what `pqgw kms ech publish` gives out.
type published struct {
	ConfigList []byte `json:"config_list"`
	Record     string `json:"record"`
}

func (s *Store) publish(t *testing.T) (p published) {
	t.Helper()
	if err := json.Unmarshal([]byte(s.KMS(t, "", "ech", "publish", "ech", "--output", "json")), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestEncryptedClientHelloByTheStoresKeys(t *testing.T) {
	ca, s := NewCA(t), NewStore(t)
	s.putLeaf(t, "edge", ca.Leaf(t, "cover.example.com", "hidden.example.com"))
	g, addr := storeGateway(t, s, ", ech: true", "")
	p := s.publish(t)
	if !strings.Contains(p.Record, "ech=") {
		t.Fatalf("the record is %s", p.Record)
	}
	hello := func() (tls.ConnectionState, error) {
		return visit(addr, &tls.Config{RootCAs: ca.Pool(), ServerName: "hidden.example.com", EncryptedClientHelloConfigList: p.ConfigList})
	}
	cs, err := hello()
	if err != nil || !cs.ECHAccepted || cs.ServerName != "hidden.example.com" {
		t.Fatalf("ECH accepted %v for %q: %v", cs.ECHAccepted, cs.ServerName, err)
	}
	g.AwaitAccess(t, "the inner name", func(a Access) bool { return a.TLSSNI == "hidden.example.com" })
	s.KMS(t, "", "ech", "rotate", "ech", "--force")
	g.Stderr.AwaitText(t, `"ech":2`)
	if cs, err = hello(); err != nil || !cs.ECHAccepted {
		t.Errorf("after a rotation the old key is not accepted: %v", err)
	}
}
