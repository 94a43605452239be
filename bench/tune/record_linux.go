package tune

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"
)

// RecordPath is where apply keeps what was: settings end with the machine's
// run as this folder does, and each namespace has a file of its own.
func RecordPath() string {
	var s unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &s); err != nil || !namespaced() {
		return "/run/pqgw/tune.json"
	}
	return fmt.Sprintf("/run/pqgw/tune-%d.json", s.Ino)
}

// knobsOf finds the knobs of all settings by their names.
func knobsOf(nics []string) (map[string]knob, error) {
	out := make(map[string]knob)
	for _, nic := range append([]string{""}, nics...) {
		if nic != "" {
			if _, err := net.InterfaceByName(nic); err != nil {
				continue // gone, with its settings
			}
		}
		p, err := Make(nic)
		if err != nil {
			return nil, err
		}
		for _, s := range p.Settings {
			if s.knob != nil {
				out[s.Name] = s.knob
			}
		}
	}
	return out, nil
}
