package config

import (
	"encoding/base64"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// minCheck keeps a slip of the pen from asking the issuer without end.
const minCheck = time.Second

// acme checks settings by themselves, and against the rest of the tree.
func (c *checker) acme(a *ACME, name, path string) {
	if a == nil {
		return
	}
	c.acmeDirectory(a.Directory, join(path, "directory"))
	for i, h := range a.Hosts {
		c.acmeHost(h, itemPath(c, join(path, "hosts"), i))
	}
	c.acmeChallenges(a, name, path)
	c.dns(a.DNS, join(path, "dns"))
	if e := a.EAB; e != nil && e.MACKey != "" {
		if _, err := base64.RawURLEncoding.DecodeString(e.MACKey); err != nil {
			c.fail(join(path, "eab.mac_key"), "is not base64url", "as the issuer gave it, without padding")
		}
	}
	if o := a.OnDemand; o != nil {
		if u, err := url.Parse(o.Ask); o.Ask != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			c.fail(join(path, "on_demand.ask"), fmt.Sprintf("%q is not a URL", o.Ask), "as in http://127.0.0.1:9000/may-have-certificate")
		}
		if o.Rate == 0 {
			c.fail(join(path, "on_demand.rate"), "must not be 0", "")
		}
	}
	if a.CheckEvery < minCheck {
		c.fail(join(path, "check_every"), fmt.Sprintf("is less than %v", minCheck), "")
	}
}

func (c *checker) acmeDirectory(directory, path string) {
	u, err := url.Parse(directory)
	if err != nil || u.Host == "" || u.Scheme != "https" {
		c.fail(path, fmt.Sprintf("%q is not an https URL", directory), "")
	}
}

func (c *checker) acmeHost(host, path string) {
	if err := checkHost(strings.TrimPrefix(host, "*.")); err != nil {
		c.fail(path, err.Error(), "")
	} else if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		c.fail(path, "is an address; certificates are for names", "")
	}
}

func (c *checker) acmeChallenges(a *ACME, name, path string) {
	at := join(path, "challenges")
	seen := map[Challenge]bool{}
	for i, ch := range a.Challenges {
		item := itemPath(c, at, i)
		switch {
		case seen[ch]:
			c.fail(item, fmt.Sprintf("%s is given twice", ch), "")
		case ch == HTTP01 && c.tree.HTTPListener() == nil:
			c.fail(item, "http-01 comes to port 80, and no TCP listener without tls speaks h1", `add {name: http, address: ":80", redirect_https: true}`)
		case ch == DNS01 && a.DNS == nil && !c.failedBelow(join(path, "dns")):
			c.fail(item, "dns-01 needs dns: {rfc2136} or dns: {exec}", "")
		}
		seen[ch] = true
	}
	if c.failedBelow(at) || name == "" {
		return
	}
	hosts := c.tree.ACMEHosts(name)
	if len(hosts) == 0 && a.OnDemand == nil {
		c.fail(path, "there is no host to get a certificate for", "give routes a match.host, or list hosts")
	}
	for _, h := range hosts {
		if strings.HasPrefix(h, "*.") && !a.Uses(c.tree, DNS01) {
			c.fail(path, fmt.Sprintf("%s is a wildcard, for which issuers demand dns-01", h), "add dns-01 and dns, or another source of certificates")
			return
		}
	}
}

func (c *checker) dns(d *DNS, path string) {
	if d == nil {
		return
	}
	if (d.RFC2136 == nil) == (len(d.Exec) == 0) && !c.failedBelow(path) {
		c.fail(path, "needs one of rfc2136 and exec", "")
	}
	for i, r := range d.Resolvers {
		if _, _, err := net.SplitHostPort(r); err != nil {
			c.fail(itemPath(c, join(path, "resolvers"), i), fmt.Sprintf("%q is not host:port", r), "")
		}
	}
	u := d.RFC2136
	if u == nil {
		return
	}
	at := join(path, "rfc2136")
	if _, _, err := net.SplitHostPort(u.Server); u.Server != "" && err != nil {
		c.fail(join(at, "server"), fmt.Sprintf("%q is not host:port", u.Server), "the port is 53 as a rule")
	}
	if (u.KeyName == "") != (u.KeySecret == "") {
		c.fail(at, "key_name and key_secret go together", "")
	}
	if _, err := base64.StdEncoding.DecodeString(u.KeySecret); err != nil {
		c.fail(join(at, "key_secret"), "is not base64", "")
	}
}
