package telemetry

import (
	"crypto/tls"
	"fmt"
)

// group is one key-exchange group that metrics tell apart.
type group struct {
	id   tls.CurveID
	name string
	pq   bool
}

// groups are all that the gateway can agree on; the last place stands for any
// other, so that nobody outside makes up labels.
var groups = [...]group{
	{tls.X25519MLKEM768, "X25519MLKEM768", true},
	{tls.SecP256r1MLKEM768, "SecP256r1MLKEM768", true},
	{tls.SecP384r1MLKEM1024, "SecP384r1MLKEM1024", true},
	{mlkem1024, "MLKEM1024", true},
	{tls.X25519, "X25519", false},
	{tls.CurveP256, "P-256", false},
	{tls.CurveP384, "P-384", false},
	{tls.CurveP521, "P-521", false},
	{0, "other", false},
}

// mlkem1024 is the pure group of draft-ietf-tls-mlkem, section 3.
const mlkem1024 tls.CurveID = 0x0202

// groupIndex is where id stands in groups.
func groupIndex(id tls.CurveID) int {
	for i := range groups[:len(groups)-1] {
		if groups[i].id == id {
			return i
		}
	}
	return len(groups) - 1
}

// GroupName is the name of a group in configuration, log, metrics and status:
// that of IANA's registry with NIST curves as "P-256"; unknown ones are their
// number in hexadecimal, and 0 is "".
func GroupName(id tls.CurveID) string {
	if id == 0 {
		return ""
	}
	if i := groupIndex(id); i < len(groups)-1 {
		return groups[i].name
	}
	return fmt.Sprintf("0x%04x", uint16(id))
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
