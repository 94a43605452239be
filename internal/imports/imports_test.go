// Package imports holds the test of the import rule: arrows between the rooms
// of the house point down its floors, never up or sideways.
package imports

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/hanzoai/pqgw/"

// floors gives each room its height; an import must lead to a lower floor.
var floors = map[string]int{
	"examples": 7, "cmd": 7,
	"":        6, // the root package: the rooms wired together
	"bench":   5,
	"gateway": 4, "transports": 4,
	"exchange": 3, "telemetry": 3,
	"handshake": 2, "config": 2,
	"kms": 1, "zapcodec": 1,
}

// room is the top-level folder of a package path below the module.
func room(path string) string {
	name, _, below := strings.Cut(path, "/")
	if !below && strings.HasSuffix(name, ".go") {
		return ""
	}
	return name
}

func TestImportsPointDownTheFloors(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if d.IsDir() {
			if name := d.Name(); rel != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "internal" && room(rel) == "internal") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		seen++
		checkFile(t, filepath.ToSlash(rel), func(yield func(string)) {
			for _, imp := range file.Imports {
				p, _ := strconv.Unquote(imp.Path.Value)
				yield(p)
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Fatal("no Go file was read")
	}
}

func checkFile(t *testing.T, rel string, each func(func(string))) {
	t.Helper()
	from := room(rel)
	height, known := floors[from]
	if !known {
		t.Errorf("%s: room %q stands on no floor; give it one here and in ARCHITECTURE.md", rel, from)
		return
	}
	each(func(imp string) {
		path, ours := strings.CutPrefix(imp+"/", module)
		path = strings.TrimSuffix(path, "/")
		if !ours || room(path) == from || room(path) == "internal" {
			return
		}
		if floors[room(path)] >= height {
			t.Errorf("%s imports %s: %s stands on floor %d, %s on floor %d; imports point down", rel, path, from, height, room(path), floors[room(path)])
		}
		if from == "zapcodec" {
			t.Errorf("%s imports %s: the codec imports nothing of the house", rel, path)
		}
	})
}
