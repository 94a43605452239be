package handshake

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// ProbeOptions say what to probe and as what client.
type ProbeOptions struct {
	Address    string         // host:port
	ServerName string         // name to ask for; "" means the host of Address
	Groups     []tls.CurveID  // groups to offer; empty means all
	NextProtos []string       // protocols to offer
	Roots      *x509.CertPool // nil means the system's
	NoVerify   bool           // do not look at the certificate's chain
	// ECHConfigList is what the server has published for encrypted hellos, for [Scan]
	// to try; may be empty.
	ECHConfigList []byte
	// Certificate is our own, where the server wants one.
	Certificate Source
	// Identity is proven to the server, and the server's asked for; nil for none.
	Identity *Identity
	// Timeout bounds the connecting and each handshake; 0 means 3 s.
	Timeout time.Duration
}

const (
	probeTimeout = 3 * time.Second
	// ticketWait is how long a server may take to send a session ticket, or to
	// refuse our certificate, after the handshake.
	ticketWait = 700 * time.Millisecond
)

// Measured is what one handshake was and cost.
type Measured struct {
	Facts    Facts
	Connect  time.Duration // of the TCP connection
	Time     time.Duration // of the TLS handshake, and the proof of identities if there is one
	Sent     int64         // bytes to the server during the handshake
	Received int64         // bytes from the server during the handshake
}

// ProbeResult is what a probe found.
type ProbeResult struct {
	RemoteAddr string
	ServerName string
	First      Measured
	Second     Measured // with the ticket that the first got
	Ticket     bool     // the server gave a ticket
	Chain      []*x509.Certificate
	Verified   bool
	VerifyErr  error         // why the chain does not verify
	Refused    *RefusedError // what the server said after the handshake
}

// Probe connects twice, the second time to resume, and tells what it saw. It
// offers everything that crypto/tls has unless the options narrow it, and
// takes any certificate, so that the facts of a bad server can be told. The
// error is a *[RefusedError] or a *[SettingsError].
func Probe(ctx context.Context, o ProbeOptions) (*ProbeResult, error) {
	if o.Timeout <= 0 {
		o.Timeout = probeTimeout
	}
	oldest := uint16(tls.VersionTLS12)
	if o.Identity != nil {
		oldest = tls.VersionTLS13
	}
	client, err := NewClient(ClientSettings{
		Groups: o.Groups, MinVersion: oldest, NextProtos: o.NextProtos, Identity: o.Identity,
		ServerName: o.ServerName, Certificate: o.Certificate, Insecure: true, Sessions: 1,
	})
	if err != nil {
		return nil, err
	}
	p := prober{options: o, client: client, ticket: make(chan struct{}, 1)}
	client.cache = noticed{client.cache, p.ticket}
	conn, first, err := p.connect(ctx)
	if err != nil {
		return nil, err
	}
	r := &ProbeResult{RemoteAddr: conn.RemoteAddr().String(), ServerName: client.Config(o.Address).ServerName, First: first}
	r.Chain = conn.ConnectionState().PeerCertificates
	if !o.NoVerify {
		r.VerifyErr = verify(r.Chain, r.ServerName, o.Roots)
		r.Verified = r.VerifyErr == nil
	}
	if r.Ticket, r.Refused = p.awaitTicket(conn); r.Ticket && r.Refused == nil {
		if conn, r.Second, err = p.connect(ctx); err == nil {
			_ = conn.Close()
		}
	}
	return r, err
}

type prober struct {
	options ProbeOptions
	client  *Client
	ticket  chan struct{}
	cut     cutter // how to send the hello; nil for as it is
}

// connect makes one connection and measures it.
func (p *prober) connect(ctx context.Context) (*tls.Conn, Measured, error) {
	var m Measured
	begin := time.Now()
	dialer := net.Dialer{Timeout: p.options.Timeout}
	raw, err := dialer.DialContext(ctx, "tcp", p.options.Address)
	if err != nil {
		return nil, m, p.client.Refuse(err)
	}
	m.Connect = time.Since(begin)
	counted := &countedConn{Conn: raw, cut: p.cut}
	conn := p.client.Conn(counted, p.options.Address)
	begin = time.Now()
	if err = raw.SetDeadline(begin.Add(p.options.Timeout)); err == nil {
		m.Facts, err = p.client.Handshake(ctx, conn, p.options.Address)
	}
	if err != nil {
		_ = raw.Close()
		return nil, m, p.client.Refuse(err)
	}
	m.Time = time.Since(begin)
	m.Sent, m.Received = counted.sent.Load(), counted.received.Load()
	return conn, m, nil
}

// awaitTicket reads until a ticket has come, or the server ends the
// connection, or it has been long enough. It closes the connection.
func (p *prober) awaitTicket(conn *tls.Conn) (got bool, refused *RefusedError) {
	if err := conn.SetReadDeadline(time.Now().Add(ticketWait)); err != nil {
		_ = conn.Close()
		return false, p.client.Refuse(err)
	}
	var end error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, end = io.Copy(io.Discard, conn)
	}()
	select {
	case <-p.ticket:
		_ = conn.NetConn().Close()
		<-ended
		return true, nil
	case <-ended:
		_ = conn.Close()
		select {
		case <-p.ticket:
			got = true
		default:
		}
		if _, alert := remoteAlert(end); alert {
			refused = p.client.Refuse(end)
		}
		return got, refused
	}
}

// verify checks a chain as a client of the server would.
func verify(chain []*x509.Certificate, name string, roots *x509.CertPool) error {
	if len(chain) == 0 {
		return errors.New("the server sent no certificate")
	}
	o := x509.VerifyOptions{DNSName: name, Roots: roots, Intermediates: x509.NewCertPool()}
	for _, c := range chain[1:] {
		o.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(o)
	return err
}

// countedConn counts the bytes that pass.
type countedConn struct {
	net.Conn
	cut            cutter // for the first write, the hello
	sent, received atomic.Int64
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.received.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	if cut := c.cut; cut != nil {
		c.cut = nil
		if err := cut(c.Conn, b); err != nil {
			return 0, err
		}
		c.sent.Add(int64(len(b)))
		return len(b), nil
	}
	n, err := c.Conn.Write(b)
	c.sent.Add(int64(n))
	return n, err
}

// noticed is a session cache that tells when a session comes.
type noticed struct {
	tls.ClientSessionCache
	came chan struct{}
}

// Put keeps the session and tells of it.
func (n noticed) Put(key string, cs *tls.ClientSessionState) {
	n.ClientSessionCache.Put(key, cs)
	if cs == nil {
		return
	}
	select {
	case n.came <- struct{}{}:
	default:
	}
}
