package acme

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/libdns/libdns"
	"github.com/miekg/dns"
	"go.uber.org/zap"
)

// DNS is how TXT records of dns-01 are written and looked for.
type DNS struct {
	// Provider writes them: an *[RFC2136], an *[Exec], or another of libdns.
	Provider certmagic.DNSProvider
	// Resolvers, as host:port, tell the zone and whether a record is there;
	// empty for the system's, and then those of the zone.
	Resolvers []string
	// Timeout is how long a record may take to be seen; 0 means 2 minutes.
	Timeout time.Duration
}

func (d *DNS) solver(log *zap.Logger) *certmagic.DNS01Solver {
	return &certmagic.DNS01Solver{DNSManager: certmagic.DNSManager{
		DNSProvider: d.Provider, Resolvers: d.Resolvers, PropagationTimeout: d.Timeout, Logger: log, TTL: recordLife,
	}}
}

// recordLife is the time to live of records that are gone after minutes.
const recordLife = 60 * time.Second

// updateTime bounds one update.
const updateTime = 15 * time.Second

// RFC2136 writes records by dynamic updates, over TCP.
type RFC2136 struct {
	// Server is host:port.
	Server string
	// KeyName, KeySecret (base64) and KeyAlgorithm ("hmac-sha256", …) sign the
	// updates (RFC 8945); an empty name leaves them unsigned.
	KeyName, KeySecret, KeyAlgorithm string
}

// UpdateError is an update that the server refused.
type UpdateError struct {
	Server, Zone string
	Rcode        int
}

// Error names the server, the zone and the code, with what to check.
func (e *UpdateError) Error() string {
	hint := ""
	switch e.Rcode {
	case dns.RcodeNotAuth, dns.RcodeBadSig:
		hint = "; check the key's name, secret and algorithm"
	case dns.RcodeRefused:
		hint = "; does the server allow updates by this key?"
	case dns.RcodeNotZone:
		hint = "; is the server the primary of that zone?"
	}
	return fmt.Sprintf("DNS update of %s at %s: %s%s", e.Zone, e.Server, dns.RcodeToString[e.Rcode], hint)
}

// AppendRecords implements libdns.RecordAppender.
func (p *RFC2136) AppendRecords(ctx context.Context, zone string, records []libdns.Record) ([]libdns.Record, error) {
	return records, p.update(ctx, zone, records, (*dns.Msg).Insert)
}

// DeleteRecords implements libdns.RecordDeleter.
func (p *RFC2136) DeleteRecords(ctx context.Context, zone string, records []libdns.Record) ([]libdns.Record, error) {
	return records, p.update(ctx, zone, records, (*dns.Msg).Remove)
}

func (p *RFC2136) update(ctx context.Context, zone string, records []libdns.Record, change func(*dns.Msg, []dns.RR)) error {
	zone = dns.Fqdn(zone)
	m := new(dns.Msg).SetUpdate(zone)
	for _, r := range records {
		rr, err := txt(r.RR(), zone)
		if err != nil {
			return err
		}
		change(m, []dns.RR{rr})
	}
	client := &dns.Client{Net: "tcp", Timeout: updateTime}
	if p.KeyName != "" {
		name := dns.CanonicalName(p.KeyName)
		client.TsigSecret = map[string]string{name: p.KeySecret}
		m.SetTsig(name, dns.Fqdn(p.KeyAlgorithm), 300, time.Now().Unix())
	}
	answer, _, err := client.ExchangeContext(ctx, m, p.Server)
	if err != nil {
		return fmt.Errorf("DNS update of %s at %s: %w", zone, p.Server, err)
	}
	if answer.Rcode != dns.RcodeSuccess {
		return &UpdateError{Server: p.Server, Zone: zone, Rcode: answer.Rcode}
	}
	return nil
}

func txt(r libdns.RR, zone string) (dns.RR, error) {
	if r.Type != "TXT" {
		return nil, fmt.Errorf("a record of type %s: only TXT is written", r.Type)
	}
	name := dns.Fqdn(libdns.AbsoluteName(r.Name, zone))
	return &dns.TXT{
		Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: uint32(r.TTL / time.Second)},
		Txt: []string{r.Data},
	}, nil
}

// Exec writes records by a program of the operator's.
type Exec struct {
	// Command is the program with its arguments; `present` or `cleanup`, the
	// record's name and its value are added.
	Command []string
}

// AppendRecords implements libdns.RecordAppender.
func (p *Exec) AppendRecords(ctx context.Context, zone string, records []libdns.Record) ([]libdns.Record, error) {
	return records, p.run(ctx, "present", zone, records)
}

// DeleteRecords implements libdns.RecordDeleter.
func (p *Exec) DeleteRecords(ctx context.Context, zone string, records []libdns.Record) ([]libdns.Record, error) {
	return records, p.run(ctx, "cleanup", zone, records)
}

// maxHookOutput is how much of what a failed program prints is told.
const maxHookOutput = 512

func (p *Exec) run(ctx context.Context, what, zone string, records []libdns.Record) error {
	if len(p.Command) == 0 {
		return errors.New("no program is named")
	}
	for _, r := range records {
		rr := r.RR()
		name := strings.TrimSuffix(libdns.AbsoluteName(rr.Name, zone), ".")
		args := append(append([]string(nil), p.Command[1:]...), what, name, rr.Data)
		cmd := exec.CommandContext(ctx, p.Command[0], args...) //nolint:gosec // the operator's own program
		cmd.WaitDelay = time.Second
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s %s: %w: %.*q", p.Command[0], what, name, err, maxHookOutput, out)
		}
	}
	return nil
}
