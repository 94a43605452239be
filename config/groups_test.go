//go:build !go1.27

package config

import (
	"strings"
	"testing"
)

func TestMLKEM1024NeedsANewerBuild(t *testing.T) {
	_, _, err := Parse("f.yaml", []byte(aTLS("groups: [MLKEM1024, X25519]")), testOptions())
	if err == nil || !strings.Contains(err.Error(), `tls.s.groups[0]: unknown value "MLKEM1024"; it needs a build with Go 1.27 or later`) {
		t.Errorf("%v", err)
	}
}

func TestCNSA2NeedsANewerBuild(t *testing.T) {
	_, _, err := Parse("f.yaml", []byte(aTLS("pq: cnsa2")), testOptions())
	if err == nil || !strings.Contains(err.Error(), `tls.s.pq: unknown value "cnsa2"; it needs a build with Go 1.27 or later`) {
		t.Errorf("%v", err)
	}
}
