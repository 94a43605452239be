package tune

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// saved is what a setting was before it was changed.
type saved struct {
	Name string `json:"name"`
	Was  string `json:"was"`
	Set  string `json:"set"` // what it was changed to
}

// record is the file that apply leaves for revert.
type record struct {
	Version  int      `json:"version"`
	NICs     []string `json:"nics"`
	Settings []saved  `json:"settings"`
}

// recordVersion grows whenever an older reader would restore wrongly.
const recordVersion = 1

// Apply changes what the plan says and keeps what was in a record at path,
// which it writes before it changes anything. Applied again it changes what has
// come undone, and what was the first time stays in the record. A refusal is
// told in the setting and is no error, but ErrPermission is: root is missing.
func (p *Plan) Apply(path string) error {
	r, err := readRecord(path)
	if err != nil {
		return err
	}
	changes := 0
	for _, s := range p.Settings {
		if s.State != Change {
			continue
		}
		changes++
		r.keep(s)
	}
	if changes == 0 {
		return nil
	}
	for _, nic := range p.NICs {
		if !slices.Contains(r.NICs, nic) {
			r.NICs = append(r.NICs, nic)
		}
	}
	if err := r.write(path); err != nil {
		return err
	}
	var denied error
	for _, s := range p.Settings {
		if s.State == Change {
			denied = errors.Join(denied, s.set(r))
		}
	}
	// What was refused has not been changed, so there is nothing to put back.
	return errors.Join(denied, r.finish(path))
}

// set changes a setting and looks at what came of it.
func (s *Setting) set(r *record) error {
	err := s.knob.write(s.Want)
	got, e := s.knob.read()
	switch {
	case err == nil && e == nil && got != s.Is:
		s.State, s.Is = Changed, got
		r.note(s.Name, got)
		return nil
	case err == nil:
		err = errors.New("it was taken and changed nothing")
	}
	r.forget(s)
	s.State, s.Note = Refused, err.Error()
	if errors.Is(err, ErrPermission) {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// keep notes what a setting is, unless it is known what it was at first.
func (r *record) keep(s *Setting) {
	if i := r.find(s.Name); i >= 0 {
		return
	}
	r.Settings = append(r.Settings, saved{Name: s.Name, Was: s.Is})
}

func (r *record) find(name string) int {
	return slices.IndexFunc(r.Settings, func(e saved) bool { return e.Name == name })
}

func (r *record) note(name, set string) {
	if i := r.find(name); i >= 0 {
		r.Settings[i].Set = set
	}
}

// forget drops a setting that was never changed.
func (r *record) forget(s *Setting) {
	if i := r.find(s.Name); i >= 0 && r.Settings[i].Set == "" {
		r.Settings = slices.Delete(r.Settings, i, i+1)
	}
}

// Revert puts back what apply has changed, last things first, and removes the
// record. What cannot be put back stays in it. Without a record nothing is done.
func Revert(path string) ([]*Setting, error) {
	r, err := readRecord(path)
	if err != nil || len(r.Settings) == 0 {
		return nil, err
	}
	knobs, err := knobsOf(r.NICs)
	if err != nil {
		return nil, err
	}
	var out []*Setting
	var left []saved
	var denied error
	for _, e := range slices.Backward(r.Settings) {
		s, err := e.restore(knobs[e.Name])
		out = append(out, s)
		if err != nil {
			left = append(left, e)
		}
		if errors.Is(err, ErrPermission) {
			denied = errors.Join(denied, fmt.Errorf("%s: %w", e.Name, err))
		}
	}
	slices.Reverse(left)
	r.Settings = left
	return out, errors.Join(denied, r.finish(path))
}

func (e saved) restore(k knob) (*Setting, error) {
	s := &Setting{Name: e.Name, Want: e.Was, Why: "what it was before apply", State: Refused}
	if k == nil {
		s.State, s.Note = Absent, errAbsent.Error()
		return s, nil // its interface has gone, and what was set with it
	}
	is, err := k.read()
	if err == nil && is != e.Was {
		if e.Set != "" && is != e.Set {
			s.Note = "somebody had changed it to " + is + " since"
		}
		if err = k.write(e.Was); err == nil {
			is, err = k.read()
		}
	}
	s.Is = is
	if err == nil && is != e.Was {
		err = errors.New("it was taken and is " + is)
	}
	if err != nil {
		s.Note = err.Error()
		return s, err
	}
	s.State = Restored
	return s, nil
}

// readRecord gives what apply has left, or an empty record.
func readRecord(path string) (*record, error) {
	r := &record{Version: recordVersion}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, permission(err)
	}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s: not a record of what was: %w", path, err)
	}
	if r.Version != recordVersion {
		return nil, fmt.Errorf("%s: version %d, and this binary reads %d", path, r.Version, recordVersion)
	}
	return r, nil
}

// finish writes the record, or removes it when it says nothing.
func (r *record) finish(path string) error {
	if len(r.Settings) > 0 {
		return r.write(path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return permission(err)
	}
	return nil
}

// write replaces the file as a whole and makes sure that it is on the disk:
// without it nobody knows what was.
func (r *record) write(path string) error {
	data, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return fmt.Errorf("record what was: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return permission(err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".tune-*")
	if err != nil {
		return permission(err)
	}
	_, err = f.Write(append(data, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("record what was: %w", err)
	}
	return nil
}

func permission(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: %w", ErrPermission, err)
	}
	return fmt.Errorf("record what was: %w", err)
}
