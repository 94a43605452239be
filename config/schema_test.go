package config

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestTheSchemaIsTheOneThatWasReviewed(t *testing.T) {
	golden(t, "testdata/schema.json", string(Schema()))
}

// object is a schema, or a part of one, as it is read back.
type object = map[string]any

func TestTheSchemaDescribesEveryKey(t *testing.T) {
	var schema struct {
		Properties map[string]object `json:"properties"`
		Defs       map[string]struct {
			Properties map[string]object `json:"properties"`
			Closed     *bool             `json:"additionalProperties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for name, typ := range structTypes(reflect.TypeFor[Tree](), map[string]reflect.Type{}) {
		if name == "TLSRef" || name == "Field" {
			continue // written in shapes of their own
		}
		properties := schema.Properties
		if name != "Tree" {
			def, ok := schema.Defs[name]
			if !ok {
				t.Errorf("no definition of %s", name)
				continue
			}
			if def.Closed == nil || *def.Closed {
				t.Errorf("%s allows unknown keys", name)
			}
			properties = def.Properties
		}
		for _, f := range fieldsOf(typ) {
			if p, ok := properties[f.key]; !ok || p["description"] == nil && p["$ref"] == nil {
				t.Errorf("%s.%s has no description", name, f.key)
			}
		}
	}
}
