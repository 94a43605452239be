// Package transitengine answers as the documentation of Vault's Transit secrets engine
// has it ("Transit secrets engine (API)"), for tests of those who ask one.
package transitengine

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// Engine is a Transit engine for tests.
type Engine struct {
	// T is told of what must not happen.
	T testing.TB
	// Keys by name, versions from 1. They are not changed while calls run.
	Keys map[string][]crypto.Signer
	// Token is the one that is taken; calls with another are answered 403.
	Token atomic.Pointer[string]
	// Sealed is how many calls more are answered 503.
	Sealed atomic.Int32
	// Calls counts all of them.
	Calls atomic.Int32
}

// New makes one that takes the token.
func New(t testing.TB, token string) *Engine {
	e := &Engine{T: t, Keys: map[string][]crypto.Signer{}}
	e.Token.Store(&token)
	return e
}

func (e *Engine) answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		e.T.Error(err)
	}
}

func (e *Engine) refuse(w http.ResponseWriter, code int, text string) {
	e.answer(w, code, map[string][]string{"errors": {text}})
}

// ServeHTTP answers a call.
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.Calls.Add(1)
	if e.Sealed.Add(-1) >= 0 {
		e.refuse(w, http.StatusServiceUnavailable, "Vault is sealed")
		return
	}
	if r.Header.Get("X-Vault-Token") != *e.Token.Load() {
		e.refuse(w, http.StatusForbidden, "permission denied")
		return
	}
	verb, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1/transit/"), "/")
	versions := e.Keys[name]
	switch {
	case verb == "moved":
		http.Redirect(w, r, "/v1/transit/keys/site", http.StatusTemporaryRedirect)
	case versions == nil:
		e.refuse(w, http.StatusNotFound, "no such key")
	case verb == "keys" && r.Method == http.MethodGet:
		e.describe(w, versions)
	case verb == "sign" && r.Method == http.MethodPost:
		e.sign(w, r, versions)
	default:
		e.refuse(w, http.StatusBadRequest, "unsupported operation")
	}
}

func (e *Engine) describe(w http.ResponseWriter, versions []crypto.Signer) {
	keys := map[string]any{}
	for i, k := range versions {
		var text string
		if raw, ok := k.Public().(ed25519.PublicKey); ok {
			text = base64.StdEncoding.EncodeToString(raw)
		} else {
			der, err := x509.MarshalPKIXPublicKey(k.Public())
			if err != nil {
				e.T.Error(err)
			}
			text = string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		}
		keys[fmt.Sprint(i+1)] = map[string]string{"public_key": text}
	}
	e.answer(w, http.StatusOK, map[string]any{"data": map[string]any{"latest_version": len(versions), "keys": keys}})
}

var hashes = map[string]crypto.Hash{"sha2-256": crypto.SHA256, "sha2-384": crypto.SHA384, "sha2-512": crypto.SHA512}

func (e *Engine) sign(w http.ResponseWriter, r *http.Request, versions []crypto.Signer) {
	var q struct {
		Input     string `json:"input"`
		Version   int    `json:"key_version"`
		Prehashed bool   `json:"prehashed"`
		Hash      string `json:"hash_algorithm"`
		Scheme    string `json:"signature_algorithm"`
		Salt      string `json:"salt_length"`
		Marshal   string `json:"marshaling_algorithm"`
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || q.Marshal != "asn1" || q.Version < 1 || q.Version > len(versions) {
		e.refuse(w, http.StatusBadRequest, "malformed")
		return
	}
	input, err := base64.StdEncoding.DecodeString(q.Input)
	hash := hashes[q.Hash]
	if err != nil || q.Prehashed != (hash != 0) {
		e.refuse(w, http.StatusBadRequest, "malformed input")
		return
	}
	opts := crypto.SignerOpts(hash)
	if q.Scheme == "pss" && q.Salt == "hash" {
		opts = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash, Hash: hash}
	}
	signature, err := versions[q.Version-1].Sign(rand.Reader, input, opts)
	if err != nil {
		e.refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	text := fmt.Sprintf("vault:v%d:%s", q.Version, base64.StdEncoding.EncodeToString(signature))
	e.answer(w, http.StatusOK, map[string]any{"data": map[string]any{"signature": text, "key_version": q.Version}})
}
