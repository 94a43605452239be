package http3

import (
	"io"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/transports/section"
)

func isEOF(err error) bool { return err == io.EOF } //nolint:errorlint // quic-go gives the value itself

// entryOverhead is what SETTINGS_MAX_FIELD_SECTION_SIZE counts for each field
// beyond its bytes (RFC 9114, section 4.2.2).
const entryOverhead = 32

// read decodes block into h. The error is one of compression, which ends the
// connection; what is wrong with the section itself is in its Refusal.
func (d *decoder) read(sec *section.Section, block []byte) error {
	err := d.begin(block)
	for err == nil && !d.skip { // where the rest is skipped nothing depends on it: there is no dynamic table
		var ok bool
		if ok, err = d.next(); !ok && err == nil {
			return nil
		}
		if err == nil {
			d.skip = !sec.Field(d.name, d.value)
		}
	}
	if err != nil {
		return connErr(DecompressionFailed, err.Error())
	}
	return nil
}

// readRequest decodes a request's head and gives the verdict on it.
func readRequest(d *decoder, h *exchange.Head, block []byte, lim *exchange.Limits) (*exchange.Refusal, error) {
	h.Reset(nil)
	sec := section.Section{Head: h, Limits: lim, Allowed: section.Request}
	if err := d.read(&sec, block); err != nil {
		return nil, err
	}
	return sec.CheckRequest(exchange.HTTP3, "HTTP/3.0"), nil
}

// readResponse decodes an answer's head and gives the verdict on it.
func readResponse(d *decoder, h, req *exchange.Head, block []byte, lim *exchange.Limits) (*exchange.Refusal, error) {
	h.Reset(nil)
	sec := section.Section{Head: h, Limits: lim, Allowed: section.Status}
	if err := d.read(&sec, block); err != nil {
		return nil, err
	}
	h.SetVersion("HTTP/3.0")
	switch {
	case sec.Refusal != nil:
		return sec.Refusal, nil
	case sec.Seen != section.Status:
		return exchange.RefusePseudo, nil
	}
	return exchange.CheckResponse(h, req, exchange.HTTP3, 0, lim), nil
}

// readTrailers decodes a trailer section.
func readTrailers(d *decoder, h *exchange.Head, block []byte, lim *exchange.Limits) (*exchange.Refusal, error) {
	h.Reset(nil)
	sec := section.Section{Head: h, Limits: lim}
	if err := d.read(&sec, block); err != nil {
		return nil, err
	}
	return sec.CheckTrailers(), nil
}
