package http2

import (
	"errors"
	"time"
)

// linger lets what was sent last arrive: a socket that is closed with input
// unread resets the connection, and what is under way to the peer is lost.
func (c *conn) linger() {
	w, ok := c.nc.(interface{ CloseWrite() error })
	if !ok || w.CloseWrite() != nil {
		return
	}
	// A peer that keeps sending is not listened to for longer than this.
	c.nc.SetReadDeadline(time.Now().Add(lingerTime))
	var buf [512]byte
	for total := 0; total < lingerBytes; {
		n, err := c.nc.Read(buf[:])
		if err != nil {
			return
		}
		total += n
	}
}

const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 1 << 20
	goAwayTime  = time.Second
)

// sayGoAway sends GOAWAY for an error of the peer's and what waits before it.
// The reader is done when this is called.
func (c *conn) sayGoAway(last uint32, err error) {
	var e *ConnError
	if !errors.As(err, &e) || e.Remote {
		return
	}
	c.nc.SetWriteDeadline(time.Now().Add(goAwayTime))
	if c.out.end(appendGoAway(c.out.begin(), last, e.Code, e.Reason)) == nil {
		c.out.flushWait()
	}
}

// recentStreams remembers the last streams that we reset: frames for them
// were sent before the peer knew, and are no fault.
type recentStreams struct {
	ids  []uint32 // made when there is something to remember
	next int
}

const maxRecent = 256

func (r *recentStreams) add(id uint32) {
	if r.ids == nil {
		r.ids = make([]uint32, maxRecent)
	}
	r.ids[r.next%maxRecent] = id
	r.next++
}

func (r *recentStreams) has(id uint32) bool {
	for _, v := range r.ids {
		if v == id {
			return true
		}
	}
	return false
}
