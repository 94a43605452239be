package pqgw

import (
	"context"
	"crypto"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/handshake/remotesign"
	"github.com/hanzoai/pqgw/kms"
)

// elsewhere are signers that tell whether they were closed.
type elsewhere struct{ closed atomic.Bool }

func (e *elsewhere) Public(context.Context, string) (crypto.PublicKey, error) { return nil, nil }
func (e *elsewhere) SignerOf(string, string, crypto.PublicKey) (kms.Signer, error) {
	return nil, nil
}

func (e *elsewhere) Close() error {
	e.closed.Store(true)
	return nil
}

func TestAReloadLeavesSignersToHandshakesThatHaveBegun(t *testing.T) {
	synctest.Test(t, leavesSigners)
}

func leavesSigners(t *testing.T) {
	ca, _, err := handshake.MakeAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	issued, err := ca.IssueFiles(time.Hour, "site.test")
	if err != nil {
		t.Fatal(err)
	}
	signers := [2]*elsewhere{{}, {}}
	all := &sources{by: map[handshake.Source]any{}}
	var stays handshake.Source
	for i, e := range signers {
		src, err := remotesign.NewSource(e, remotesign.SourceSettings{Key: "site", Chain: issued.CertFile})
		if err != nil {
			t.Fatal(err)
		}
		if all.by[src] = i; i == 1 {
			stays = src
		}
	}
	s := &Server{ending: make(chan struct{})}
	old := &state{loaded: &Loaded{Tree: config.New()}, sources: all}
	next := &state{sources: &sources{by: map[handshake.Source]any{stays: 1}}}
	s.leaveSources(old, next)
	synctest.Wait()
	if signers[0].closed.Load() {
		t.Error("the signers were closed with the reload")
	}
	close(s.ending)
	s.retiring.Wait()
	if !signers[0].closed.Load() {
		t.Error("the signers that nothing uses any more stay open")
	}
	if signers[1].closed.Load() {
		t.Error("signers that the next configuration has were closed")
	}
	if err := stays.Close(); err != nil {
		t.Error(err)
	}
}
