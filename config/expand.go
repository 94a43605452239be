package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Resolver gives the value that `${scheme:name}` stands for.
type Resolver func(name string) (string, error)

// Options of Load and Parse; the zero value is what a program wants.
type Options struct {
	// Dir is what relative paths are relative to. Empty: the folder of the file.
	Dir string
	// Env looks a variable up for `${NAME}`. Nil: os.LookupEnv.
	Env func(name string) (value string, ok bool)
	// Resolvers by scheme, for `${scheme:name}`; `file` is there unless it is given here.
	Resolvers map[string]Resolver
	// KMS opens the store that the file names and gives what resolves `${kms:name}` by it. Nil: there is no such scheme, unless Resolvers has it.
	KMS func(*KMS) (Resolver, error)
	// Mounts are the names of upstreams that the program has itself.
	Mounts []string
}

// maxExpanded bounds what a scalar may expand to, in bytes: secrets are short,
// and a wrong path should not fill memory.
const maxExpanded = 1 << 20

func (o Options) env(name string) (string, bool) {
	if o.Env != nil {
		return o.Env(name)
	}
	return os.LookupEnv(name)
}

// expand replaces `${…}` in a scalar; `$${` stands for `${`. It reports
// whether anything was replaced.
func (o Options) expand(s string) (out string, changed bool, err error) {
	if !strings.Contains(s, "${") {
		return s, false, nil
	}
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), changed, nil
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		inner, rest, ok := strings.Cut(s[i+2:], "}")
		if !ok {
			return "", changed, errors.New("${ without its }; write $${ where ${ is meant")
		}
		value, err := o.lookUp(inner)
		if err != nil {
			return "", true, err
		}
		if b.Len()+len(value) > maxExpanded {
			return "", true, fmt.Errorf("${%s} makes the value longer than 1 MiB", inner)
		}
		b.WriteString(value)
		changed, s = true, rest
	}
}

// lookUp gives the value of what stands between `${` and `}`.
func (o Options) lookUp(inner string) (string, error) {
	name, fallback, hasFallback := strings.Cut(inner, ":-")
	if scheme, rest, ok := strings.Cut(name, ":"); ok {
		return o.resolve(scheme, rest, inner)
	}
	if !isVariable(name) {
		return "", fmt.Errorf("${%s}: %q is not the name of a variable", inner, name)
	}
	value, ok := o.env(name)
	if hasFallback && value == "" {
		return fallback, nil
	}
	if !ok {
		return "", fmt.Errorf("the environment variable %s is not set; set it or write ${%s:-default}", name, name)
	}
	return value, nil
}

func (o Options) resolve(scheme, name, inner string) (string, error) {
	resolver := o.Resolvers[scheme]
	if resolver == nil && scheme == "file" {
		resolver = o.readFile
	}
	if resolver == nil {
		known := []string{"file"}
		for s := range o.Resolvers {
			known = append(known, s)
		}
		return "", &unknownWord{what: "source of values", word: scheme, known: known}
	}
	value, err := resolver(name)
	if err != nil {
		return "", fmt.Errorf("${%s}: %w", inner, err)
	}
	return value, nil
}

// readFile is the resolver of `${file:path}`: the file's content without the
// newline at its end.
func (o Options) readFile(name string) (string, error) {
	if !filepath.IsAbs(name) {
		name = filepath.Join(o.Dir, name)
	}
	content, err := readLimited(name, maxExpanded)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(content), "\n"), "\r"), nil
}

func isVariable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
