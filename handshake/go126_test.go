//go:build !go1.27

package handshake

import (
	"slices"
	"strings"
	"testing"
)

func TestThisBuildRefusesCNSA2AndSaysWhy(t *testing.T) {
	const why = "a build with Go 1.27 or later has"
	if _, err := ParsePQ("cnsa2"); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%v", err)
	}
	src, _ := selfSigned(t, "a.test")
	if _, err := NewServer(Settings{Sources: []Source{src}, PQ: CNSA2}); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("a server: %v", err)
	}
	if _, err := NewClient(ClientSettings{PQ: CNSA2}); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("a client: %v", err)
	}
}

// TestGroupsThatTheToolchainTookAwayAreNoticed is the silent loss of hybrids
// by GODEBUG, which an explicit list of groups does not prevent
// before Go 1.27.
func TestGroupsThatTheToolchainTookAwayAreNoticed(t *testing.T) {
	t.Setenv("GODEBUG", "tlsmlkem=0")
	src, _ := selfSigned(t, "example.com")
	srv := newServer(t, Settings{Sources: []Source{src}})
	if got := srv.GroupsInForce(); slices.Contains(got, "X25519MLKEM768") || len(srv.Warnings()) != 1 {
		t.Errorf("groups %v, warnings %q", got, srv.Warnings())
	}
	_, err := NewServer(Settings{Sources: []Source{src}, PQ: Require})
	if err == nil || !strings.Contains(err.Error(), "GODEBUG") {
		t.Errorf("require: %v", err)
	}
}
