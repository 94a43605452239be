package config

import (
	"encoding"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"time"
)

// New returns a tree with every default in place and nothing in it.
func New() *Tree {
	t := Default[Tree]()
	t.Version = Version
	t.TLS = map[string]*TLS{}
	t.Upstreams = map[string]*Upstream{}
	return t
}

// Default returns a T of this package (Listener, Upstream, TLS, Limits, …)
// with the value that each key has when it is left out.
func Default[T any]() *T {
	v := new(T)
	setDefaults(reflect.ValueOf(v).Elem())
	return v
}

// setDefaults sets the fields of a struct, and of structs in it, to the
// values of their `default` tags.
func setDefaults(v reflect.Value) {
	for i := range v.NumField() {
		field := v.Field(i)
		if text, ok := v.Type().Field(i).Tag.Lookup("default"); ok {
			// A default that cannot be read is a fault of this package; its tests read them all.
			if err := setScalar(field, text); err != nil {
				panic(fmt.Sprintf("config: default of %s.%s: %v", v.Type(), v.Type().Field(i).Name, err))
			}
			continue
		}
		if field.Kind() == reflect.Struct && !isScalar(field.Type()) && !isUnion(field.Type()) {
			setDefaults(field)
		}
	}
}

var (
	textType     = reflect.TypeFor[encoding.TextUnmarshaler]()
	durationType = reflect.TypeFor[time.Duration]()
	refType      = reflect.TypeFor[TLSRef]()
	fieldsType   = reflect.TypeFor[Fields]()
)

// isScalar reports whether values of t are written as one scalar.
func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Slice, reflect.Map, reflect.Pointer:
		return reflect.PointerTo(t).Implements(textType)
	}
	return true
}

// isUnion reports whether t is written in more than one shape.
func isUnion(t reflect.Type) bool { return t == refType || t == fieldsType }

// setScalar sets v from the text of a scalar.
func setScalar(v reflect.Value, text string) error {
	if p, ok := v.Addr().Interface().(*netip.Prefix); ok {
		return setPrefix(p, text)
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	if v.Type() == durationType {
		return setDuration(v, text)
	}
	switch v.Kind() {
	case reflect.String:
		return setString(v, text)
	case reflect.Bool:
		return setBool(v, text)
	case reflect.Int:
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a whole number from 0 to 2147483647", text)
		}
		v.SetInt(n)
	case reflect.Uint32:
		n, err := strconv.ParseUint(text, 0, 32)
		if err != nil {
			return fmt.Errorf("%q is not a whole number from 0 to 4294967295", text)
		}
		v.SetUint(n)
	default:
		return fmt.Errorf("no scalar: %s", v.Type())
	}
	return nil
}

func setDuration(v reflect.Value, text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return fmt.Errorf("%q is not a duration; write it as 500ms, 30s, 5m or 1h30m", text)
	}
	v.SetInt(int64(d))
	return nil
}

func setBool(v reflect.Value, text string) error {
	switch text {
	case "true", "false":
		v.SetBool(text == "true")
		return nil
	}
	return fmt.Errorf("%q is neither true nor false", text)
}

// setString sets a string; one with a closed set of values must be one of them.
func setString(v reflect.Value, text string) error {
	if w, ok := v.Interface().(word); ok {
		if v.Type() == reflect.TypeFor[Group]() {
			if g, ok := groupAliases[text]; ok {
				text = string(g)
			}
		}
		known := false
		for _, have := range w.values() {
			known = known || have == text
		}
		if !known {
			return &unknownWord{what: "value", word: text, known: w.values()}
		}
	}
	v.SetString(text)
	return nil
}

// setPrefix reads a network; a lone address is a network of its own.
func setPrefix(p *netip.Prefix, text string) error {
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		*p = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		return nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return fmt.Errorf("%q is not a network; write it as 10.0.0.0/8 or 2001:db8::/32", text)
	}
	if prefix.Masked() != prefix {
		return fmt.Errorf("%q has bits set beyond its length; write %s", text, prefix.Masked())
	}
	*p = prefix
	return nil
}
