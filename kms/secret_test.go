package kms

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"
	"unsafe"
)

func TestASecretShowsInNoForm(t *testing.T) {
	const value = "hunter2hunter2"
	key, err := masterFromSeed([]byte(strings.Repeat("S", 32)))
	if err != nil {
		t.Fatal(err)
	}
	secret := NewSecret([]byte(value))
	defer secret.Close()
	holder := struct {
		S *Secret
		M *MasterKey
		E Entry
	}{secret, key, Entry{Name: "a", Value: secret}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
		fmt.Fprintf(&out, verb+verb+verb, secret, key, holder)
	}
	for _, v := range []any{secret, key, holder} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(data)
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "s", secret, "k", key, "h", holder)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "s", secret, "k", key, "h", holder)
	if err := gob.NewEncoder(&out).Encode(secret); err != nil {
		t.Fatal(err)
	}
	text := strings.ToLower(out.String())
	for _, shown := range []string{value, fmt.Sprintf("%x", value), "ssssssss", "53535353", "83 83 83", "104 117 110"} {
		if strings.Contains(text, shown) {
			t.Errorf("%q is shown in %s", shown, text)
		}
	}
	if !strings.Contains(text, redacted) {
		t.Error("nothing was formatted")
	}
}

func TestASecretTakesItsBytesAndZeroesThem(t *testing.T) {
	for _, n := range []int{0, 1, 64, 65, 4096, 4097, 100_000} {
		source := bytes.Repeat([]byte{7}, n)
		s := NewSecret(source)
		if bytes.ContainsRune(source, 7) {
			t.Error("the source was not zeroed")
		}
		if s.Len() != n || !bytes.Equal(s.Reveal(), bytes.Repeat([]byte{7}, n)) {
			t.Errorf("%d bytes became %d", n, s.Len())
		}
		if err := s.Close(); err != nil || s.Close() != nil {
			t.Error(err)
		}
		if s.Len() != 0 || s.Reveal() != nil {
			t.Error("it is open after Close")
		}
		wantErr(t, s.Use(func([]byte) error { return nil }), ErrClosed)
	}
	var none *Secret
	if none.Len() != 0 || none.Close() != nil {
		t.Error("nil is not an empty secret")
	}
}

func TestReleasedMemoryIsZeroAndUsedAgain(t *testing.T) {
	var a arena
	first := a.alloc(10)
	copy(first, "0123456789")
	a.release(first)
	again := a.alloc(40)
	if &again[0] != &first[0] || !bytes.Equal(again, make([]byte, 40)) {
		t.Errorf("memory is %q", again)
	}
}

func TestSecretsLieInLockedMemoryThatIsNotDumped(t *testing.T) {
	s := NewSecret([]byte("x"))
	defer s.Close()
	data, err := os.ReadFile("/proc/self/smaps")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no /proc/self/smaps here")
	}
	if err != nil {
		t.Fatal(err)
	}
	flags := mappingFlags(string(data), uintptr(unsafe.Pointer(&s.b[0])))
	// dd: do not dump; dc: do not copy on fork; lo: locked, which the limit of
	// the user may forbid.
	if !strings.Contains(flags, " dd") || !strings.Contains(flags, " dc") {
		t.Errorf("flags of the mapping are %q", flags)
	}
	t.Logf("flags are %s", flags)
}

// mappingFlags are the VmFlags of the mapping at the address.
func mappingFlags(smaps string, address uintptr) string {
	inside := false
	for line := range strings.Lines(smaps) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= address && address < to
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside {
			return flags
		}
	}
	return ""
}

func BenchmarkSecret(b *testing.B) {
	b.ReportAllocs()
	value := make([]byte, 32)
	for b.Loop() {
		_ = NewSecret(value).Close()
	}
}
