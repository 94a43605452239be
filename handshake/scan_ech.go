package handshake

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"strings"

	"github.com/hanzoai/pqgw/kms"
)

// ECHOutcome is what became of an Encrypted Client Hello (RFC 9849).
type ECHOutcome string

// The outcomes.
const (
	ECHAccepted ECHOutcome = "accepted" // the hello within was read
	ECHRetry    ECHOutcome = "retry"    // it was not, and other configurations were given
	ECHIgnored  ECHOutcome = "ignored"  // the server went on as if nothing had been encrypted
	ECHBroken   ECHOutcome = "broken"   // there was no connection
)

// ECHCheck is what a server does with encrypted hellos.
type ECHCheck struct {
	// Given is what became of a hello by the configuration of the options, empty
	// where there was none.
	Given ECHOutcome
	// Stale is what became of one by a key that the server cannot have: what it does
	// with a record that is old, and with what browsers send to servers that have no keys.
	Stale  ECHOutcome
	Reason Reason // why there was no connection
	// RetryConfigs is the ECHConfigList that it gave for another try, PublicName the
	// name in it, and Retried what became of a hello by it.
	RetryConfigs []byte
	PublicName   string
	Retried      ECHOutcome
	// PublicErr is why a client would not believe the server the configurations: they
	// are vouched for by its certificate for PublicName.
	PublicErr error
}

// Supported reports whether the server has keys for encrypted hellos.
func (c *ECHCheck) Supported() bool {
	return c.Given == ECHAccepted || c.Given == ECHRetry || c.Stale == ECHRetry
}

// checkECH makes up to four connections.
func (o ProbeOptions) checkECH(ctx context.Context, name string) ECHCheck {
	var c ECHCheck
	var tried echTry
	if len(o.ECHConfigList) > 0 {
		tried = o.tryECH(ctx, o.ECHConfigList)
		c.Given, c.Reason = tried.outcome, tried.reason
		c.retryBy(tried)
	}
	if tried = o.tryECH(ctx, strangersConfig(name)); c.Reason == "" {
		c.Reason = tried.reason
	}
	c.Stale = tried.outcome
	c.retryBy(tried)
	if len(c.RetryConfigs) == 0 {
		return c
	}
	c.Retried = o.tryECH(ctx, c.RetryConfigs).outcome
	if !o.NoVerify {
		c.PublicErr = o.verifyPublic(ctx, c.PublicName)
	}
	return c
}

// retryBy notes the configurations that a server gave.
func (c *ECHCheck) retryBy(t echTry) {
	if list, name, err := kms.ParseECHConfigList(t.retry); err == nil {
		c.RetryConfigs, c.PublicName = list, name
	}
}

// standInName is for hosts whose own name cannot be a public one: addresses, names of
// one label.
const standInName = "public.invalid"

// strangersConfig is the configuration of a key that nobody keeps.
func strangersConfig(publicName string) []byte {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil
	}
	id := make([]byte, 1)
	_, _ = rand.Read(id)
	var config []byte
	if strings.Contains(publicName, ".") {
		config, _ = kms.NewECHConfig(id[0], private.PublicKey().Bytes(), publicName)
	}
	if config == nil {
		config, _ = kms.NewECHConfig(id[0], private.PublicKey().Bytes(), standInName)
	}
	return append([]byte{byte(len(config) >> 8), byte(len(config))}, config...)
}

// echTry is one connection with an encrypted hello.
type echTry struct {
	outcome ECHOutcome
	reason  Reason
	retry   []byte
}

func (o ProbeOptions) tryECH(ctx context.Context, list []byte) (t echTry) {
	check, err := o.connection(ctx, "ECH", nil, func(c *tls.Config) {
		c.MinVersion, c.EncryptedClientHelloConfigList = tls.VersionTLS13, list
		c.EncryptedClientHelloRejectionVerify = func(tls.ConnectionState) error {
			return nil // what the server says is what we want to know
		}
	})
	var rejected *tls.ECHRejectionError
	switch {
	case check.Passed && check.Facts.ECH:
		t.outcome = ECHAccepted
	case errors.As(err, &rejected) && len(rejected.RetryConfigList) > 0:
		t.outcome, t.retry = ECHRetry, rejected.RetryConfigList
	case errors.As(err, &rejected):
		t.outcome = ECHIgnored
	default:
		t.outcome, t.reason = ECHBroken, check.Reason
	}
	return t
}

// verifyPublic verifies the certificate that is shown for the public name, as
// crypto/tls does for a client whose hello was not read.
func (o ProbeOptions) verifyPublic(ctx context.Context, publicName string) error {
	_, err := o.connection(ctx, "ECH", nil, func(c *tls.Config) {
		c.MinVersion, c.EncryptedClientHelloConfigList = tls.VersionTLS13, strangersConfig(publicName)
		c.RootCAs = o.Roots
	})
	var unverified *tls.CertificateVerificationError
	if errors.As(err, &unverified) {
		return unverified.Err
	}
	return nil
}

// echWeaknesses name what the operator of the server may want to change.
func (s *ScanResult) echWeaknesses() []Weakness {
	c := &s.ECH
	var found []Weakness
	switch c.Given {
	case ECHRetry:
		found = append(found, Weakness{"ech_config_stale", "the ECH configuration given is not accepted any more: clients lose a round trip; publish the one that the server gives"})
	case ECHIgnored:
		found = append(found, Weakness{"ech_config_unknown", "the ECH configuration given is published for a server that has no keys: clients that hold to it cannot connect"})
	case ECHBroken:
		found = append(found, Weakness{"ech_config_broken", "a client with the ECH configuration given cannot connect (" + string(c.Reason) + ")"})
	}
	if c.Stale == ECHBroken && s.Versions[0].Passed {
		found = append(found, Weakness{"ech_intolerant", "a hello with an ECH extension of no meaning fails (" + string(c.Reason) + "): browsers send such to every server"})
	}
	if c.Retried != "" && c.Retried != ECHAccepted {
		found = append(found, Weakness{"ech_retry", "the ECH configuration that the server gives for another try is not accepted"})
	}
	if c.PublicErr != nil {
		found = append(found, Weakness{"ech_public_name", "clients will not believe the server its ECH configuration: the certificate for " + c.PublicName + " does not verify: " + c.PublicErr.Error()})
	}
	return found
}
