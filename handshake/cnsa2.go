package handshake

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"runtime"
	"slices"
)

// cnsa2Groups are the key exchanges of [CNSA2].
var cnsa2Groups = []tls.CurveID{tls.SecP384r1MLKEM1024, mlkem1024}

// Required tells whether a peer without post-quantum key exchange is refused.
func (p PQ) Required() bool { return p == Require || p == CNSA2 }

func errNoCNSA2() error {
	return fmt.Errorf("pq: cnsa2 needs ML-DSA in TLS, which a build with Go 1.27 or later has; this one is of %s", runtime.Version())
}

const errNotMLDSA87 = errString("pq is cnsa2, and a certificate is not ML-DSA-87; 'pqgw cert ca DIR --alg ml-dsa-87' makes such an authority")

// ownCertificate checks one that we are about to show.
func (r *rules) ownCertificate(cert *tls.Certificate) error {
	if r.pq != CNSA2 || cert == nil || len(cert.Certificate) == 0 {
		return nil
	}
	leaf := cert.Leaf
	if leaf == nil {
		var err error
		if leaf, err = x509.ParseCertificate(cert.Certificate[0]); err != nil {
			return err
		}
	}
	if !mldsa87(leaf) {
		return errNotMLDSA87
	}
	return nil
}

// verify returns what checks the certificates of a peer besides what crypto/tls
// does; nil where nothing is asked. Every link of one of the chains must be
// ML-DSA-87: one of another kind would be the weakest.
func (r *rules) verify(client bool) func(tls.ConnectionState) error {
	if r.pq != CNSA2 {
		return nil
	}
	reason := ClientCertificate
	if client {
		reason = ServerCertificate
	}
	return func(cs tls.ConnectionState) error {
		if len(cs.PeerCertificates) == 0 {
			return nil // whether one is needed is for ClientAuth to say
		}
		chains := cs.VerifiedChains
		if len(chains) == 0 { // nobody asked for its verification
			chains = [][]*x509.Certificate{cs.PeerCertificates}
		}
		for _, chain := range chains {
			if !slices.ContainsFunc(chain, func(c *x509.Certificate) bool { return !mldsa87(c) }) {
				return nil
			}
		}
		return &RefusedError{Reason: reason, PQ: CNSA2, Upstream: client, Err: errNotMLDSA87}
	}
}
