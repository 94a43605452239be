package config

import (
	"net/netip"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// scalar decodes one value, `${…}` expanded.
func (d *decoder) scalar(v reflect.Value, n ast.Node, path string) {
	text, ok := scalarText(n)
	if !ok {
		d.wrongShape(n, path, "a single value")
		return
	}
	text, expanded, err := d.opts.expand(text)
	if err != nil {
		d.failErr(path, err)
		return
	}
	if err := setScalar(v, text); err != nil {
		if expanded {
			// What a variable or a secret holds is not shown.
			d.fail(path, "what ${…} stands for is not "+wanted(v), "")
			return
		}
		d.failErr(path, err)
		return
	}
	d.absolute(v)
}

// wrongShape says that n is not what is wanted.
func (d *decoder) wrongShape(n ast.Node, path, want string) {
	got := "a single value"
	hint := ""
	switch n.(type) {
	case *ast.MappingNode:
		got = "a mapping"
	case *ast.SequenceNode:
		got = "a list"
	case *ast.NullNode:
		d.fail(path, "has no value", "leave the key out, or give it "+want)
		return
	}
	d.fail(path, "must be "+want+", is "+got, hint)
}

// scalarText is the text of a scalar, whatever type YAML would give it: a
// setting's own type decides what it means.
func scalarText(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// absolute makes relative paths relative to the folder of the file.
func (d *decoder) absolute(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *File:
		*p = File(d.join(string(*p)))
	case *LogFile:
		if !p.IsWord() {
			*p = LogFile(d.join(string(*p)))
		}
	case *Address:
		if p.IsUnix() {
			p.Addr = d.join(p.Addr)
		}
	case *Endpoint:
		if p.Address.IsUnix() {
			p.Address.Addr = d.join(p.Address.Addr)
		}
	}
}

func (d *decoder) join(path string) string {
	if path == "" || filepath.IsAbs(path) || strings.HasPrefix(path, "@") {
		return path
	}
	return filepath.Join(d.opts.Dir, path)
}

// wanted describes what a scalar must be.
func wanted(v reflect.Value) string {
	switch p := v.Interface().(type) {
	case word:
		return "one of " + strings.Join(p.values(), ", ")
	case Bytes:
		return "a size such as 32KiB"
	case time.Duration:
		return "a duration such as 30s"
	case netip.Prefix:
		return "a network such as 10.0.0.0/8"
	case Address:
		return "host:port, :port or unix:/path"
	case Endpoint:
		return "an endpoint such as http://host:port"
	case bool:
		return "true or false"
	}
	return "a whole number"
}

// ref decodes a name of TLS settings, or the settings themselves.
func (d *decoder) ref(ref *TLSRef, n ast.Node, path string) {
	if _, ok := n.(*ast.MappingNode); ok {
		ref.Settings = Default[TLS]()
		d.value(reflect.ValueOf(ref.Settings).Elem(), n, path)
		return
	}
	d.value(reflect.ValueOf(&ref.Name).Elem(), n, path)
}

// fields decodes header fields: a mapping of names to a value or several, or
// a list of {name, value}.
func (d *decoder) fields(fields *Fields, n ast.Node, path string) {
	switch n.(type) {
	case *ast.SequenceNode:
		d.list(reflect.ValueOf((*[]Field)(fields)).Elem(), n, path)
		return
	case *ast.NullNode:
		return
	}
	list, ok := d.entries(n, path)
	if !ok {
		return
	}
	for _, e := range list {
		at := join(path, e.key)
		d.at[at] = e.at
		var values []string
		d.oneOrMore(reflect.ValueOf(&values).Elem(), e.value, at)
		for _, value := range values {
			*fields = append(*fields, Field{Name: e.key, Value: value})
		}
	}
}
