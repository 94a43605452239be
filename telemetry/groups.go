package telemetry

import "crypto/tls"

// groups are the key-exchange groups that metrics tell apart; the places
// after them stand for none (an RSA key exchange) and for any other, so that
// nobody outside makes up labels.
var groups = [...]tls.CurveID{
	tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024, mlkem1024,
	tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521,
	0, unnamed,
}

const (
	// mlkem1024 is the pure group of draft-ietf-tls-mlkem, section 3.
	mlkem1024 tls.CurveID = 0x0202
	// unnamed is a number of those set aside for private use, which
	// handshake.GroupName calls "other".
	unnamed    tls.CurveID = 0xffff
	groupOther             = len(groups) - 1
)

// groupIndex is where id stands in groups.
func groupIndex(id tls.CurveID) int {
	for i, g := range groups {
		if g == id {
			return i
		}
	}
	return groupOther
}

// versions are the TLS versions that metrics tell apart.
var versions = [...]string{"1.3", "1.2", "other"}

func versionIndex(v uint16) int {
	switch v {
	case tls.VersionTLS13:
		return 0
	case tls.VersionTLS12:
		return 1
	}
	return 2
}
