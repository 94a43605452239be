package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzParse holds that no file ends the process, that each error names a
// place, and that what is read is printed so that it is read again the same.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.yaml")
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(source)
	}
	f.Add([]byte(`{"version": 1, "listeners": [{"name": "l", "address": "[::1]:80"}]}`))
	f.Add([]byte("version: 1\nlisteners: &a [*a]\nlimits: {<<: *a}\nroutes: !!x |\n  y"))
	opts := testOptions()
	opts.Resolvers["file"] = func(string) (string, error) { return "", errors.New("no files here") }
	f.Fuzz(func(t *testing.T, source []byte) {
		if len(source) > 1<<16 {
			return
		}
		tree, _, err := Parse("f.yaml", source, opts)
		if err != nil {
			var problems *Problems
			if !errors.As(err, &problems) || len(problems.List) == 0 || tree != nil {
				t.Fatalf("an error of its own kind: %v", err)
			}
			_ = err.Error()
			return
		}
		printed := Marshal(tree)
		again, _, err := Parse("printed.yaml", printed, opts)
		if err != nil {
			t.Fatalf("what is printed is not read: %v\n%s", err, printed)
		}
		if diff := cmp.Diff(tree, again, compareValues); diff != "" {
			t.Fatalf("the tree changed:\n%s\n%s", diff, printed)
		}
	})
}
