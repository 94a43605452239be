//go:build !linux

package tune

import "errors"

// ErrNoInterface: there is no interface of that name.
var ErrNoInterface = errors.New("no such interface")

// Plan is what would be done.
type Plan struct {
	Namespaced bool       `json:"namespaced"`
	NICs       []string   `json:"nics"`
	Settings   []*Setting `json:"settings"`
}

// Make fails: there is nothing to tune on this system.
func Make(string) (*Plan, error) { return nil, ErrUnsupported }

// RecordPath is where apply would keep what was.
func RecordPath() string { return "" }

func knobsOf([]string) (map[string]knob, error) { return nil, ErrUnsupported }
