package certstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/hanzoai/pqgw/kms"
)

// The test binary runs itself again as another process that does a task.
const taskEnv = "CERTSTORE_TEST_TASK"

func TestMain(m *testing.M) {
	if task := os.Getenv(taskEnv); task != "" {
		if err := child(task, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// shortTimes make a lease run out while a test waits.
var shortTimes = leaseTimes{life: 300 * time.Millisecond, refresh: 50 * time.Millisecond, poll: time.Millisecond}

func child(task string, args []string) error {
	store, err := kms.Open(args[0], kms.Options{Master: kms.MasterFile{Path: args[1]}})
	if err != nil {
		return err
	}
	s, err := New(store, nil)
	if err != nil {
		return err
	}
	s.times = shortTimes
	switch task {
	case "count":
		err = count(s, args[2])
	case "hold":
		if err = s.Lock(context.Background(), "held"); err == nil {
			fmt.Println("locked")
			select {} // until killed
		}
	}
	return errors.Join(err, s.Close(), store.Close())
}

// rounds is how often each process counts.
const rounds = 20

// count adds to the number in a file, which only a lock can make right.
func count(s *Storage, file string) error {
	for range rounds {
		if err := s.Lock(context.Background(), "count"); err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		n, err := strconv.Atoi(string(data))
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(n+1)), 0o600); err != nil {
			return err
		}
		if err := s.Unlock(context.Background(), "count"); err != nil {
			return err
		}
	}
	return nil
}

// newStore makes a store and returns its folder and master file.
func newStore(t testing.TB) (dir, master string) {
	t.Helper()
	dir, master = filepath.Join(t.TempDir(), "store"), filepath.Join(t.TempDir(), "master")
	key, err := kms.MasterFile{Path: master}.Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := kms.Init(dir, key); err != nil {
		t.Fatal(err)
	}
	return dir, master
}

func open(t testing.TB, dir, master string) *Storage {
	t.Helper()
	store, err := kms.Open(dir, kms.Options{Master: kms.MasterFile{Path: master}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func childCommand(t *testing.T, task string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), taskEnv+"="+task)
	cmd.Stderr = os.Stderr
	return cmd
}
