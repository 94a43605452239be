package config

import (
	"reflect"
	"slices"
	"strconv"
	"sync"

	"github.com/goccy/go-yaml/ast"
)

// field is a key of a struct of the tree.
type field struct {
	reflect.StructField
	key string
}

type fieldList []field

func (l fieldList) index(key string) int {
	return slices.IndexFunc(l, func(f field) bool { return f.key == key })
}

func (l fieldList) keys() []string {
	keys := make([]string, len(l))
	for i, f := range l {
		keys[i] = f.key
	}
	return keys
}

var fieldCache sync.Map // reflect.Type → fieldList

// fieldsOf lists the keys of a struct in the order in which they are decoded:
// first those that others inherit from (tag `early`), then as they stand.
func fieldsOf(t reflect.Type) fieldList {
	if l, ok := fieldCache.Load(t); ok {
		return l.(fieldList)
	}
	var list fieldList
	for _, f := range reflect.VisibleFields(t) {
		if key := f.Tag.Get("yaml"); key != "" {
			list = append(list, field{f, key})
		}
	}
	slices.SortStableFunc(list, func(a, b field) int {
		return len(b.Tag.Get("early")) - len(a.Tag.Get("early"))
	})
	fieldCache.Store(t, list)
	return list
}

// join adds a key to a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// index adds an index to a path.
func index(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// startOf is where a node begins. A block mapping's own token is the colon
// of its first key, so the key tells.
func startOf(n ast.Node) position {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return startOf(m.Values[0].Key)
	}
	if n == nil || n.GetToken() == nil || n.GetToken().Position == nil {
		return position{}
	}
	at := n.GetToken().Position
	return position{at.Line, at.Column}
}
