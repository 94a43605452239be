package transports

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/transports/http3"
	"github.com/hanzoai/pqgw/transports/zap"
	"github.com/hanzoai/pqgw/transports/zaprpc"
)

// QUICSettings are those of the protocols that run over QUIC (RFC 9000), on the UDP port
// of the listener's own number.
type QUICSettings struct {
	// TLS is the handshake's side; its NextProtos are those of QUICALPN. Required.
	TLS *handshake.Server
	// IdleTimeout closes a connection on which nothing arrives; 0 stands for 30 s.
	IdleTimeout time.Duration
	// KeepAlive is after what silence a connection is pinged; 0 for never.
	KeepAlive time.Duration
	// StreamWindow and ConnectionWindow are how many bytes a client may send ahead
	// of the handlers; 0 stands for quic-go's 6 and 15 MiB.
	StreamWindow, ConnectionWindow uint64
	// RetryAbove is the number of handshakes under way from which on a client must
	// first prove its address (RFC 9000, section 8.1.2). 0: always.
	RetryAbove int
	// EarlyData lets GET, HEAD and OPTIONS be served before the handshake has ended (0-RTT).
	EarlyData bool
}

// QUICALPN gives the protocol ids to offer over QUIC for protocols of a listener;
// none where it has no QUIC.
func QUICALPN(protocols []string) []string {
	var ids []string
	for _, have := range protocols {
		switch have {
		case H3:
			ids = append(ids, http3.ALPN)
		case ZAP:
			ids = append(ids, zap.ALPN)
		case ZAPRPC:
			ids = append(ids, zaprpc.ALPN)
		}
	}
	return ids
}

// initialWindow is what streams and connections may send at first; quic-go lets
// the windows grow to the settings with what the path can carry.
const initialWindow = 512 << 10

// uniStreams is how many streams of its own direction a client may open: HTTP/3
// has three, and some that mean nothing to us may come.
const uniStreams = 16

// quicConfig is the settings as quic-go takes them.
func quicConfig(s *Settings) *quic.Config {
	q := s.QUIC
	return &quic.Config{
		HandshakeIdleTimeout:           s.HandshakeTimeout,
		MaxIdleTimeout:                 q.IdleTimeout,
		KeepAlivePeriod:                q.KeepAlive,
		InitialStreamReceiveWindow:     smaller(initialWindow, q.StreamWindow),
		MaxStreamReceiveWindow:         q.StreamWindow,
		InitialConnectionReceiveWindow: smaller(initialWindow, q.ConnectionWindow),
		MaxConnectionReceiveWindow:     q.ConnectionWindow,
		MaxIncomingStreams:             incomingStreams(s),
		MaxIncomingUniStreams:          uniStreams,
		RequireStreamCreditRelease:     true, // a stream counts until its handler has ended
		Allow0RTT:                      q.EarlyData,
	}
}

// incomingStreams is how many streams a client may have open: a call of RPC is one,
// too, and on a port that it shares with others as dear as theirs.
func incomingStreams(s *Settings) int64 {
	if len(QUICALPN(s.Protocols)) > 1 || !slices.Contains(s.Protocols, ZAPRPC) {
		return int64(s.Streams)
	}
	return int64(cmp.Or(s.RPCCalls, zaprpc.DefaultCalls))
}

func smaller(n, limit uint64) uint64 {
	if limit > 0 {
		return min(n, limit)
	}
	return n
}

func http3Options(s *Settings, l *Listener) http3.Options {
	return http3.Options{
		Handler: s.Handler, Watch: l.watch, Limits: s.Limits, HeadTimeout: s.HeadTimeout, IdleTimeout: s.IdleTimeout,
		StreamIdle: s.StreamIdle, WriteTimeout: writeTimeout, BodyMinRate: s.BodyMinRate, MaxRequests: s.MaxRequests, MaxStreams: s.Streams,
	}
}

// quicSide is the UDP half of a listener.
type quicSide struct {
	l        *Listener
	udp      *net.UDPConn
	tr       *quic.Transport
	ln       *quic.EarlyListener
	workers  *http3.Workers
	altSvc   string
	underWay atomic.Int64 // handshakes
	once     sync.Once    // of close

	mu       sync.Mutex
	attempts map[*quicAttempt]struct{} // connections, from their first packet on
}

// quietQUIC keeps quic-go from writing about buffer sizes itself, to a log that
// is not ours: see checkBuffers.
var quietQUIC = sync.OnceFunc(func() { _ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true") })

// bindQUIC binds the UDP socket. Packets are dropped until start.
func (l *Listener) bindQUIC(address string) (*quicSide, error) {
	quietQUIC()
	at, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	udp, err := net.ListenUDP("udp", at)
	if err != nil {
		return nil, err
	}
	port := udp.LocalAddr().(*net.UDPAddr).Port //nolint:forcetypeassert // it is a UDP socket
	return &quicSide{
		l: l, udp: udp, workers: http3.NewWorkers(), attempts: map[*quicAttempt]struct{}{},
		altSvc: fmt.Sprintf(`h3=":%d"; ma=%d`, port, int(altSvcAge.Seconds())),
	}, nil
}

// altSvcAge is for how long a client may remember that there is HTTP/3 (RFC 7838,
// section 3.1).
const altSvcAge = 24 * time.Hour

// start begins to take connections.
func (q *quicSide) start() error {
	q.tr = &quic.Transport{Conn: grouped(q.udp, listenGroups), ConnContext: q.attempt, VerifySourceAddress: q.mustProve}
	ln, err := q.tr.ListenEarly(
		&tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: q.tlsFor},
		&quic.Config{GetConfigForClient: func(*quic.ClientInfo) (*quic.Config, error) { return q.inForce() }},
	)
	if err != nil {
		_ = q.udp.Close()
		return err
	}
	q.ln = ln
	q.l.checkBuffers(q.udp)
	q.l.wg.Go(q.accept)
	return nil
}

var errNoQUIC = errors.New("the listener has no QUIC any more")

func (q *quicSide) inForce() (*quic.Config, error) {
	if f := q.l.inForce.Load(); f.QUIC != nil {
		return f.quic, nil
	}
	return nil, errNoQUIC
}

// mustProve asks a client for a round trip more while many handshakes are under way:
// its address may be another's.
func (q *quicSide) mustProve(net.Addr) bool {
	f := q.l.inForce.Load()
	return f.QUIC != nil && q.underWay.Load() >= int64(f.QUIC.RetryAbove)
}

// tlsFor gives the TLS configuration in force. The one that the listener was
// started with cannot be replaced, so it only leads here.
func (q *quicSide) tlsFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	a := attemptOf(hello.Context())
	if a == nil {
		return nil, errNoQUIC
	}
	base := a.f.QUIC.TLS.Config()
	if base.GetConfigForClient != nil {
		if other, err := base.GetConfigForClient(hello); other != nil || err != nil {
			return other, err
		}
	}
	return a.f.quicTLS, nil
}

// stop takes no more connections; those that shake hands are refused.
func (q *quicSide) stop() {
	if q.ln != nil {
		_ = q.ln.Close()
	}
}

// cut ends every connection, those that shake hands, too, without a word.
func (q *quicSide) cut() {
	if q.tr != nil {
		_ = q.tr.Close()
	}
	_ = q.udp.Close()
	q.mu.Lock()
	left := make([]*quicAttempt, 0, len(q.attempts))
	for a := range q.attempts {
		left = append(left, a)
	}
	q.mu.Unlock()
	for _, a := range left {
		if a.unwatch() {
			a.ended(net.ErrClosed)
		}
	}
}

// close ends what is left once all connections have ended.
func (q *quicSide) close() {
	q.cut()
	q.workers.Close()
}

// accept takes connections whose handshake has come far enough for early data.
func (q *quicSide) accept() {
	for {
		qc, err := q.ln.Accept(context.Background())
		if err != nil {
			return
		}
		a := attemptOf(qc.Context())
		a.qc.Store(qc)
		q.l.wg.Go(func() { q.serve(qc, a) })
	}
}
