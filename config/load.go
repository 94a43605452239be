package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds a configuration file, in bytes: 10,000 routes are about 1 MB.
const maxFile = 32 << 20

// Load reads the file at path. The error is a *Problems where the content is
// at fault, else it says why the file cannot be read.
func Load(path string) (*Tree, Warnings, error) { return LoadWith(path, Options{}) }

// LoadWith is Load with options.
func LoadWith(path string, opts Options) (*Tree, Warnings, error) {
	source, err := readLimited(path, maxFile)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the configuration: %w", err)
	}
	return Parse(path, source, opts)
}

// Parse reads source, YAML or JSON; name is the file's for messages, and its
// folder is what relative paths are relative to unless opts say otherwise.
// The error is always a *Problems, and the tree nil with it.
func Parse(name string, source []byte, opts Options) (*Tree, Warnings, error) {
	if opts.Dir == "" {
		opts.Dir = filepath.Dir(name)
	}
	if dir, err := filepath.Abs(opts.Dir); err == nil {
		opts.Dir = dir
	}
	r := newReport(name, source)
	root := parseYAML(r, source)
	if root == nil {
		warnings, err := r.result()
		return nil, warnings, err
	}
	tree := decodeTree(r, root, opts)
	tree.Mount(opts.Mounts...)
	tree.resolve(r)
	warnings, err := r.result()
	if err != nil {
		return nil, warnings, err
	}
	return tree, warnings, nil
}

// parseYAML returns the one document of source, or nil after a problem.
func parseYAML(r *report, source []byte) ast.Node {
	if !utf8.Valid(source) {
		r.failAt(position{}, "", "the file is not UTF-8", "")
		return nil
	}
	file, err := parseSafely(source)
	if err != nil {
		at, message := position{}, err.Error()
		var syntax *yaml.SyntaxError
		if errors.As(err, &syntax) {
			message = syntax.Message
			if syntax.Token != nil && syntax.Token.Position != nil {
				at = position{syntax.Token.Position.Line, syntax.Token.Position.Column}
			}
		}
		r.failAt(at, "", "not YAML: "+message, "")
		return nil
	}
	var root ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			r.failAt(startOf(doc.Body), "", "a second document; a configuration is one", "")
			return nil
		}
		root = doc.Body
	}
	if root == nil {
		r.failAt(position{}, "", "the file is empty", "begin with version: 1")
	}
	return root
}

// parseSafely turns a panic of the YAML parser into an error: the file is an
// operator's, but a reload must not end the process.
func parseSafely(source []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser gave up (%v)", p)
		}
	}()
	return parser.ParseBytes(source, 0, parser.AllowDuplicateMapKey())
}

// readLimited reads a file of at most limit bytes.
func readLimited(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("%s is larger than %s", path, Bytes(limit))
	}
	return content, nil
}
