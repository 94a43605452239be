package transports

import (
	"errors"
	"strings"
	"time"

	"github.com/hanzoai/pqgw/exchange"
	"github.com/hanzoai/pqgw/telemetry"
	"github.com/hanzoai/pqgw/transports/http2"
	"github.com/hanzoai/pqgw/transports/http3"
)

// ended counts and logs a connection that broke off, err being why it is served no
// more. What became of its exchanges the gateway has told.
func (l *Listener) ended(err error, info *exchange.Conn) {
	reason := brokenBy(err)
	if reason == "" {
		return
	}
	l.series.Broken(reason)
	l.log.Load().Broken(&telemetry.BrokenRecord{
		Time: time.Now(), Listener: l.name, Client: info.ClientText, Protocol: info.Protocol.String(),
		Reason: reason, Detail: err.Error(),
	})
}

// brokenBy is the reason in log and metrics, one of a fixed set: a request that was cut, or the
// code with which we ended an HTTP/2 or HTTP/3 connection for a fault of the client's. It is
// empty for ways to end that are no fault.
func brokenBy(err error) string {
	var cut *exchange.CutError
	var h2 *http2.ConnError
	var h3 *http3.ConnError
	switch {
	case errors.As(err, &cut):
		return cut.Reason
	case errors.As(err, &h2) && !h2.Remote:
		return "h2_" + strings.ToLower(h2.Code.String())
	case errors.As(err, &h3) && !h3.Remote && h3.Code != http3.NoError:
		return strings.ToLower(h3.Code.String())
	}
	return ""
}
