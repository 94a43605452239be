package remotesign

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/goccy/go-yaml"
)

// Allow says which peers may use which keys, and for what. Nobody else may
// anything.
type Allow struct {
	// Keys are the rules by the name of the key.
	Keys map[string][]Rule `yaml:"keys"`
}

// Rule allows one peer.
type Rule struct {
	// Peer is the verified name of its certificate.
	Peer string `yaml:"peer"`
	// For are purposes.
	For []string `yaml:"for"`
}

// ReadAllow reads a list in YAML:
//
//	keys:
//	  site: [{peer: edge-1, for: [tls-server]}]
func ReadAllow(path string) (*Allow, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	a, err := ParseAllow(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return a, nil
}

// ParseAllow reads the list and checks all of it.
func ParseAllow(data []byte) (*Allow, error) {
	a := &Allow{}
	if err := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict()).Decode(a); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var problems []error
	for key, rules := range a.Keys {
		for i, r := range rules {
			if r.Peer == "" {
				problems = append(problems, fmt.Errorf("keys.%s[%d].peer: is missing", key, i))
			}
			if len(r.For) == 0 {
				problems = append(problems, fmt.Errorf("keys.%s[%d].for: is missing; there are %v", key, i, Purposes()))
			}
			for _, p := range r.For {
				if !slices.Contains(Purposes(), p) {
					problems = append(problems, fmt.Errorf("keys.%s[%d].for: unknown purpose %q; there are %v", key, i, p, Purposes()))
				}
			}
		}
	}
	if len(a.Keys) == 0 {
		problems = append(problems, errors.New("keys: there are none, so nobody could use anything"))
	}
	return a, errors.Join(problems...)
}

// allows tells whether the peer may use the key for the purpose, or for any where
// that is empty.
func (a *Allow) allows(key, peer, purpose string) bool {
	return peer != "" && slices.ContainsFunc(a.Keys[key], func(r Rule) bool {
		return r.Peer == peer && (purpose == "" || slices.Contains(r.For, purpose))
	})
}
