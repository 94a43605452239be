package tune

import (
	"errors"
	"fmt"
)

// State of a setting.
type State string

// The states of a setting in a plan and after a run.
const (
	Fine     State = "fine"     // as wanted
	Change   State = "change"   // apply would change it
	Changed  State = "changed"  // apply has changed it
	Restored State = "restored" // revert has put it back
	Refused  State = "refused"  // kernel or driver did not take it
	Absent   State = "absent"   // not there, or not this namespace's
)

// Setting is one thing that can be set: what is, what would be and why.
type Setting struct {
	Name  string `json:"name"` // "net.core.somaxconn", "eth0 ring rx"
	Is    string `json:"is,omitempty"`
	Want  string `json:"want,omitempty"`
	Why   string `json:"why"`
	State State  `json:"state"`
	Note  string `json:"note,omitempty"` // why it was refused or is absent

	knob knob
}

// knob reads and writes a setting.
type knob interface {
	read() (string, error)
	write(value string) error
}

// Errors that callers tell apart.
var (
	// ErrPermission: something that has to be changed needs root.
	ErrPermission = errors.New("no permission")
	// ErrUnsupported: there is nothing to tune on this system.
	ErrUnsupported = errors.New("tuning is for Linux")
	errAbsent      = errors.New("not there")
)

// propose makes a setting of what a knob says now and of what better makes of
// it.
func propose(name, why string, k knob, better func(is string) (want string, err error)) *Setting {
	s := &Setting{Name: name, Why: why, State: Absent, knob: k}
	is, err := k.read()
	if err != nil {
		s.Note = err.Error()
		return s
	}
	s.Is = is
	want, err := better(is)
	if err != nil {
		s.Note = fmt.Sprintf("cannot be understood: %v", err)
		return s
	}
	s.Want, s.State = want, Change
	if want == is {
		s.State = Fine
	}
	return s
}

// notOurs is a setting that belongs to the machine, seen from a namespace.
func notOurs(name, why string) *Setting {
	return &Setting{Name: name, Why: why, State: Absent, Note: "the machine's, not this network namespace's"}
}
