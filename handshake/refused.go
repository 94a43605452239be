package handshake

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"
)

// errString is an error that needs no allocation.
type errString string

func (e errString) Error() string { return string(e) }

// RefusedError is a handshake that came to nothing.
type RefusedError struct {
	Reason   Reason
	SNI      string // name that the client asked for, if it came so far
	JA4      string // kind of client, see [JA4], if it came so far and was foreseen to fail
	Upstream bool   // we were the client
	// ALPN and Groups are what the client offered, where that was foreseen to fail.
	ALPN     []string
	Groups   []tls.CurveID
	Identity bool  // TLS was agreed on; the proof of an identity failed
	PQ       PQ    // policy in force
	Err      error // what crypto/tls or the network said; may be nil
}

// Error says the reason, the policy, and what the layer below said.
func (e *RefusedError) Error() string {
	text := "tls handshake refused: " + string(e.Reason)
	switch {
	case e.Identity && e.Upstream:
		text = "identity of the server not proven: " + string(e.Reason)
	case e.Identity:
		text = "identity of the client not proven: " + string(e.Reason)
	case e.Upstream && e.Reason == Connect:
		text = "cannot connect"
	case e.Upstream:
		text = "tls handshake with the server failed (pq: " + e.PQ.String() + "): " + string(e.Reason)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap is what the layer below said.
func (e *RefusedError) Unwrap() error { return e.Err }

// Hint tells an operator what to check; "" where there is nothing to say.
func (e *RefusedError) Hint() string {
	if !e.Upstream {
		return hints[e.Reason]
	}
	switch e.Reason {
	case Timeout, Reset, EOF:
		if e.PQ != Off {
			return middlebox
		}
	}
	return upstreamHints[e.Reason]
}

// classify finds the reason of an error of crypto/tls. What is typed comes
// first, then what the hello let us foresee, then the few texts that
// crypto/tls has no type for; a test provokes each of those.
func classify(err error, client bool, foreseen Reason) Reason {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused.Reason
	}
	if r := classifyNetwork(err); r != "" {
		return r
	}
	if code, ok := remoteAlert(err); ok {
		if client {
			return reasonOfServerAlert(code)
		}
		return reasonOfClientAlert(code)
	}
	var header tls.RecordHeaderError
	if errors.As(err, &header) {
		if header.Conn != nil { // nothing but the very first record
			return NotTLS
		}
		return BadHello
	}
	var unverified *tls.CertificateVerificationError
	if errors.As(err, &unverified) {
		if client {
			return ServerCertificate
		}
		return ClientCertificate
	}
	if foreseen != "" {
		return foreseen
	}
	if r := classifyText(err.Error()); r != "" {
		return r
	}
	if errors.Is(err, net.ErrClosed) { // quic-go says so of all its errors
		return Canceled
	}
	return BadHello
}

// classifyNetwork knows the ways a connection itself can end.
func classifyNetwork(err error) Reason {
	var timeout net.Error
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		return Connect
	case errors.Is(err, context.Canceled), errors.Is(err, io.ErrClosedPipe):
		return Canceled
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.As(err, &timeout) && timeout.Timeout():
		return Timeout
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Reset
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return EOF
	}
	return ""
}

// remoteAlert is the alert that the peer sent. crypto/tls wraps it in a
// *net.OpError, as a number of a type that it does not export.
func remoteAlert(err error) (uint8, bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return 0, false
	}
	v := reflect.ValueOf(op.Err)
	if v.Kind() != reflect.Uint8 {
		return 0, false
	}
	return uint8(v.Uint()), true
}

// Alerts that mean something to us (RFC 8446, section 6.2).
const (
	alertHandshakeFailure     = 40
	alertBadCertificate       = 42
	alertCertificateUnknown   = 46
	alertUnknownCA            = 48
	alertAccessDenied         = 49
	alertProtocolVersion      = 70
	alertInsufficientSecurity = 71
	alertUnrecognizedName     = 112
	alertCertificateRequired  = 116
	alertNoALPN               = 120
)

// reasonOfClientAlert reads an alert that a client sent to us.
func reasonOfClientAlert(code uint8) Reason {
	if code >= alertBadCertificate && code <= alertCertificateUnknown || code == alertUnknownCA {
		return CertificateRejected
	}
	return PeerAlert
}

// reasonOfServerAlert reads an alert that an upstream sent to us.
func reasonOfServerAlert(code uint8) Reason {
	switch code {
	case alertHandshakeFailure, alertInsufficientSecurity:
		return NoSharedGroup
	case alertProtocolVersion:
		return NoSharedVersion
	case alertUnrecognizedName:
		return NoSNIMatch
	case alertNoALPN:
		return NoSharedALPN
	case alertUnknownCA, alertAccessDenied, alertCertificateRequired:
		return ClientCertificate
	}
	if code >= alertBadCertificate && code <= alertCertificateUnknown {
		return ClientCertificate
	}
	return PeerAlert
}

// texts are what crypto/tls says without a type.
var texts = []struct {
	part   string
	reason Reason
}{
	{"no key exchanges supported by both", NoSharedGroup},
	{"offered only unsupported versions", NoSharedVersion},
	{"selected unsupported protocol version", NoSharedVersion},
	{"no cipher suite supported by both", NoSharedCipher},
	{"unsupported application protocols", NoSharedALPN},
	{"did not request an application protocol", NoSharedALPN},
	{"did not select an ALPN protocol", NoSharedALPN},
	{"selected unadvertised ALPN", NoSharedALPN},
	{"no certificates configured", NoSNIMatch},
	{"client didn't provide a certificate", ClientCertificate},
	{"by the client certificate", ClientCertificate},
	{"client certificate", ClientCertificate},
	{"by the server certificate", ServerCertificate},
	{"certificate's signature algorithms", NoCertificate},
	{"failed to sign", NoCertificate},
	{"internal error:", Internal},
}

func classifyText(text string) Reason {
	for _, t := range texts {
		if strings.Contains(text, t.part) {
			return t.reason
		}
	}
	return ""
}

// sharpen names the group reasons after the policy.
func (r Reason) sharpen(pq PQ) Reason {
	if r == NoSharedGroup && pq.Required() {
		return NoSharedPQGroup
	}
	return r
}
