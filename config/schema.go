package config

import (
	"embed"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// sources are the files that hold the types of the tree, for their doc comments.
//
//go:embed tree.go kms.go acme.go tls.go listener.go limits.go upstream.go route.go
var sources embed.FS

// variable is the pattern of a value that is filled in when the file is read.
const variable = `\$\{`

// Schema is the JSON Schema (draft 2020-12) of the configuration file, made
// from the tree: editors complete and check by it. It allows all that Load
// allows, and some more, as it knows nothing of how settings fit together.
func Schema() []byte {
	docs, err := comments()
	if err != nil {
		panic(fmt.Sprintf("config: %v", err)) // The sources are those that were compiled.
	}
	r := jsonschema.Reflector{
		Anonymous:                  true,
		ExpandedStruct:             true,
		FieldNameTag:               "yaml",
		RequiredFromJSONSchemaTags: true,
		Mapper:                     scalarSchema,
		LookupComment: func(t reflect.Type, name string) string {
			if name == "" {
				return docs[t.Name()]
			}
			return docs[t.Name()+"."+name]
		},
	}
	s := r.Reflect(&Tree{})
	s.Title = "pqgw configuration"
	s.Description = "The configuration file of pqgw, version 1. Sizes are written as 32KiB, durations as 30s; ${VAR}, ${VAR:-default} and ${file:/path} stand for values from elsewhere; relative paths are relative to the file."
	refine(s, reflect.TypeFor[Tree]())
	for name, t := range structTypes(reflect.TypeFor[Tree](), map[string]reflect.Type{}) {
		if def := s.Definitions[name]; def != nil {
			refine(def, t)
		}
	}
	// Marshalling what a Reflector made cannot fail.
	out, _ := json.MarshalIndent(s, "", "  ")
	return append(out, '\n')
}

// structTypes collects the structs that the tree is made of, by name.
func structTypes(t reflect.Type, found map[string]reflect.Type) map[string]reflect.Type {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return structTypes(t.Elem(), found)
	case reflect.Struct:
		if isScalar(t) || found[t.Name()] != nil {
			return found
		}
		found[t.Name()] = t
		for i := range t.NumField() {
			structTypes(t.Field(i).Type, found)
		}
	}
	return found
}

// refine adds what the tags of the tree say.
func refine(s *jsonschema.Schema, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("yaml")
		property, ok := s.Properties.Get(key)
		if !ok {
			continue
		}
		if f.Tag.Get("required") != "" {
			s.Required = append(s.Required, key)
		}
		if f.Tag.Get("one") != "" && property.Items != nil {
			property = oneOrMany(property)
			s.Properties.Set(key, property)
		}
		if text, ok := f.Tag.Lookup("default"); ok {
			property.Default = defaultJSON(f.Type, text)
		}
	}
}

// oneOrMany allows a single value in place of a list.
func oneOrMany(list *jsonschema.Schema) *jsonschema.Schema {
	description := list.Description
	list.Description = ""
	return &jsonschema.Schema{Description: description, AnyOf: []*jsonschema.Schema{list.Items, list}}
}

func defaultJSON(t reflect.Type, text string) any {
	switch {
	case t.Kind() == reflect.Bool:
		return text == "true"
	case t.Kind() == reflect.Int:
		n, _ := strconv.Atoi(text)
		return n
	}
	return text
}

// scalarSchema is the schema of the types that are not plain structs, maps or lists; nil for others.
func scalarSchema(t reflect.Type) *jsonschema.Schema {
	zero := reflect.Zero(t).Interface()
	if w, ok := zero.(word); ok {
		return wordSchema(w)
	}
	switch zero.(type) {
	case time.Duration:
		return pattern(`^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`, "A duration such as 500ms, 30s or 1h30m.")
	case Bytes:
		size := pattern(`^[0-9]+ ?([kMGT]?B|[KMGT]iB)?$`, "A size such as 32KiB or 1GiB.")
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{size, {Type: "integer", Minimum: "0"}}}
	case netip.Prefix:
		return &jsonschema.Schema{Type: "string", Description: "A network such as 10.0.0.0/8, or one address."}
	case Address:
		return pattern(`^unix:.+|:[0-9]+$`, "host:port, :port or unix:/path.")
	case Endpoint:
		return pattern(`^(`+strings.ReplaceAll(strings.Join(SchemeHTTP.values(), "|"), "+", `\+`)+`):`, "scheme://host:port or scheme:/path.")
	case TLSRef:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Ref: "#/$defs/TLS"}}}
	case Fields:
		return fieldsSchema()
	}
	switch t.Kind() {
	case reflect.Bool:
		return orVariable(&jsonschema.Schema{Type: "boolean"})
	case reflect.Int, reflect.Uint32:
		return orVariable(&jsonschema.Schema{Type: "integer", Minimum: "0"})
	case reflect.String:
		return &jsonschema.Schema{Type: "string"}
	}
	return nil
}

func wordSchema(w word) *jsonschema.Schema {
	values := w.values()
	if _, isGroup := w.(Group); isGroup {
		// One schema for all builds: that MLKEM1024 needs a newer one, Load says better.
		values = slices.DeleteFunc(slices.Clone(values), func(v string) bool { return v == string(MLKEM1024) })
		values = append(append(values, string(MLKEM1024)), sortedKeys(groupAliases)...)
	}
	if _, isPQ := w.(PQ); isPQ && !slices.Contains(values, string(PQCNSA2)) {
		values = append(slices.Clone(values), string(PQCNSA2)) // as above
	}
	s := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		s.Enum = append(s.Enum, v)
	}
	if _, isVersion := w.(TLSVersion); isVersion {
		// Without quotes YAML takes these for numbers.
		s.Type = ""
		s.Enum = append(s.Enum, 1.3, 1.2)
	}
	return orVariable(s)
}

// pattern is a string of a shape, or one with a variable in it.
func pattern(re, description string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "string", Pattern: re + "|" + variable, Description: description}
}

// orVariable allows `${…}` where another type or a word is meant.
func orVariable(s *jsonschema.Schema) *jsonschema.Schema {
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "string", Pattern: variable}}}
}

func fieldsSchema() *jsonschema.Schema {
	text := &jsonschema.Schema{Type: "string"}
	values := &jsonschema.Schema{AnyOf: []*jsonschema.Schema{text, {Type: "array", Items: text}, {Type: "number"}, {Type: "boolean"}}}
	properties := jsonschema.NewProperties()
	properties.Set("name", &jsonschema.Schema{Type: "string"})
	properties.Set("value", &jsonschema.Schema{Type: "string"})
	item := &jsonschema.Schema{Type: "object", Properties: properties, Required: []string{"name"}, AdditionalProperties: jsonschema.FalseSchema}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
		{Type: "object", AdditionalProperties: values},
		{Type: "array", Items: item},
	}}
}
