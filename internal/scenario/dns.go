package scenario

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
)

// Nameserver is the only server of the zone example.com, and takes updates by
// RFC 2136 that its key signs. Every name in it has the address 127.0.0.1.
type Nameserver struct {
	// Addr is its address, for UDP and TCP.
	Addr string
	// KeyName and KeySecret sign updates, by hmac-sha256.
	KeyName, KeySecret string

	mu   sync.Mutex
	txt  []*dns.TXT
	seen []string // TXT records there ever were, as "name value"
}

const zone = "example.com."

// NewNameserver starts one until the end of the test.
func NewNameserver(t testing.TB) *Nameserver {
	t.Helper()
	n := &Nameserver{Addr: FreeAddr(t), KeyName: "update.", KeySecret: "c2VjcmV0IG9mIHRoZSBuYW1lc2VydmVy"}
	for _, network := range []string{"udp", "tcp"} {
		ready := make(chan struct{})
		srv := &dns.Server{
			Addr: n.Addr, Net: network, Handler: n, TsigSecret: map[string]string{n.KeyName: n.KeySecret},
			NotifyStartedFunc: func() { close(ready) }, MsgAcceptFunc: acceptUpdates,
		}
		ended := make(chan error, 1)
		go func() { ended <- srv.ListenAndServe() }()
		select {
		case <-ready:
		case err := <-ended:
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = srv.Shutdown()
			<-ended
		})
	}
	return n
}

// acceptUpdates is the library's check without its refusal of updates.
func acceptUpdates(h dns.Header) dns.MsgAcceptAction {
	if op := int(h.Bits>>11) & 0xf; op == dns.OpcodeUpdate {
		return dns.MsgAccept
	}
	return dns.DefaultMsgAcceptFunc(h)
}

// Records are the TXT records that there ever were, as "name value".
func (n *Nameserver) Records() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.seen)
}

// Left is how many TXT records there are.
func (n *Nameserver) Left() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.txt)
}

// ServeDNS implements dns.Handler.
func (n *Nameserver) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	m := new(dns.Msg).SetReply(r)
	switch {
	case r.Opcode == dns.OpcodeUpdate:
		n.update(w, r, m)
	case len(r.Question) == 1:
		n.answer(r.Question[0], m)
	}
	_ = w.WriteMsg(m)
}

func (n *Nameserver) update(w dns.ResponseWriter, r, m *dns.Msg) {
	if r.IsTsig() == nil || w.TsigStatus() != nil {
		m.Rcode = dns.RcodeNotAuth
		return
	}
	m.SetTsig(n.KeyName, dns.HmacSHA256, 300, int64(r.IsTsig().TimeSigned)) //nolint:gosec // seconds since 1970
	if len(r.Question) != 1 || r.Question[0].Name != zone {
		m.Rcode = dns.RcodeNotZone
		return
	}
	for _, rr := range r.Ns {
		if txt, ok := rr.(*dns.TXT); ok {
			n.Change(txt.Hdr.Name, strings.Join(txt.Txt, ""), txt.Hdr.Class != dns.ClassNONE)
		}
	}
}

// Change adds or removes a TXT record.
func (n *Nameserver) Change(name, value string, add bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name = dns.CanonicalName(name)
	n.txt = slices.DeleteFunc(n.txt, func(t *dns.TXT) bool { return t.Hdr.Name == name && t.Txt[0] == value })
	if add {
		n.seen = append(n.seen, name+" "+value)
		n.txt = append(n.txt, &dns.TXT{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeTXT, Class: dns.ClassINET}, Txt: []string{value}})
	}
}

func (n *Nameserver) answer(q dns.Question, m *dns.Msg) {
	m.Authoritative = true
	name := dns.CanonicalName(q.Name)
	soa, _ := dns.NewRR(zone + " 60 IN SOA ns." + zone + " ops." + zone + " 1 60 60 60 60")
	switch {
	case !dns.IsSubDomain(zone, name):
		m.Rcode = dns.RcodeRefused
	case q.Qtype == dns.TypeSOA && name == zone:
		m.Answer = append(m.Answer, soa)
	case q.Qtype == dns.TypeA:
		rr, _ := dns.NewRR(name + " 60 IN A 127.0.0.1")
		m.Answer = append(m.Answer, rr)
	case q.Qtype == dns.TypeTXT:
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, t := range n.txt {
			if t.Hdr.Name == name {
				m.Answer = append(m.Answer, t)
			}
		}
	default:
		m.Ns = append(m.Ns, soa)
	}
}
