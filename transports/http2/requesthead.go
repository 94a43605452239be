package http2

import (
	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/section"
)

// read decodes block into h. The error is one of compression, which ends the
// connection; what is wrong with the section itself is in its Refusal.
func (d *decoder) read(sec *section.Section, block []byte) error {
	d.begin(block)
	for {
		ok, err := d.next()
		if err != nil {
			return connErr(CompressionError, err.Error())
		}
		if !ok {
			return nil
		}
		if !d.skip && !sec.Field(d.name, d.value) {
			d.skip = true
		}
	}
}

// readRequest decodes a request's head and gives the verdict on it.
func (c *Conn) readRequest(h *exchange.Head, block []byte) (*exchange.Refusal, error) {
	h.Reset(nil)
	sec := section.Section{Head: h, Limits: &c.o.Limits, Allowed: section.Request}
	if err := c.dec.read(&sec, block); err != nil {
		return nil, err
	}
	return sec.CheckRequest(exchange.HTTP2, "HTTP/2.0"), nil
}

// readTrailers decodes a trailer section.
func (c *conn) readTrailers(h *exchange.Head, block []byte) (*exchange.Refusal, error) {
	h.Reset(nil)
	sec := section.Section{Head: h, Limits: c.limits}
	if err := c.dec.read(&sec, block); err != nil {
		return nil, err
	}
	return sec.CheckTrailers(), nil
}

// discard decodes a section that nobody wants, to keep the table in step.
func (c *conn) discard(block []byte) error {
	c.dec.begin(block)
	c.dec.skip = true
	for {
		ok, err := c.dec.next()
		if err != nil {
			return connErr(CompressionError, err.Error())
		}
		if !ok {
			return nil
		}
	}
}
