package kms

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// tasks are what a child process can be asked to do, with the store's folder
// and its master file as arguments.
var tasks = map[string]func(args []string) error{
	"rotate": func(args []string) error {
		return withStore(args, func(s *Store) error {
			_, err := s.RotateMaster(context.Background(), Rotation{})
			return err
		})
	},
	"put": func(args []string) error {
		return withStore(args, func(s *Store) error {
			_, err := s.Put(context.Background(), Entry{Name: "a", Kind: KindSecret, Value: NewSecret([]byte("new"))})
			return err
		})
	},
	"delete": func(args []string) error {
		return withStore(args, func(s *Store) error { return s.Delete(context.Background(), "a") })
	},
	"count": func(args []string) error {
		return withStore(args, func(s *Store) error {
			for range 25 {
				_, err := s.Update(context.Background(), "a", KindSecret, "count", func(old *Secret) (*Secret, []byte, error) {
					return NewSecret(append(old.Reveal(), '+')), nil, nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	},
}

func withStore(args []string, f func(*Store) error) error {
	s, err := Open(args[0], Options{Master: MasterFile{Path: args[1]}, Actor: "child"})
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

func childCommand(t *testing.T, task string, kill int, s *Store, master MasterFile) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], s.Dir(), master.Path)
	cmd.Env = append(os.Environ(), taskEnv+"="+task, killEnv+"="+strconv.Itoa(kill))
	return cmd
}

// killedAt runs the task in a process that is killed at the given step; it
// reports false when the task ended before.
func killedAt(t *testing.T, task string, kill int, s *Store, master MasterFile) bool {
	t.Helper()
	out, err := childCommand(t, task, kill, s, master).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return true
	}
	t.Fatalf("step %d of %s: %v: %s", kill, task, err, out)
	return false
}

// steps are all the steps to kill at, or every seventh under -short.
func steps(yield func(int) bool) {
	stride := 1
	if testing.Short() {
		stride = 7
	}
	for n := 1; yield(n); n += stride {
	}
}

func wantCleanAudit(t *testing.T, s *Store) AuditReport {
	t.Helper()
	report, err := s.VerifyAudit(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Problems) != 0 {
		t.Errorf("the audit has problems: %s", strings.Join(report.Problems, "; "))
	}
	return report
}

func TestRotatingTheMasterSurvivesAKillAtAnyStep(t *testing.T) {
	for n := range steps {
		s, master := newStore(t)
		old, err := master.Keys(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			put(t, s, name, "one of "+name)
			put(t, s, name, "two of "+name)
		}
		killed := killedAt(t, "rotate", n, s, master)
		// The reader that was open before goes on.
		wantValue(t, s, "a", "two of a")
		// And so does one that starts now.
		after := reopen(t, s.Dir(), master)
		wantValue(t, after, "b", "two of b")
		wantCleanAudit(t, after)
		if killed {
			if _, err := after.RotateMaster(t.Context(), Rotation{}); err != nil {
				t.Fatalf("going on after step %d: %v", n, err)
			}
		}
		wantRotated(t, after, master, old[0])
		if !killed {
			if n < 30 {
				t.Errorf("a rotation has only %d steps to be killed at", n-1)
			}
			return
		}
	}
}

// wantRotated checks that nothing in the folder opens with the old master.
func wantRotated(t *testing.T, s *Store, master MasterFile, old *MasterKey) {
	t.Helper()
	keys, err := master.Keys(nil)
	if err != nil || len(keys) != 1 || keys[0].Recipient().ID() == old.Recipient().ID() {
		t.Fatalf("the master file holds %v, the old master is %v; %v", keys, old, err)
	}
	for _, name := range []string{"a", "b"} {
		wantValue(t, s, name, "two of "+name)
		previous, _, err := s.GetPrevious(t.Context(), name, "test")
		if err != nil || string(previous.Reveal()) != "one of "+name {
			t.Errorf("the version before of %s: %v", name, err)
		}
	}
	files, err := filepath.Glob(filepath.Join(s.Dir(), "*", "*"))
	if err != nil || len(files) != 4 {
		t.Errorf("files left: %v, %v", files, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		d, err := decodeDocument(data)
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.open([]*MasterKey{old})
		wantErr(t, err, ErrNoKey)
	}
	for _, dir := range []string{s.Dir(), filepath.Join(s.Dir(), entriesDir), filepath.Dir(master.Path)} {
		left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*"))
		if err != nil || len(left) != 0 {
			t.Errorf("temporary files left: %v, %v", left, err)
		}
	}
	for _, name := range []string{headerFile, headerPrevious} {
		data, err := os.ReadFile(filepath.Join(s.Dir(), name))
		if err != nil {
			t.Fatal(err)
		}
		p, err := parseHeader(data)
		if err != nil || p.entry(old.Recipient().ID()) != nil {
			t.Errorf("%s still knows the old master: %v", name, err)
		}
	}
}

func TestPuttingSurvivesAKillAtAnyStep(t *testing.T) {
	for n := range steps {
		s, master := newStore(t)
		put(t, s, "a", "older")
		put(t, s, "a", "old")
		killed := killedAt(t, "put", n, s, master)
		if got := get(t, s, "a"); got != "new" && (got != "old" || !killed) {
			t.Errorf("step %d: the value is %q", n, got)
		}
		wantCleanAudit(t, s)
		put(t, s, "a", "newer")
		wantCleanAudit(t, s)
		if !killed {
			return
		}
	}
}

func TestDeletingSurvivesAKillAtAnyStep(t *testing.T) {
	for n := range steps {
		s, master := newStore(t)
		put(t, s, "a", "older")
		put(t, s, "a", "old")
		killed := killedAt(t, "delete", n, s, master)
		value, _, err := s.Get(t.Context(), "a", "test")
		switch {
		case err == nil && killed:
			if string(value.Reveal()) != "old" {
				t.Errorf("step %d: an older version came back", n)
			}
		case !errors.Is(err, ErrNotFound):
			t.Errorf("step %d: %v", n, err)
		}
		wantCleanAudit(t, s)
		put(t, s, "a", "again")
		wantCleanAudit(t, s)
		if !killed {
			return
		}
	}
}

func TestProcessesTakeTurnsAtWriting(t *testing.T) {
	s, master := newStore(t)
	put(t, s, "a", "+")
	var children []*exec.Cmd
	for range 3 {
		cmd := childCommand(t, "count", 0, s, master)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, cmd)
	}
	// A rotation in the midst of it, and a reader that never stops.
	if _, err := s.RotateMaster(t.Context(), Rotation{}); err != nil {
		t.Error(err)
	}
	for i, cmd := range children {
		get(t, s, "a")
		if err := cmd.Wait(); err != nil {
			t.Errorf("child %d: %v", i, err)
		}
	}
	wantValue(t, s, "a", strings.Repeat("+", 3*25+1))
	report := wantCleanAudit(t, s)
	if report.Lines < 3*25*3 {
		t.Errorf("the audit has %d lines", report.Lines)
	}
}

func TestReadersGoOnWhileTheMasterIsRotated(t *testing.T) {
	s, master := newStore(t)
	for i := range 8 {
		put(t, s, fmt.Sprint(i), fmt.Sprint("value ", i))
	}
	reader := reopen(t, s.Dir(), master)
	done := make(chan error, 1)
	go func() {
		var errs []error
		for range 4 {
			_, err := s.RotateMaster(context.Background(), Rotation{})
			errs = append(errs, err)
		}
		done <- errors.Join(errs...)
	}()
	reads := 0
	for finished := false; !finished; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			finished = true
		default:
		}
		for i := range 8 {
			wantValue(t, reader, fmt.Sprint(i), fmt.Sprint("value ", i))
			reads++
		}
	}
	if reads < 16 {
		t.Errorf("only %d reads", reads)
	}
	wantCleanAudit(t, s)
}

func TestRotatingFromAPassphraseToAnotherKeepsReadersUntilToldOtherwise(t *testing.T) {
	dir := t.TempDir() + "/store"
	first := quickPassphrase(t, "first")
	if err := Init(dir, first); err != nil {
		t.Fatal(err)
	}
	old := reopen(t, dir, MasterPassphrase{Passphrase: NewSecret([]byte("first"))})
	put(t, old, "a", "one")
	reader := reopen(t, dir, MasterPassphrase{Passphrase: NewSecret([]byte("first"))})
	if _, err := old.RotateMaster(t.Context(), Rotation{Next: quickPassphrase(t, "second"), KeepOld: true}); err != nil {
		t.Fatal(err)
	}
	wantValue(t, reader, "a", "one")
	fresh := reopen(t, dir, MasterPassphrase{Passphrase: NewSecret([]byte("second"))})
	wantValue(t, fresh, "a", "one")
	if _, err := fresh.RotateMaster(t.Context(), Rotation{DropOld: true}); err != nil {
		t.Fatal(err)
	}
	wantValue(t, fresh, "a", "one")
	_, _, err := reader.Get(t.Context(), "a", "test")
	wantErr(t, err, ErrNoKey)
	wantCleanAudit(t, fresh)
	_, err = fresh.RotateMaster(t.Context(), Rotation{})
	if err == nil {
		t.Error("a passphrase cannot take a new master by itself")
	}
}

// quickPassphrase derives with the least that Argon2id takes.
func quickPassphrase(t *testing.T, text string) *MasterKey {
	t.Helper()
	d := &Derivation{Salt: slices.Repeat([]byte(text), 4)[:16], Time: 1, Memory: 8, Threads: 1}
	key, err := d.master(NewSecret([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}
