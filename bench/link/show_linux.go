package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// End is one interface of a lab.
type End struct {
	Host    string `json:"host"`
	Name    string `json:"name"`
	Address string `json:"address"`
	MTU     int    `json:"mtu"`
	Qdisc   string `json:"qdisc"` // as tc(8) tells it
}

// Status is what there is of a lab.
type Status struct {
	Lab
	Namespaces []string `json:"namespaces"`
	Ends       []End    `json:"ends,omitempty"`
	// Broken is why the lab cannot be used: it is the remains of one.
	Broken string `json:"broken,omitempty"`
}

// Show tells what labs there are.
func Show(ctx context.Context) ([]*Status, error) {
	if err := allowed(); err != nil {
		return nil, err
	}
	all, err := namespaces(ctx, "")
	if err != nil {
		return nil, err
	}
	var out []*Status
	for _, ns := range all {
		name, _ := labOf(ns)
		i := slices.IndexFunc(out, func(s *Status) bool { return s.Name == name })
		if i < 0 {
			i, out = len(out), append(out, &Status{Lab: Lab{Spec{Name: name}}})
		}
		out[i].Namespaces = append(out[i].Namespaces, ns)
	}
	for _, s := range out {
		if err := s.look(ctx); err != nil {
			s.Broken = err.Error()
		}
	}
	return out, nil
}

// Find gives a lab that is up and whole.
func Find(ctx context.Context, name string) (*Lab, error) {
	all, err := Show(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		switch {
		case s.Name != name:
		case s.Broken != "":
			return nil, fmt.Errorf("link lab %s is broken: %s (pqgw bench link down --name %s takes it away)", name, s.Broken, name)
		default:
			return &s.Lab, nil
		}
	}
	return nil, fmt.Errorf("%w: %s (pqgw bench link up makes one)", ErrNotThere, name)
}

// look reads the lab from the kernel.
func (s *Status) look(ctx context.Context) error {
	load := s.Namespace(Load)
	if !slices.Contains(s.Namespaces, load) {
		return errors.New("the load's host is not there")
	}
	for _, ns := range s.Namespaces {
		ends, err := endsOf(ctx, ns)
		if err != nil {
			return err
		}
		s.Ends = append(s.Ends, ends...)
		if ns != load {
			continue
		}
		text, err := output(ctx, "ip", "-n", ns, "link", "show", "dev", "link0") // its JSON leaves the alias out
		if err != nil {
			return err
		}
		_, note, _ := strings.Cut(text, "alias ")
		if err := s.fromNote(strings.TrimSpace(note)); err != nil {
			return err
		}
		s.MTU = ends[0].MTU
	}
	if want := 2*s.Links + 2*(s.Hosts-2); len(s.Ends) != want || len(s.Namespaces) != s.Hosts {
		return fmt.Errorf("%d hosts and %d ends of links, where there should be %d and %d", len(s.Namespaces), len(s.Ends), s.Hosts, want)
	}
	return nil
}

// endsOf lists a namespace's ends.
func endsOf(ctx context.Context, ns string) (ends []End, err error) {
	text, err := output(ctx, "ip", "-j", "-n", ns, "addr", "show")
	if err != nil {
		return nil, err
	}
	var found []struct {
		Name      string `json:"ifname"`
		MTU       int    `json:"mtu"`
		Addresses []struct {
			Local string `json:"local"`
		} `json:"addr_info"`
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return nil, fmt.Errorf("ip -j -n %s addr show: %w", ns, err)
	}
	for _, f := range found {
		if f.Name != "back" && !strings.HasPrefix(f.Name, "link") || len(f.Addresses) == 0 {
			continue
		}
		e := End{Host: ns[strings.LastIndexByte(ns, '-')+1:], Name: f.Name, MTU: f.MTU, Address: f.Addresses[0].Local}
		if e.Qdisc, err = qdisc(ctx, ns, f.Name); err != nil {
			return nil, err
		}
		ends = append(ends, e)
	}
	if len(ends) == 0 {
		return nil, fmt.Errorf("%s has no links", ns)
	}
	return ends, nil
}

func qdisc(ctx context.Context, ns, name string) (string, error) {
	text, err := output(ctx, "tc", "-n", ns, "qdisc", "show", "dev", name)
	first, _, _ := strings.Cut(text, "\n")
	if strings.HasPrefix(first, "qdisc htb") {
		text, err = output(ctx, "tc", "-n", ns, "class", "show", "dev", name)
		first, _, _ = strings.Cut(text, "\n")
	}
	return strings.TrimSpace(first), err
}
