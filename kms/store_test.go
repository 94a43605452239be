package kms

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newStore makes a store with a master file beside it.
func newStore(t testing.TB) (*Store, MasterFile) {
	t.Helper()
	dir := t.TempDir()
	master := MasterFile{Path: filepath.Join(dir, "master")}
	key, err := master.Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := Init(filepath.Join(dir, "store"), key); err != nil {
		t.Fatal(err)
	}
	return reopen(t, filepath.Join(dir, "store"), master), master
}

func reopen(t testing.TB, dir string, master Master) *Store {
	t.Helper()
	s, err := Open(dir, Options{Master: master, Actor: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func put(t testing.TB, s *Store, name, value string) Info {
	t.Helper()
	info, err := s.Put(t.Context(), Entry{Name: name, Kind: KindSecret, Value: NewSecret([]byte(value))})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func get(t testing.TB, s *Store, name string) string {
	t.Helper()
	value, _, err := s.Get(t.Context(), name, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer value.Close()
	return string(value.Reveal())
}

func wantValue(t testing.TB, s *Store, name, want string) {
	t.Helper()
	if got := get(t, s, name); got != want {
		t.Errorf("%s is %q, want %q", name, got, want)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
}

func TestPutAndGetAcrossProcessesAndVersions(t *testing.T) {
	s, master := newStore(t)
	first := put(t, s, "db/password", "one")
	second := put(t, s, "db/password", "two")
	if first.Version != 1 || second.Version != 2 || !second.Created.Equal(first.Created) || second.Rotated.Before(first.Rotated) {
		t.Errorf("infos are %+v and %+v", first, second)
	}
	other := reopen(t, s.Dir(), master)
	wantValue(t, other, "db/password", "two")
	put(t, other, "db/password", "three")
	wantValue(t, s, "db/password", "three")
	previous, info, err := s.GetPrevious(t.Context(), "db/password", "test")
	if err != nil || string(previous.Reveal()) != "two" || info.Version != 2 {
		t.Errorf("the previous one is %q (%+v), %v", previous.Reveal(), info, err)
	}
	if err := s.Delete(t.Context(), "db/password"); err != nil {
		t.Fatal(err)
	}
	_, _, err = other.Get(t.Context(), "db/password", "test")
	wantErr(t, err, ErrNotFound)
	wantErr(t, err, fs.ErrNotExist)
	wantErr(t, s.Delete(t.Context(), "db/password"), ErrNotFound)
}

func TestNoValueStandsInAnyFile(t *testing.T) {
	s, _ := newStore(t)
	const value = "correct horse battery staple"
	put(t, s, "a", value)
	put(t, s, "a", value)
	get(t, s, "a")
	count := 0
	err := filepath.WalkDir(s.Dir(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		count++
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(value)) {
			t.Errorf("%s holds the value", path)
		}
		if info, _ := d.Info(); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil || count < 6 {
		t.Fatalf("%d files, %v", count, err)
	}
}

func TestKindsAndNamesAreBound(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", "one")
	_, err := s.Put(t.Context(), Entry{Name: "a", Kind: KindCA, Value: NewSecret([]byte("x"))})
	wantErr(t, err, ErrKind)
	_, err = s.Put(t.Context(), Entry{Name: "a", Kind: KindSecret, Value: NewSecret([]byte("x")), New: true})
	wantErr(t, err, ErrExists)
	for _, bad := range []string{"", "/a", "a/", "a//b", "..", "a/../b", "a\nb", "\xff", strings.Repeat("a", MaxName+1)} {
		_, err = s.Put(t.Context(), Entry{Name: bad, Kind: KindSecret, Value: NewSecret([]byte("x"))})
		wantErr(t, err, ErrName)
	}
	for _, good := range []string{"a b", "a/b", ".hidden", "A", "%2F", "é", strings.Repeat("long/", 100) + "x", strings.Repeat("long/", 100) + "y"} {
		put(t, s, good, "value of "+good)
	}
	for _, good := range []string{"a b", "a/b", ".hidden", "A", "%2F", "é", strings.Repeat("long/", 100) + "x", strings.Repeat("long/", 100) + "y"} {
		wantValue(t, s, good, "value of "+good)
	}
	infos, damaged, err := s.List()
	if err != nil || len(damaged) != 0 || len(infos) != 9 {
		t.Errorf("listed %d, damaged %v, %v", len(infos), damaged, err)
	}
	_, err = s.Put(t.Context(), Entry{Name: "big", Kind: KindSecret, Value: NewSecret(make([]byte, MaxValue+1))})
	wantErr(t, err, ErrTooLarge)
}

func TestSwappedAndForgedFilesAreRefused(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", "value of a")
	put(t, s, "b", "value of b")
	swap := func(from, to string) {
		data, err := os.ReadFile(from)
		if err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	swap(s.path("a"), s.path("b"))
	_, _, err := s.Get(t.Context(), "b", "test")
	wantErr(t, err, ErrTampered)
	_, damaged, err := s.List()
	if err != nil || len(damaged) != 1 {
		t.Errorf("damaged are %v, %v", damaged, err)
	}
	// Sealed to the right recipient by one who does not have the master.
	h := head{Info: Info{Name: "a", Kind: KindSecret, Version: 9}, Store: s.header.Store, Epoch: 1}
	forged, err := sealDocument(h, []byte("evil"), s.Recipients(), func([]byte) []byte { return make([]byte, 32) })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path("a"), forged, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Get(t.Context(), "a", "test")
	wantErr(t, err, ErrTampered)
}

func TestATornFileIsNoticedAndTheLastWholeOneUsed(t *testing.T) {
	s, master := newStore(t)
	put(t, s, "a", "one")
	put(t, s, "a", "two")
	whole, err := os.ReadFile(s.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{0, 1, 7, 100, len(whole) / 2, len(whole) - 1} {
		// The previous one is a link to an inode of its own: truncating the
		// current file must not touch it.
		if err := os.WriteFile(s.path("a"), whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		wantValue(t, s, "a", "one")
	}
	if info := put(t, s, "a", "three"); info.Version != 2 {
		t.Errorf("the version after a torn one is %d", info.Version)
	}
	previous, _, err := s.GetPrevious(t.Context(), "a", "test")
	if err != nil || string(previous.Reveal()) != "one" {
		t.Errorf("a torn file pushed the last whole one out: %v", err)
	}
	headerPath := filepath.Join(s.Dir(), headerFile)
	if err := os.WriteFile(headerPath, []byte(`{"version":1`), 0o600); err != nil {
		t.Fatal(err)
	}
	again := reopen(t, s.Dir(), master)
	wantValue(t, again, "a", "three")
	put(t, again, "a", "four")
	if _, torn, err := readHeader(s.Dir()); torn || err != nil {
		t.Errorf("a writer did not mend the header: %v", err)
	}
}

func TestAStrangersMasterOpensNothing(t *testing.T) {
	s, _ := newStore(t)
	other := MasterFile{Path: filepath.Join(t.TempDir(), "other")}
	if _, err := other.Create(); err != nil {
		t.Fatal(err)
	}
	_, err := Open(s.Dir(), Options{Master: other})
	wantErr(t, err, ErrNoKey)
}

func TestAHeaderWithAnAddedRecipientIsRefused(t *testing.T) {
	s, master := newStore(t)
	evil, err := NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	h := s.header.header
	h.Recipients = append(h.Recipients, recipientEntry{ID: evil.recipient.ID(), Key: evil.recipient.String(), Recovery: true})
	h.Target = append(h.Target, evil.recipient.ID())
	if err := writeHeader(s.Dir(), h, []*MasterKey{evil}); err != nil {
		t.Fatal(err)
	}
	_, err = Open(s.Dir(), Options{Master: master})
	wantErr(t, err, ErrTampered)
}

// Anyone can seal roots to a public key. A header that calls the master a recovery key
// must not spare its writer the MAC that only the master can make.
func TestAHeaderThatMakesTheMasterARecoveryKeyIsRefused(t *testing.T) {
	s, master := newStore(t)
	either, err := Open(s.Dir(), Options{Master: master, Recovery: true})
	if err != nil {
		t.Fatal(err)
	}
	defer either.Close()
	h := s.header.header
	h.Recipients = slices.Clone(h.Recipients)
	h.Recipients[0].Recovery = true
	forged := roots(nil).grow()
	defer forged.close()
	if h.Roots, err = forged.seal(h.Store, s.header.recipients); err != nil {
		t.Fatal(err)
	}
	if err := writeHeader(s.Dir(), h, nil); err != nil {
		t.Fatal(err)
	}
	_, err = Open(s.Dir(), Options{Master: master})
	wantErr(t, err, ErrTampered)
	wantErr(t, s.load(), ErrTampered)
	wantErr(t, either.load(), ErrTampered) // it was vouched for before
}

func TestARecoveryKeyReadsAndDoesNotWrite(t *testing.T) {
	dir := t.TempDir()
	master, spare := MasterFile{Path: dir + "/master"}, MasterFile{Path: dir + "/spare"}
	key, err := master.Create()
	if err != nil {
		t.Fatal(err)
	}
	spareKey, err := spare.Create()
	if err != nil {
		t.Fatal(err)
	}
	r, err := ParseRecipient(spareKey.Recipient().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := Init(dir+"/store", key, r); err != nil {
		t.Fatal(err)
	}
	s := reopen(t, dir+"/store", master)
	put(t, s, "a", "one")
	_, err = Open(dir+"/store", Options{Master: spare})
	wantErr(t, err, ErrTampered)
	recovered, err := Open(dir+"/store", Options{Master: spare, Recovery: true})
	if err != nil {
		t.Fatal(err)
	}
	defer recovered.Close()
	wantValue(t, recovered, "a", "one")
	_, err = recovered.Put(t.Context(), Entry{Name: "a", Kind: KindSecret, Value: NewSecret([]byte("x"))})
	wantErr(t, err, ErrReadOnly)
	if _, err := s.RotateMaster(t.Context(), Rotation{}); err != nil {
		t.Fatal(err)
	}
	wantValue(t, recovered, "a", "one")
}

// A document without its MAC would be torn for every reader.
func TestNothingIsSealedOnceTheStoreIsClosed(t *testing.T) {
	s, _ := newStore(t)
	v, err := s.view()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []Kind{KindSecret, KindPublic} {
		h := head{Info: Info{Name: "a", Kind: kind, Version: 1}, Store: v.header.Store, Epoch: v.header.Epoch}
		_, err = v.sealSecret(h, NewSecret([]byte("one")))
		wantErr(t, err, ErrClosed)
	}
}

func TestUpdateIsOneStep(t *testing.T) {
	s, master := newStore(t)
	put(t, s, "n", "+")
	const writers, rounds = 4, 5
	var wg sync.WaitGroup
	for range writers {
		other := reopen(t, s.Dir(), master)
		wg.Go(func() {
			for range rounds {
				_, err := other.Update(context.Background(), "n", KindSecret, "test", func(old *Secret) (*Secret, []byte, error) {
					return NewSecret(append(old.Reveal(), '+')), nil, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	wantValue(t, s, "n", strings.Repeat("+", writers*rounds+1))
}

func TestALockedStoreKeepsAWriterWaitingUntilItsContextEnds(t *testing.T) {
	s, _ := newStore(t)
	unlock, err := s.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = s.Put(ctx, Entry{Name: "a", Kind: KindSecret, Value: NewSecret([]byte("x"))})
	wantErr(t, err, context.DeadlineExceeded)
	unlock()
	put(t, s, "a", "x")
}

func TestInitRefusesAStore(t *testing.T) {
	s, _ := newStore(t)
	key, err := NewMasterKey()
	if err != nil {
		t.Fatal(err)
	}
	wantErr(t, Init(s.Dir(), key), ErrExists)
}

func TestNothingIsUsedAfterClose(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", "one")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Get(t.Context(), "a", "test")
	wantErr(t, err, ErrClosed)
}

// within fails the test, with the stacks of all goroutines, when f takes too long.
func within(t *testing.T, d time.Duration, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(d):
		stacks := make([]byte, 1<<20)
		t.Fatalf("still under way after %v:\n%s", d, stacks[:runtime.Stack(stacks, true)])
	}
}

func TestCloseWhileKeysAreUsed(t *testing.T) {
	first, master := newStore(t)
	put(t, first, "a", "one")
	for range 20 {
		s, err := Open(first.Dir(), Options{Master: master})
		if err != nil {
			t.Fatal(err)
		}
		var users sync.WaitGroup
		used := make(chan struct{}, 4)
		for range cap(used) {
			users.Go(func() {
				for told := false; ; told = true {
					value, _, err := s.Get(context.Background(), "a", "test")
					if err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Errorf("a use that met the end: %v", err)
						}
						return
					}
					_ = value.Close()
					if !told {
						used <- struct{}{}
					}
				}
			})
		}
		<-used
		within(t, 20*time.Second, func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			users.Wait()
		})
	}
	report, err := first.VerifyAudit(t.Context(), "")
	if err != nil || len(report.Problems) > 0 || report.Torn > 0 {
		t.Errorf("the audit afterwards: %+v, %v", report, err)
	}
}

func TestAStoppedProcessHoldsUpNobodyForGood(t *testing.T) {
	s, _ := newStore(t)
	put(t, s, "a", "one")
	stopped, err := os.Open(filepath.Join(s.Dir(), auditFile))
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Close()
	if err := flock(stopped, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	s.audit.patience = 20 * time.Millisecond
	_, _, err = s.Get(t.Context(), "a", "test")
	wantErr(t, err, ErrBusy)

	s.audit.patience = time.Hour
	waits := make(chan error, 1)
	go func() {
		_, _, err := s.Get(context.Background(), "a", "test")
		waits <- err
	}()
	within(t, 20*time.Second, func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		err = <-waits
	})
	wantErr(t, err, ErrClosed)
}

func TestPublicEntriesAreAuthenticatedAndNotSealed(t *testing.T) {
	s, _ := newStore(t)
	if _, err := s.Put(t.Context(), Entry{Name: "cert", Kind: KindPublic, Public: []byte("chain")}); err != nil {
		t.Fatal(err)
	}
	info, err := s.Stat("cert")
	if err != nil || string(info.Public) != "chain" || info.Size != 5 {
		t.Errorf("%+v, %v", info, err)
	}
	data, err := os.ReadFile(s.path("cert"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := decodeDocument(data)
	if err != nil {
		t.Fatal(err)
	}
	d.head.Public = []byte("other")
	forged, err := sealDocument(d.head, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.path("cert"), forged, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = s.Stat("cert")
	wantErr(t, err, ErrTampered)
}

func BenchmarkGet(b *testing.B) {
	s, _ := newStore(b)
	put(b, s, "a", "one")
	b.ReportAllocs()
	for b.Loop() {
		value, _, err := s.Get(b.Context(), "a", "bench")
		if err != nil {
			b.Fatal(err)
		}
		_ = value.Close()
	}
}

func ExampleError() {
	err := fail("get", "db/password", ErrNotFound, "'pqgw kms list' shows what there is")
	fmt.Println(err)
	// Output: kms: get db/password: no such entry ('pqgw kms list' shows what there is)
}
