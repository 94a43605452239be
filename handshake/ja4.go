package handshake

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"slices"
)

// Extensions that JA4 treats apart (RFC 8446, section 4.2; RFC 9001, section 8.2).
const (
	extServerName          = 0x0000
	extALPN                = 0x0010
	extQUICTransportParams = 0x0039
)

// JA4 is the fingerprint of a kind of client, made from its hello as FoxIO's
// JA4 has it (technical details of JA4, TLS client): what it speaks, and
// digests of the cipher suites and extensions that it offers. Clients of one
// program and version share it. It is computed where something is to be told
// of the client, not for every connection.
func JA4(hello *tls.ClientHelloInfo) string {
	ciphers := withoutGREASE(hello.CipherSuites)
	extensions := withoutGREASE(hello.Extensions)
	b := make([]byte, 0, 36)
	b = append(b, transportLetter(extensions))
	b = append(b, newestVersion(hello.SupportedVersions)...)
	if slices.Contains(extensions, extServerName) {
		b = append(b, 'd')
	} else {
		b = append(b, 'i')
	}
	b = appendCount(b, len(ciphers))
	b = appendCount(b, len(extensions))
	b = append(b, alpnLetters(hello.SupportedProtos)...)

	slices.Sort(ciphers)
	b = append(b, '_')
	b = append(b, digest(appendHex(nil, ciphers))...)

	extensions = slices.DeleteFunc(extensions, func(e uint16) bool { return e == extServerName || e == extALPN })
	slices.Sort(extensions)
	list := appendHex(nil, extensions)
	if len(hello.SignatureSchemes) > 0 {
		list = appendHex(append(list, '_'), withoutGREASE(hello.SignatureSchemes))
	}
	b = append(b, '_')
	return string(append(b, digest(list)...))
}

func transportLetter(extensions []uint16) byte {
	if slices.Contains(extensions, extQUICTransportParams) {
		return 'q'
	}
	return 't'
}

// newestVersion is the highest version offered, in two characters.
func newestVersion(versions []uint16) string {
	versions = withoutGREASE(versions)
	if len(versions) == 0 {
		return "00"
	}
	switch slices.Max(versions) {
	case tls.VersionTLS13:
		return "13"
	case tls.VersionTLS12:
		return "12"
	case tls.VersionTLS11:
		return "11"
	case tls.VersionTLS10:
		return "10"
	}
	return "00"
}

// appendCount appends n in two digits; more than 99 is 99.
func appendCount(b []byte, n int) []byte {
	n = min(n, 99)
	return append(b, byte('0'+n/10), byte('0'+n%10))
}

// alpnLetters are the first and the last character of the first protocol, or
// of its bytes in hexadecimal where one of them is no letter or digit.
func alpnLetters(protos []string) string {
	if len(protos) == 0 || protos[0] == "" {
		return "00"
	}
	p := protos[0]
	if !alphanumeric(p[0]) || !alphanumeric(p[len(p)-1]) {
		p = hex.EncodeToString([]byte(p))
	}
	return string([]byte{p[0], p[len(p)-1]})
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// digest is the first 12 digits of the list's SHA-256; zeros for an empty list.
func digest(list []byte) string {
	if len(list) == 0 {
		return "000000000000"
	}
	sum := sha256.Sum256(list)
	return hex.EncodeToString(sum[:6])
}

// appendHex appends the values in four digits each, with commas between.
func appendHex[T ~uint16](b []byte, values []T) []byte {
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = hex.AppendEncode(b, []byte{byte(v >> 8), byte(v)})
	}
	return b
}

// withoutGREASE is a copy without the values that clients make up to keep
// servers tolerant (RFC 8701, section 2).
func withoutGREASE[T ~uint16](values []T) []T {
	return slices.DeleteFunc(slices.Clone(values), func(v T) bool { return v&0x0f0f == 0x0a0a && v>>8 == v&0xff })
}
