package http2

import "time"

// budget bounds what a peer may make us do for nothing: frames that carry no
// message (PING, SETTINGS, PRIORITY, empty DATA, CONTINUATION, WINDOW_UPDATE,
// unknown ones) and streams that are reset, by the peer or by us for a fault of
// the peer's (CVE-2023-44487, CVE-2025-8671). Both refill with time and with
// useful work, so that neither a long life nor a busy one is held against a
// connection. It is the reader's own.
type budget struct {
	c        *conn
	frames   int
	streams  int   // resets left
	resets   int   // since the last look, by fault
	opened   int   // streams, since the last refill
	done     int64 // streams that came to a proper end, at the last refill
	sent     int64 // DATA frames, at the last refill
	refilled time.Time
	maxReset int
}

const (
	maxFrames       = 4096
	framesPerSecond = 200
	// framesPerStream is what an exchange may need beside its own frames: windows,
	// pings of clients that measure.
	framesPerStream = 16
	// framesPerData is how many a peer may need for a DATA frame of ours: windows, and the pings
	// by which gRPC measures the way. Go's client opens its windows anew every 4 KiB, twice.
	framesPerData   = 16
	resetsPerSecond = 20
	// DefaultMaxResets is how many streams may be reset in a burst.
	DefaultMaxResets = 200
)

func (b *budget) init(c *conn) {
	b.c, b.frames, b.refilled = c, maxFrames, c.start
	if b.maxReset == 0 {
		b.maxReset = DefaultMaxResets
	}
	b.streams = b.maxReset
}

// spend counts a frame that carries nothing.
func (b *budget) spend(n int) error {
	if b.frames -= n; b.frames > 0 && b.resets == 0 {
		return nil
	}
	b.streams -= b.resets
	b.resets = 0
	if b.frames > 0 && b.streams > 0 {
		return nil
	}
	b.refill()
	switch {
	case b.frames <= 0:
		return connErr(EnhanceYourCalm, "too many frames that carry nothing")
	case b.streams <= 0:
		return connErr(EnhanceYourCalm, "too many streams are reset")
	}
	return nil
}

// spendReset counts a stream that is reset, or a fault for which one would be.
func (b *budget) spendReset() error {
	b.resets++
	return b.spend(1)
}

// refill happens only when a budget is used up, so ordinary work pays nothing for it.
func (b *budget) refill() {
	now := time.Now()
	seconds := now.Sub(b.refilled).Seconds()
	done, sent := b.c.done.Load(), b.c.sentFrames.Load()
	b.frames = min(maxFrames, b.frames+int(seconds*framesPerSecond)+(b.opened+int(done-b.done))*framesPerStream+int(sent-b.sent)*framesPerData)
	b.streams = min(b.maxReset, b.streams+int(seconds*resetsPerSecond)+int(done-b.done))
	b.refilled, b.opened, b.done, b.sent = now, 0, done, sent
}
