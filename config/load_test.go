package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// testOptions know two variables and a secret, and nothing of the machine.
func testOptions() Options {
	vars := map[string]string{"REGION": "eu", "PORT": "8443", "EMPTY": "", "SECRET": "hunter2"}
	return Options{
		Dir:       "/etc/pqgw",
		Env:       func(name string) (string, bool) { v, ok := vars[name]; return v, ok },
		Resolvers: map[string]Resolver{"kms": func(name string) (string, error) { return "sealed-" + name, nil }},
	}
}

// golden compares got with a file of testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); rewrite it with -update\n%s", name, diff)
	}
}

// TestEveryProblemIsReportedAtItsPlace runs each file of testdata/bad and
// compares all that is said of it, warnings first.
func TestEveryProblemIsReportedAtItsPlace(t *testing.T) {
	files, _ := filepath.Glob("testdata/bad/*.yaml")
	if len(files) == 0 {
		t.Fatal("no files")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tree, warnings, err := Parse(filepath.Base(file), source, testOptions())
			if err == nil || tree != nil {
				t.Fatalf("Parse accepts the file")
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", "warnings:\n"+warnings.String()+"\n\n"+err.Error()+"\n")
		})
	}
}

// TestGoodFilesLoad runs each file of testdata/good; what is said of it is
// compared, and nothing is said of most.
func TestGoodFilesLoad(t *testing.T) {
	files, _ := filepath.Glob("testdata/good/*.yaml")
	if len(files) == 0 {
		t.Fatal("no files")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, warnings, err := Parse(filepath.Base(file), source, testOptions())
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".golden", warnings.String())
		})
	}
}
