//go:build !linux

package link

import (
	"context"
	"net"
	"time"
)

// WireCommand is the hidden subcommand of bench that is a wire.
const WireCommand = "internal-wire"

// Status is what there is of a lab.
type Status struct {
	Lab
	Namespaces []string
	Ends       []End
	Broken     string
}

// End is one interface of a lab.
type End struct {
	Host, Name, Address, Qdisc string
	MTU                        int
}

// Up fails: there are no link labs on this system.
func Up(context.Context, Spec) (*Lab, error) { return nil, ErrUnsupported }

// Down fails: there are no link labs on this system.
func Down(context.Context, string) ([]string, error) { return nil, ErrUnsupported }

// Show fails: there are no link labs on this system.
func Show(context.Context) ([]*Status, error) { return nil, ErrUnsupported }

// Find fails: there are no link labs on this system.
func Find(context.Context, string) (*Lab, error) { return nil, ErrUnsupported }

// Wire fails: there are no link labs on this system.
func Wire(string) error { return ErrUnsupported }

// RunWire does nothing here.
func RunWire() {}

// Do fails: there are no link labs on this system.
func (l *Lab) Do(string, func() error) error { return ErrUnsupported }

// Dial fails: there are no link labs on this system.
func (l *Lab) Dial(context.Context, string, string) (net.Conn, error) { return nil, ErrUnsupported }

// Listen fails: there are no link labs on this system.
func (l *Lab) Listen(string, string) (net.Listener, error) { return nil, ErrUnsupported }

// MeasureRTT fails: there are no link labs on this system.
func (l *Lab) MeasureRTT(context.Context, int, int) (time.Duration, error) { return 0, ErrUnsupported }

// MeasureRate fails: there are no link labs on this system.
func (l *Lab) MeasureRate(context.Context, int, time.Duration) (Rate, error) {
	return 0, ErrUnsupported
}
