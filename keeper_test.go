package pqgw

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/kms"
)

func TestKeysThatCannotBeReadKeepNoOthersFromTheirTime(t *testing.T) {
	s := &Server{logger: slog.New(slog.DiscardHandler), stores: &Stores{}}
	defer s.stores.Close()
	store := ask(t, s.stores, newKMS(t))
	value := kms.NewSecret([]byte("no keys"))
	defer value.Close()
	if _, err := store.Put(t.Context(), kms.Entry{Name: "ech", Kind: kms.KindSecret, Value: value}); err != nil {
		t.Fatal(err)
	}
	st := &state{rings: &rings{store: store, tickets: ring[kms.TicketRing]{name: "tickets"}, ech: ring[kms.ECHRing]{name: "ech"}}}
	if err := newKeeper(s).renew(st, time.Now()); !errors.Is(err, kms.ErrKind) {
		t.Errorf("error is %v, want %v", err, kms.ErrKind)
	}
	if len(st.roots) != 1 {
		t.Errorf("%d ticket roots are in force, want 1", len(st.roots))
	}
}
