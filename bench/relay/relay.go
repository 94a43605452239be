// Package relay delays what passes between two programs, as a long line
// would, without privileges: it listens on the loopback and forwards TCP and
// UDP a one-way delay later, as fast as it comes and in its order.
//
// It cannot delay the kernel's own packets. What a TCP connection would lose
// to its SYN is made up for: the first bytes of the side that opened it wait
// one round trip more. Congestion control sees the loopback's round trip.
package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// queued bounds what is under way in one direction: beyond it the sender
// waits, as on a full line. A line of 2.5 Gbit/s and 100 ms holds 31 MB.
const queued = 32 << 20

// TCP forwards connections to a target. It ends with Close.
type TCP struct {
	delay    time.Duration // one way
	target   string
	listener net.Listener
	cancel   context.CancelFunc
	ctx      context.Context
	wg       sync.WaitGroup
}

// ListenTCP relays a port of the loopback to target, with a round trip time
// of rtt.
func ListenTCP(target string, rtt time.Duration) (*TCP, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &TCP{delay: rtt / 2, target: target, listener: l}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.wg.Go(r.accept)
	return r, nil
}

// Addr is where to connect to.
func (r *TCP) Addr() string { return r.listener.Addr().String() }

// Close ends the relay and its connections.
func (r *TCP) Close() error {
	r.cancel()
	err := r.listener.Close()
	r.wg.Wait()
	return err
}

func (r *TCP) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.wg.Go(func() { r.forward(c) })
	}
}

func (r *TCP) forward(client net.Conn) {
	defer client.Close()
	established := time.Now().Add(2 * r.delay)
	var d net.Dialer
	server, err := d.DialContext(r.ctx, "tcp", r.target)
	if err != nil {
		return
	}
	defer server.Close()
	stop := context.AfterFunc(r.ctx, func() {
		_ = client.Close()
		_ = server.Close()
	})
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { carry(server, client, r.delay, established) })
	both.Go(func() { carry(client, server, r.delay, time.Time{}) })
	both.Wait()
}

// parcel is what was read at once, and when it is to arrive.
type parcel struct {
	data []byte
	due  time.Time
}

// carry copies from src to dst, each read one delay later and none before
// notBefore and the delay, and then the end of src.
func carry(dst, src net.Conn, delay time.Duration, notBefore time.Time) {
	const size = 64 << 10
	line := make(chan parcel, queued/size)
	go func() { // ends with src, which the caller closes
		defer close(line)
		for {
			buf := make([]byte, size)
			n, err := src.Read(buf)
			if n > 0 {
				now := time.Now()
				if now.Before(notBefore) {
					now = notBefore
				}
				line <- parcel{buf[:n], now.Add(delay)}
			}
			if err != nil {
				if !errors.Is(err, io.EOF) {
					_ = dst.Close() // what was cut off does not end in order
				}
				return
			}
		}
	}()
	for p := range line {
		time.Sleep(time.Until(p.due))
		if _, err := dst.Write(p.data); err != nil {
			_ = src.Close()
		}
	}
	if half, ok := dst.(interface{ CloseWrite() error }); ok {
		time.Sleep(delay)
		_ = half.CloseWrite()
	}
}
