package telemetry

import "math/rand/v2"

// RequestIDLen is the length of an id of ours: 128 bits in hexadecimal.
const RequestIDLen = 32

// maxRequestID bounds an id that we take over from a trusted sender.
const maxRequestID = 128

// AppendRequestID appends a new id, RequestIDLen lower-case hexadecimal
// digits. It comes from the runtime's ChaCha8 generators, one a thread and
// seeded by the system: no lock, no allocation, and not to be guessed from
// others, yet no secret: it must not be used as a key.
func AppendRequestID(b []byte) []byte {
	return appendHex64(appendHex64(b, rand.Uint64()), rand.Uint64())
}

// ValidRequestID says whether an id that a sender gave may be taken over: 1
// to 128 letters, digits and "-_.:/+=@", which no log or header misreads.
func ValidRequestID(id []byte) bool {
	if len(id) == 0 || len(id) > maxRequestID {
		return false
	}
	for _, c := range id {
		if !requestIDByte[c] {
			return false
		}
	}
	return true
}

var requestIDByte = func() (t [256]bool) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:/+=@" {
		t[c] = true
	}
	return t
}()

// appendHex64 appends v as 16 lower-case hexadecimal digits.
func appendHex64(b []byte, v uint64) []byte {
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, hexDigits[v>>shift&0xf])
	}
	return b
}
