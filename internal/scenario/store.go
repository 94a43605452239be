package scenario

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Store is a key store that `pqgw kms` has made.
type Store struct{ Dir, Master string }

// NewStore makes an empty one.
func NewStore(t testing.TB) *Store {
	t.Helper()
	dir := t.TempDir()
	s := &Store{Dir: filepath.Join(dir, "store"), Master: filepath.Join(dir, "master")}
	s.KMS(t, "", "init")
	return s
}

// YAML is the configuration's kms, with more settings if any.
func (s *Store) YAML(more ...string) string {
	return fmt.Sprintf("kms: {dir: %q, master: {file: %q}%s}", s.Dir, s.Master, strings.Join(append([]string{""}, more...), ", "))
}

// KMS runs `pqgw kms` on the store and gives what it prints.
func (s *Store) KMS(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	args = append(append([]string{"kms"}, args...), "--dir", s.Dir, "--master-file", s.Master)
	cmd := exec.Command(Binary(t), args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("pqgw %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}
