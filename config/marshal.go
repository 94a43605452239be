package config

import (
	"bytes"
	"encoding"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Marshal writes the tree as YAML that Parse makes an equal tree of. Settings
// that have their default are left out. What `${…}` stood for, secrets
// included, is written in clear.
func Marshal(t *Tree) []byte {
	p := &printer{tree: t}
	p.structure(reflect.ValueOf(t).Elem(), reflect.ValueOf(New()).Elem(), 0, false)
	return p.out.Bytes()
}

// printer writes block style, with lists of scalars and small mappings in flow style.
type printer struct {
	out  bytes.Buffer
	tree *Tree
}

// structure writes the keys of v that differ from base. With inline, the
// first of them goes on the line that is begun already. It reports whether
// it wrote any.
func (p *printer) structure(v, base reflect.Value, indent int, inline bool) bool {
	wrote := false
	for i := range v.NumField() {
		f := v.Type().Field(i)
		value := v.Field(i)
		if p.implied(v, f, value, base.Field(i)) {
			continue
		}
		if !inline || wrote {
			p.indent(indent)
		}
		wrote = true
		p.out.WriteString(f.Tag.Get("yaml") + ":")
		p.value(value, p.base(v, value, base.Field(i)), indent, f.Tag.Get("one") != "")
	}
	return wrote
}

// implied reports whether a key need not be written.
func (p *printer) implied(parent reflect.Value, f reflect.StructField, v, base reflect.Value) bool {
	if f.Tag.Get("yaml") == "" {
		return true
	}
	if f.Tag.Get("required") != "" {
		return false
	}
	if r, ok := parent.Addr().Interface().(*Route); ok && f.Name == "Name" {
		return v.String() == "" || v.String() == r.defaultName()
	}
	switch v.Kind() {
	case reflect.Pointer:
		return v.IsNil()
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	}
	return reflect.DeepEqual(v.Interface(), base.Interface())
}

// base is what v is compared with: the default, or what it inherits.
func (p *printer) base(parent, v, def reflect.Value) reflect.Value {
	switch v.Interface().(type) {
	case *Limits:
		return reflect.ValueOf(&p.tree.Limits)
	case *Timeouts:
		if u := p.tree.Upstreams[parent.Addr().Interface().(*Route).To]; u != nil {
			return reflect.ValueOf(&u.Timeouts)
		}
	}
	return def
}

// value writes what comes after a key's colon, and ends the line.
func (p *printer) value(v, base reflect.Value, indent int, one bool) {
	if v.Kind() == reflect.Pointer {
		if base.IsNil() {
			base = newDefault(v.Type().Elem())
		}
		v, base = v.Elem(), base.Elem()
	}
	switch t := v.Type(); {
	case t == refType:
		p.ref(v.Interface().(TLSRef), indent)
	case t == fieldsType:
		p.fields(v.Interface().(Fields), indent)
	case isScalar(t):
		p.out.WriteString(" " + scalarYAML(v) + "\n")
	case t.Kind() == reflect.Struct:
		p.nested(func() bool { return p.structure(v, base, indent+1, false) })
	case t.Kind() == reflect.Map:
		p.mapping(v, indent)
	default:
		p.list(v, indent, one)
	}
}

// nested writes what write does below a key, or {} where it writes nothing.
func (p *printer) nested(write func() bool) {
	mark := p.out.Len()
	p.out.WriteByte('\n')
	if !write() {
		p.out.Truncate(mark)
		p.out.WriteString(" {}\n")
	}
}

func (p *printer) mapping(v reflect.Value, indent int) {
	p.out.WriteByte('\n')
	byName := v.Interface()
	var names []string
	switch m := byName.(type) {
	case map[string]*TLS:
		names = sortedKeys(m)
	case map[string]*Upstream:
		names = sortedKeys(m)
	}
	for _, name := range names {
		p.indent(indent + 1)
		p.out.WriteString(plainOrQuoted(name) + ":")
		item := v.MapIndex(reflect.ValueOf(name))
		p.value(item, reflect.Zero(item.Type()), indent+1, false)
	}
}

func (p *printer) list(v reflect.Value, indent int, one bool) {
	item := v.Type().Elem()
	if item.Kind() == reflect.Pointer {
		item = item.Elem()
	}
	if isScalar(item) {
		p.scalars(v, one)
		return
	}
	p.out.WriteByte('\n')
	for i := range v.Len() {
		p.indent(indent + 1)
		p.out.WriteString("- ")
		mark := p.out.Len()
		if !p.structure(reflect.Indirect(v.Index(i)), newDefault(item).Elem(), indent+2, true) {
			p.out.Truncate(mark)
			p.out.WriteString("{}\n")
		}
	}
}

// scalars writes a list in flow style, and one value without brackets where that may be.
func (p *printer) scalars(v reflect.Value, one bool) {
	texts := make([]string, v.Len())
	for i := range texts {
		texts[i] = scalarYAML(v.Index(i))
	}
	if one && len(texts) == 1 {
		p.out.WriteString(" " + texts[0] + "\n")
		return
	}
	p.out.WriteString(" [" + strings.Join(texts, ", ") + "]\n")
}

func (p *printer) ref(ref TLSRef, indent int) {
	if ref.Settings == nil {
		p.out.WriteString(" " + plainOrQuoted(ref.Name) + "\n")
		return
	}
	p.value(reflect.ValueOf(ref.Settings), reflect.ValueOf((*TLS)(nil)), indent, false)
}

// fields writes a mapping, or a list where a name comes twice.
func (p *printer) fields(fields Fields, indent int) {
	seen := map[string]bool{}
	for _, f := range fields {
		seen[f.Name] = true
	}
	if len(seen) < len(fields) {
		p.list(reflect.ValueOf([]Field(fields)), indent, false)
		return
	}
	p.out.WriteByte('\n')
	for _, f := range fields {
		p.indent(indent + 1)
		p.out.WriteString(keyYAML(f.Name) + ": " + plainOrQuoted(f.Value) + "\n")
	}
}

func (p *printer) indent(n int) { p.out.WriteString(strings.Repeat("  ", n)) }

// scalarYAML is a scalar as the file has it.
func scalarYAML(v reflect.Value) string {
	if v.Type() == durationType {
		return shortDuration(time.Duration(v.Int()))
	}
	if m, ok := v.Interface().(encoding.TextMarshaler); ok {
		// The types of this package and netip.Prefix write themselves without fail.
		text, _ := m.MarshalText()
		return plainOrQuoted(string(text))
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint32:
		return strconv.FormatUint(v.Uint(), 10)
	}
	return plainOrQuoted(v.String())
}

// shortDuration is d without the zeros at its end that time.Duration writes.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

// plain is text that YAML reads as it stands, in flow style too.
var plain = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./+*-]*$|^[0-9]+(B|[KMGT]iB|ms|s|m|h)$|^[A-Za-z][a-z+-]*://[A-Za-z0-9_.-]+(:[0-9]+)?$`)

// special are words that YAML, or an editor that reads YAML 1.1, takes for something other than text.
var special = regexp.MustCompile(`(?i)^(null|true|false|yes|no|y|n|on|off)$`)

// plainOrQuoted writes text so that it is read back as it is.
func plainOrQuoted(s string) string {
	if plain.MatchString(s) && !special.MatchString(s) {
		return s
	}
	return quoted(strings.ReplaceAll(s, "${", "$${"))
}

// keyYAML is plainOrQuoted for a key, in which nothing is expanded.
func keyYAML(s string) string {
	if plain.MatchString(s) && !special.MatchString(s) {
		return s
	}
	return quoted(s)
}

// quoted writes a double-quoted scalar. YAML 1.2, section 7.3.1.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x20, r >= 0x7f && r <= 0xa0, r == 0x2028, r == 0x2029, r == 0xfeff:
			b.WriteString(`\u` + strings.ToLower(strconv.FormatInt(0x10000+int64(r), 16)[1:]))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
