package handshake

import (
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"testing"

	"github.com/hanzoai/pqgw/kms"
)

// echKey is a new key for public.example, and the list that clients get by DNS.
func echKey(t *testing.T, id uint8) (key tls.EncryptedClientHelloKey, list []byte) {
	t.Helper()
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	config, err := kms.NewECHConfig(id, private.PublicKey().Bytes(), "public.example")
	if err != nil {
		t.Fatal(err)
	}
	key = tls.EncryptedClientHelloKey{Config: config, PrivateKey: private.Bytes(), SendAsRetry: true}
	return key, append([]byte{byte(len(config) >> 8), byte(len(config))}, config...)
}

// TestAnEncryptedHelloIsReadWhileKeysChange follows a client that has an old
// record: its key overlaps, and when it is gone it is told of the new one.
func TestAnEncryptedHelloIsReadWhileKeysChange(t *testing.T) {
	src, roots := selfSigned(t, "secret.example", "public.example")
	srv := newServer(t, Settings{Sources: []Source{src}, StrictSNI: true, PQ: Require})
	before, list := echKey(t, 1)
	after, _ := echKey(t, 2)
	dial := func(list []byte) outcome {
		return shake(t, srv, &tls.Config{RootCAs: roots, ServerName: "secret.example", MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: list})
	}
	accepted := func(when string, o outcome) {
		t.Helper()
		if o.serverErr != nil || o.clientErr != nil || !o.server.ECH || !o.client.ECH || o.server.SNI != "secret.example" || !o.server.PQ() {
			t.Errorf("%s: %+v, %v, %v", when, o.server, o.serverErr, o.clientErr)
		}
	}
	var rejected *tls.ECHRejectionError
	if o := dial(list); !errors.As(o.clientErr, &rejected) || len(rejected.RetryConfigList) != 0 {
		t.Errorf("without keys: %v", o.clientErr)
	}
	srv.SetECHKeys([]tls.EncryptedClientHelloKey{before})
	accepted("its key", dial(list))
	before.SendAsRetry = false
	srv.SetECHKeys([]tls.EncryptedClientHelloKey{after, before})
	accepted("an overlapping key", dial(list))
	srv.SetECHKeys([]tls.EncryptedClientHelloKey{after})
	if o := dial(list); !errors.As(o.clientErr, &rejected) || len(rejected.RetryConfigList) == 0 {
		t.Fatalf("a key that is gone: %v", o.clientErr)
	}
	accepted("the key it was told of", dial(rejected.RetryConfigList))
	plain := shake(t, srv, &tls.Config{RootCAs: roots, ServerName: "secret.example"})
	mustBoth(t, plain)
	if plain.server.ECH {
		t.Error("a plain hello passes for an encrypted one")
	}
}
