package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// ready waits until the gateway answers on each link.
func (l *Lab) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second+4*l.RTT)
	defer cancel()
	for i := range l.Links {
		if _, err := l.knock(ctx, i); err != nil {
			return fmt.Errorf("link%d carries nothing: %w", i, err)
		}
	}
	return nil
}

// closedPort is one that nobody listens on.
const closedPort = 1

// knock connects to a closed port over a link, whose refusal takes one round trip.
func (l *Lab) knock(ctx context.Context, link int) (time.Duration, error) {
	began := time.Now()
	c, err := l.Dial(ctx, Load, net.JoinHostPort(l.Addr(Gateway, link).String(), strconv.Itoa(closedPort)))
	took := time.Since(began)
	if err == nil {
		_ = c.Close()
		return 0, fmt.Errorf("port %d is open", closedPort)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return 0, err
	}
	return took, nil
}

// MeasureRTT gives the round trip time of a link: that of the fastest of n
// packets, as the others have waited for a CPU.
func (l *Lab) MeasureRTT(ctx context.Context, link, n int) (time.Duration, error) {
	times := make([]time.Duration, n)
	for i := range times {
		var err error
		if times[i], err = l.knock(ctx, link); err != nil {
			return 0, err
		}
	}
	return slices.Min(times), nil
}

// MeasureRate sends from load to gateway over one TCP connection on a link for
// a time, and gives the bits of payload that arrived each second, slow start
// apart: the first quarter is not counted.
func (l *Lab) MeasureRate(ctx context.Context, link int, d time.Duration) (Rate, error) {
	ctx, cancel := context.WithTimeout(ctx, d+5*time.Second+4*l.RTT)
	defer cancel()
	n, err := l.Listen(Gateway, l.Addr(Gateway, link).String()+":0")
	if err != nil {
		return 0, err
	}
	defer n.Close()
	source, err := l.Dial(ctx, Load, n.Addr().String())
	if err != nil {
		return 0, err
	}
	defer source.Close()
	sink, err := n.Accept()
	if err != nil {
		return 0, err
	}
	defer sink.Close()
	began := time.Now()
	for _, c := range []net.Conn{source, sink} {
		if err := c.SetDeadline(began.Add(d + 5*time.Second)); err != nil {
			return 0, err
		}
	}
	sent := make(chan error, 1)
	go func() { sent <- pump(source, began.Add(d)) }()
	rate, err := drain(sink, began.Add(d/4), began.Add(d))
	return rate, errors.Join(err, <-sent)
}

func pump(w net.Conn, until time.Time) error {
	defer w.Close()
	buf := make([]byte, 256<<10)
	for time.Now().Before(until) {
		if _, err := w.Write(buf); err != nil {
			return err
		}
	}
	return nil
}

// drain reads to the end and counts what comes between two moments.
func drain(r io.Reader, from, to time.Time) (Rate, error) {
	buf := make([]byte, 256<<10)
	var bits int64
	var first, last time.Time
	for {
		n, err := r.Read(buf)
		if now := time.Now(); now.After(from) && now.Before(to) {
			if first.IsZero() {
				first = now // what came with it belongs to the time before
			} else {
				bits, last = bits+8*int64(n), now
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
	}
	if bits == 0 {
		return 0, errors.New("nothing arrived")
	}
	return Rate(float64(bits) / last.Sub(first).Seconds()), nil
}
