package config

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"

	"github.com/goccy/go-yaml/ast"
)

// maxNodes bounds the values that are read, aliases followed, so that a few
// lines of nested aliases cannot fill memory: 10,000 routes are some 200,000.
const maxNodes = 1 << 20

// decoder fills a tree from the nodes of a file.
type decoder struct {
	*report
	opts    Options
	tree    *Tree
	anchors map[string]ast.Node
	nodes   int
}

func decodeTree(r *report, root ast.Node, opts Options) *Tree {
	d := &decoder{report: r, opts: opts, tree: New(), anchors: map[string]ast.Node{}}
	d.tree.Version = 0
	if opts.KMS != nil {
		d.opts.Resolvers = maps.Clone(opts.Resolvers)
		if d.opts.Resolvers == nil {
			d.opts.Resolvers = map[string]Resolver{}
		}
		d.opts.Resolvers["kms"] = opts.secrets(d.tree)
	}
	ast.Walk(anchorVisitor(d.anchors), root)
	d.at[""] = startOf(root)
	d.value(reflect.ValueOf(d.tree).Elem(), root, "")
	return d.tree
}

// anchorVisitor collects the nodes that anchors name.
type anchorVisitor map[string]ast.Node

func (v anchorVisitor) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil && a.Value != nil {
		v[a.Name.GetToken().Value] = a.Value
	}
	return v
}

// follow returns the node that n stands for, past anchors and aliases; nil
// after a problem.
func (d *decoder) follow(n ast.Node, path string) ast.Node {
	// An alias can lead to an anchor on another alias, but no chain is longer than all anchors.
	for range len(d.anchors) + 1 {
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.AliasNode:
			name := v.Value.GetToken().Value
			target, ok := d.anchors[name]
			if !ok {
				d.failAt(startOf(v), path, fmt.Sprintf("the alias *%s has no anchor", name), "")
				return nil
			}
			n = target
		case *ast.TagNode:
			d.failAt(startOf(v), path, "tags such as "+v.Start.Value+" have no meaning here", "quote what is text")
			return nil
		default:
			return n
		}
	}
	d.failAt(startOf(n), path, "an alias that leads to itself", "")
	return nil
}

// value decodes n into v, which holds its default.
func (d *decoder) value(v reflect.Value, n ast.Node, path string) {
	if d.nodes++; d.nodes > maxNodes {
		if d.nodes == maxNodes+1 {
			d.failAt(startOf(n), path, "aliases make the file too large", "")
		}
		return
	}
	if _, ok := d.at[path]; !ok {
		d.at[path] = startOf(n)
	}
	if n = d.follow(n, path); n == nil {
		return
	}
	switch t := v.Type(); {
	case t == refType:
		d.ref(v.Addr().Interface().(*TLSRef), n, path)
	case t == fieldsType:
		d.fields(v.Addr().Interface().(*Fields), n, path)
	case t.Kind() == reflect.Pointer:
		d.pointer(v, n, path)
	case isScalar(t):
		d.scalar(v, n, path)
	case t.Kind() == reflect.Struct:
		d.structure(v, n, path)
	case t.Kind() == reflect.Map:
		d.mapping(v, n, path)
	case t.Kind() == reflect.Slice:
		d.list(v, n, path)
	}
}

// pointer decodes what v is to point to. v is nil or points to the value that
// is the default of what n leaves out.
func (d *decoder) pointer(v reflect.Value, n ast.Node, path string) {
	if v.IsNil() {
		v.Set(newDefault(v.Type().Elem()))
	}
	d.value(v.Elem(), n, path)
}

// newDefault returns a pointer to a t with its defaults.
func newDefault(t reflect.Type) reflect.Value {
	p := reflect.New(t)
	if t.Kind() == reflect.Struct && !isScalar(t) {
		setDefaults(p.Elem())
	}
	return p
}

// entry is a key of a mapping with its value.
type entry struct {
	key   string
	at    position
	value ast.Node
}

// entries lists the keys of a mapping, those merged by `<<` last and only
// where the mapping has none of its own.
func (d *decoder) entries(n ast.Node, path string) ([]entry, bool) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.wrongShape(n, path, "a mapping of keys to values")
		return nil, false
	}
	var own, merged []entry
	first := map[string]position{}
	for _, mv := range m.Values {
		if _, ok := mv.Key.(*ast.MergeKeyNode); ok {
			merged = append(merged, d.merged(mv.Value, path)...)
			continue
		}
		key, ok := d.key(mv.Key, path)
		if !ok {
			continue
		}
		at := startOf(mv.Key)
		if before, twice := first[key]; twice {
			d.failAt(at, join(path, key), "given twice", fmt.Sprintf("the first is in line %d", before.line))
			continue
		}
		first[key] = at
		own = append(own, entry{key, at, mv.Value})
	}
	for _, e := range merged {
		if _, ok := first[e.key]; !ok {
			first[e.key] = e.at
			own = append(own, e)
		}
	}
	return own, true
}

// merged lists what `<<` brings in.
func (d *decoder) merged(n ast.Node, path string) []entry {
	if d.nodes++; d.nodes > maxNodes {
		return nil
	}
	if n = d.follow(n, path); n == nil {
		return nil
	}
	if m, ok := n.(*ast.MappingNode); ok {
		for _, mv := range m.Values {
			if _, ok := mv.Key.(*ast.MergeKeyNode); ok {
				d.failAt(startOf(mv.Key), path, "a merge (<<) inside what is merged", "write the keys out")
				return nil
			}
		}
	}
	list, _ := d.entries(n, path)
	return list
}

func (d *decoder) key(n ast.MapKeyNode, path string) (string, bool) {
	switch k := n.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return k.GetToken().Value, true
	}
	d.failAt(startOf(n), path, "a key must be plain text", "")
	return "", false
}

func (d *decoder) structure(v reflect.Value, n ast.Node, path string) {
	list, ok := d.entries(n, path)
	if !ok {
		return
	}
	fields := fieldsOf(v.Type())
	given, meant := map[string]entry{}, []string{}
	for _, e := range list {
		if fields.index(e.key) < 0 {
			d.failAt(e.at, join(path, e.key), "unknown key", suggest(e.key, fields.keys()))
			meant = append(meant, nearest(e.key, fields.keys()))
			continue
		}
		given[e.key] = e
	}
	for _, key := range meant {
		if _, ok := given[key]; !ok && key != "" {
			d.spoil(join(path, key)) // that it is not there is no news
		}
	}
	for _, f := range fields {
		e, ok := given[f.key]
		if !ok {
			continue
		}
		target := v.FieldByIndex(f.Index)
		d.inherit(v, target)
		if f.Tag.Get("one") != "" {
			d.oneOrMore(target, e.value, join(path, f.key))
			continue
		}
		d.value(target, e.value, join(path, f.key))
	}
}

// inherit gives a setting that overrides another one the other's values to start from.
func (d *decoder) inherit(parent, v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case **Limits:
		limits := d.tree.Limits
		*p = &limits
	case **Timeouts:
		route, ok := parent.Addr().Interface().(*Route)
		if !ok {
			return
		}
		if u := d.tree.Upstreams[route.To]; u != nil {
			timeouts := u.Timeouts
			*p = &timeouts
		}
	}
}

var nameShape = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,62}$`)

func (d *decoder) mapping(v reflect.Value, n ast.Node, path string) {
	if _, ok := n.(*ast.NullNode); ok {
		return
	}
	list, ok := d.entries(n, path)
	if !ok {
		return
	}
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	for _, e := range list {
		at := join(path, e.key)
		if !nameShape.MatchString(e.key) {
			d.failAt(e.at, at, fmt.Sprintf("%q is not a name", e.key), "use up to 63 letters, digits, '_', '-' and '.'")
			continue
		}
		d.at[at] = e.at
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(item, e.value, at)
		if item.Kind() != reflect.Pointer || !item.IsNil() {
			v.SetMapIndex(reflect.ValueOf(e.key), item)
		}
	}
}

// oneOrMore decodes a list that may be a single value without its brackets.
func (d *decoder) oneOrMore(v reflect.Value, n ast.Node, path string) {
	if v.Type() != fieldsType {
		switch d.follow(n, path).(type) {
		case nil:
			return
		case *ast.SequenceNode, *ast.NullNode:
		default:
			one := reflect.MakeSlice(v.Type(), 1, 1)
			d.value(one.Index(0), n, path)
			v.Set(one)
			return
		}
	}
	d.value(v, n, path)
}

func (d *decoder) list(v reflect.Value, n ast.Node, path string) {
	if _, ok := n.(*ast.NullNode); ok {
		return
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.wrongShape(n, path, "a list")
		return
	}
	out := reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values))
	for i, item := range seq.Values {
		d.value(out.Index(i), item, index(path, i))
		if slot := out.Index(i); slot.Kind() == reflect.Pointer && slot.IsNil() {
			slot.Set(newDefault(slot.Type().Elem()))
		}
	}
	if len(seq.Values) > 0 {
		v.Set(out)
	}
}
