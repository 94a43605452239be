package pqgw

import (
	"path/filepath"
	"testing"

	"github.com/hanzoai/pqgw/config"
	"github.com/hanzoai/pqgw/kms"
)

// newKMS makes a key store, and the settings that name it.
func newKMS(t *testing.T) *config.KMS {
	t.Helper()
	dir := t.TempDir()
	master := kms.MasterFile{Path: filepath.Join(dir, "master")}
	key, err := master.Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := kms.Init(filepath.Join(dir, "store"), key); err != nil {
		t.Fatal(err)
	}
	k := &config.KMS{Dir: config.File(filepath.Join(dir, "store"))}
	k.Master.File = config.File(master.Path)
	return k
}

func ask(t *testing.T, s *Stores, k *config.KMS) *kms.Store {
	t.Helper()
	store, err := s.store(k, false)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// wantOpen puts something: to look at what is there a store need not be open.
func wantOpen(t *testing.T, store *kms.Store, want bool) {
	t.Helper()
	value := kms.NewSecret([]byte("value"))
	defer value.Close()
	_, err := store.Put(t.Context(), kms.Entry{Name: "name", Kind: kms.KindSecret, Value: value})
	if (err == nil) != want {
		t.Errorf("put: %v, want an open store: %v", err, want)
	}
}

func TestAStoreLeftBehindTakesNoneOfTheNextConfigurationsWithIt(t *testing.T) {
	s := &Stores{}
	defer s.Close()
	first, second := newKMS(t), newKMS(t)
	one := ask(t, s, first)
	s.hold(first)

	// A reload to the second store, in which the first is given back by a reload before.
	two := ask(t, s, second)
	s.release(first)
	wantOpen(t, one, false)
	wantOpen(t, two, true)
	s.hold(second)

	// The same with the store that is being given back.
	if again := ask(t, s, second); again != two {
		t.Error("a store that is held was opened twice")
	}
	s.release(second)
	wantOpen(t, two, true)
	s.hold(second)

	// A configuration that is refused leaves nothing open, and nothing that is held closed.
	one = ask(t, s, first)
	s.refuse()
	wantOpen(t, one, false)
	wantOpen(t, two, true)
	s.release(second)
	wantOpen(t, two, false)
}
