package load

import (
	"encoding/json"
	"testing"

	"github.com/hanzoai/pqgw/bench"
)

func marshal(t *testing.T, v any) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// call tells a generator in this process what its parent would.
func call(t *testing.T, verbs map[string]bench.Verb, verb string, args any) any {
	t.Helper()
	out, err := verbs[verb](t.Context(), marshal(t, args))
	if err != nil {
		t.Fatalf("%s %+v: %v", verb, args, err)
	}
	return out
}
