package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// minimal is a tree on which a case builds; a case may bring the same key with
// other content by leaving the line out of its own base.
const (
	aVersion  = "version: 1\n"
	aListener = "listeners: [{name: l, address: ':80'}]\n"
	aTrace    = "routes: [{to: trace}]\n"
	aDev      = "tls: {dev: {certificates: {dev: {}}}}\n"
)

// aTLS is a whole file around TLS settings, which a listener uses.
func aTLS(settings string) string {
	return aVersion + "tls: {s: {certificates: {dev: {}}, " + settings + "}}\nlisteners: [{name: l, address: ':443', tls: s}]\n" + aTrace
}

// aCertificates is a whole file around a source of certificates, beside the one
// that makes its listener valid.
func aCertificates(source string) string {
	return aVersion + "tls: {s: {certificates: {dev: {}, " + source + "}}}\nlisteners: [{name: l, address: ':443', tls: s}]\n" + aTrace
}

// aServer is a whole file around the settings of a listener beside name and address.
func aServer(settings string) string {
	return aVersion + aDev + "listeners: [{name: l, address: ':443', tls: dev}, {name: m, address: '127.0.0.1:80', " + settings + "}]\n" + aTrace
}

// aRoute is a whole file around a route.
func aRoute(route string) string {
	return aVersion + aListener + "routes: [" + route + ", {to: up, match: {path: /up}}]\nupstreams: {up: {endpoints: 'http://127.0.0.1:1'}}\n"
}

// anUpstream is a whole file around an upstream's settings.
func anUpstream(settings string) string {
	return aVersion + aListener + "routes: [{to: up}]\nupstreams: {up: {" + settings + "}}\n"
}

// says lists problems without file and source line, which golden files cover.
func says(list []Problem) []string {
	var out []string
	for _, p := range list {
		text := p.Path + ": " + p.Message
		if p.Hint != "" {
			text += "; " + p.Hint
		}
		out = append(out, text)
	}
	return out
}

func TestProblems(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   []string
	}{
		"an unknown version":                          {"version: 2\n" + aListener + aTrace, []string{"version: version 2 is unknown; this build knows version 1"}},
		"no version":                                  {aListener + aTrace, []string{"version: is missing"}},
		"no listeners":                                {aVersion + aTrace, []string{"listeners: is missing"}},
		"an empty list of listeners":                  {aVersion + "listeners: []\n" + aTrace, []string{"listeners: is missing"}},
		"a list where a mapping is meant":             {"[1]", []string{": must be a mapping of keys to values, is a list", "version: is missing", "listeners: is missing"}},
		"a key given twice":                           {aVersion + aListener + aTrace + aVersion, []string{"version: given twice; the first is in line 1"}},
		"a key given three times":                     {aVersion + aListener + aTrace + aVersion + aVersion, []string{"version: given twice; the first is in line 1", "version: given twice; the first is in line 1"}},
		"a key given twice in flow style":             {aVersion + "listeners: [{name: l, address: ':80', name: m}]\n" + aTrace, []string{"listeners[0].name: given twice; the first is in line 2"}},
		"a name given twice":                          {aVersion + aListener + aTrace + "upstreams:\n  u: {}\n  u: {}\n", []string{"upstreams.u.endpoints: is missing", "upstreams.u: given twice; the first is in line 5"}},
		"swapped letters in a key":                    {aVersion + aListener + aTrace + "drian: {}\n", []string{`drian: unknown key; did you mean "drain"?`}},
		"a required key misspelt":                     {aVersion + "listeners: [{name: l, adddress: ':80'}]\n" + aTrace, []string{`listeners[0].adddress: unknown key; did you mean "address"?`}},
		"a key misspelt beside itself":                {aVersion + "listeners: [{name: l, address: ':x', adddress: ':80'}]\n" + aTrace, []string{`listeners[0].address: ":x": the port "x" is not a number from 0 to 65535`, `listeners[0].adddress: unknown key; did you mean "address"?`}},
		"settings of TLS that are no name":            {aVersion + "listeners: [{name: l, address: ':80', tls: [x]}]\n" + aTrace, []string{`listeners[0].tls: must be a single value, is a list`}},
		"a key like no other":                         {aVersion + aListener + aTrace + "drain: {zzz: 1}\n", []string{"drain.zzz: unknown key; known: timeout, delay"}},
		"a key in the wrong place":                    {aVersion + "listeners: [{name: l, address: ':80', host: x}]\n" + aTrace, []string{"listeners[0].host: unknown key; known: name, address, protocols, tls, engine, proxy_protocol, trusted_proxies, limits, early_data, quic, ech, redirect_https"}},
		"a mapping where a value is meant":            {aVersion + aListener + aTrace + "data_dir: {}\n", []string{"data_dir: must be a single value, is a mapping"}},
		"a list where a value is meant":               {aVersion + aListener + "routes: [{to: [trace]}]\n", []string{"routes[0].to: must be a single value, is a list"}},
		"a value where a list is meant":               {aVersion + aListener + "routes: trace\n", []string{"routes: must be a list, is a single value"}},
		"a key without a value":                       {aVersion + aListener + aTrace + "data_dir:\n", []string{"data_dir: has no value; leave the key out, or give it a single value"}},
		"a tag":                                       {aVersion + aListener + aTrace + "data_dir: !!str x\n", []string{"data_dir: tags such as !!str have no meaning here; quote what is text"}},
		"an alias without an anchor":                  {aVersion + aListener + aTrace + "drain: *no\n", []string{"drain: the alias *no has no anchor"}},
		"a merge inside a merge":                      {aVersion + aListener + aTrace + "limits: &a {<<: {<<: {fields: 1}}}\n", []string{"limits: a merge (<<) inside what is merged; write the keys out"}},
		"a bad duration":                              {aVersion + aListener + aTrace + "drain: {timeout: 30}\n", []string{`drain.timeout: "30" is not a duration; write it as 500ms, 30s, 5m or 1h30m`}},
		"a negative duration":                         {aVersion + aListener + aTrace + "drain: {timeout: -1s}\n", []string{`drain.timeout: "-1s" is not a duration; write it as 500ms, 30s, 5m or 1h30m`}},
		"a bad size":                                  {aVersion + aListener + aTrace + "limits: {body_bytes: 1 gig}\n", []string{`limits.body_bytes: "1 gig" is not a size; write it as 32KiB, 1GiB or a number of bytes`}},
		"a size beyond 64 bits":                       {aVersion + aListener + aTrace + "limits: {body_bytes: 9000000TiB}\n", []string{`limits.body_bytes: "9000000TiB" is more than 8 EiB`}},
		"a negative count":                            {aVersion + aListener + aTrace + "limits: {connections: -1}\n", []string{`limits.connections: "-1" is not a whole number from 0 to 2147483647`}},
		"a fraction for a count":                      {aVersion + aListener + aTrace + "limits: {connections: 1.5}\n", []string{`limits.connections: "1.5" is not a whole number from 0 to 2147483647`}},
		"neither true nor false":                      {aTLS("session_tickets: yes"), []string{`tls.s.session_tickets: "yes" is neither true nor false`}},
		"limits that a stranger would set":            {aVersion + aListener + aTrace + "limits: {head_bytes: 0, fields: 0, streams: 0, calls: 0, frame_bytes: 0}\n", []string{"limits.head_bytes: must not be 0: a stranger decides how much it would be", "limits.fields: must not be 0: a stranger decides how much it would be", "limits.streams: must not be 0: a stranger decides how much it would be", "limits.calls: must not be 0: a stranger decides how much it would be", "limits.frame_bytes: must not be 0: a stranger decides how much it would be"}},
		"the same in a listener's limits":             {aServer("limits: {fields: 0}"), []string{"listeners[1].limits.fields: must not be 0: a stranger decides how much it would be"}},
		"frames that no memory holds":                 {aVersion + aListener + aTrace + "limits: {frame_bytes: 1GiB}\n", []string{"limits.frame_bytes: is more than 256MiB; longer values travel on a stream"}},
		"heads that no memory holds":                  {aVersion + aListener + aTrace + "limits: {head_bytes: 1GiB}\n", []string{"limits.head_bytes: is more than 16MiB"}},
		"a variable that is not set":                  {aVersion + aListener + aTrace + "data_dir: ${NOPE}\n", []string{"data_dir: the environment variable NOPE is not set; set it or write ${NOPE:-default}"}},
		"a variable that is not closed":               {aVersion + aListener + aTrace + "data_dir: ${NOPE\n", []string{"data_dir: ${ without its }; write $${ where ${ is meant"}},
		"a variable without a name":                   {aVersion + aListener + aTrace + "data_dir: ${}\n", []string{`data_dir: ${}: "" is not the name of a variable`}},
		"a secret that cannot be used is not shown":   {aVersion + aListener + aTrace + "drain: {timeout: \"${SECRET}\"}\n", []string{"drain.timeout: what ${…} stands for is not a duration such as 30s"}},
		"a secret that is no word is not shown":       {aVersion + aListener + aTrace + "log: {level: \"${SECRET}\"}\n", []string{"log.level: what ${…} stands for is not one of debug, info, warn, error"}},
		"an unknown source of values":                 {aVersion + aListener + aTrace + "data_dir: ${fle:x}\n", []string{`data_dir: unknown source of values "fle"; did you mean "file"?`}},
		"TLS settings that do not exist":              {aServer("tls: deev"), []string{`listeners[1].tls: no TLS settings are named "deev"; did you mean "dev"?`}},
		"a listener without certificates":             {aVersion + "tls: {s: {}}\nlisteners: [{name: l, address: ':443', tls: s}]\n" + aTrace, []string{`listeners[0].tls: the settings "s" have no certificates to serve with; add certificates: {dev: {}} to try it out, or files`}},
		"a certificate without its key":               {aVersion + "tls: {s: {certificates: {files: {cert: a.pem}}}}\nlisteners: [{name: l, address: ':443', tls: s}]\n" + aTrace, []string{"tls.s.certificates.files[0].key: is missing"}},
		"a listener with pq off":                      {aTLS("pq: off"), []string{`listeners[0].tls: the settings "s" have pq: off, which is for upstreams only; a listener requires or prefers`}},
		"classical groups under require":              {aTLS("pq: require, groups: [X25519MLKEM768, X25519]"), []string{"tls.s.groups[1]: X25519 is classical, and pq is require; drop it, or prefer"}},
		"only classical groups under require":         {aTLS("pq: require, groups: [P256, P-384]"), []string{"tls.s.groups[0]: P-256 is classical, and pq is require; drop it, or prefer", "tls.s.groups[1]: P-384 is classical, and pq is require; drop it, or prefer"}},
		"a hybrid group under off":                    {anUpstream("endpoints: https://a, tls: {pq: off, groups: [X25519MLKEM768]}"), []string{"upstreams.up.tls.groups[0]: X25519MLKEM768 is post-quantum, and pq is off; drop it, or prefer"}},
		"a group given twice by two names":            {aTLS("groups: [X25519MLKEM768, X25519, P-256, prime256v1]"), []string{"tls.s.groups[3]: P-256 is given twice"}},
		"an unknown group":                            {aTLS("groups: [X25519MLKEM786]"), []string{`tls.s.groups[0]: unknown value "X25519MLKEM786"; did you mean "X25519MLKEM768"?`}},
		"TLS 1.2 under require":                       {aTLS("pq: require, min_version: 1.2"), []string{"tls.s.min_version: TLS 1.2 is never post-quantum, and pq is require; drop min_version, or prefer"}},
		"an old version of TLS":                       {aTLS("min_version: 1.1"), []string{`tls.s.min_version: unknown value "1.1"; did you mean "1.3"?`}},
		"an identity over TLS 1.2":                    {aTLS("min_version: 1.2, identity: {cert: a, key: b, ca: c}"), []string{"tls.s.identity: needs TLS 1.3, and min_version is 1.2; drop min_version"}},
		"half an identity":                            {aTLS("pq: require, identity: {cert: a}"), []string{"tls.s.identity.ca: is missing", "tls.s.identity.key: is missing; an identity has cert and key, or store"}},
		"an identity of a store and of files":         {aTLS("pq: require, identity: {cert: a, key: b, store: s, ca: c}"), []string{"tls.s.identity: needs cert and key, files, or store, an entry of our own; it has both"}},
		"an identity of a store that is not there":    {aTLS("pq: require, identity: {store: s, ca: c}"), []string{"tls.s.identity.store: there is no store; add kms: {dir, master} at the top"}},
		"an identity on h3":                           {aVersion + "tls: {s: {certificates: {dev: {}}, pq: require, identity: {cert: a, key: b, ca: c}}}\nlisteners: [{name: l, address: ':443', protocols: [h3], tls: s}]\n" + aTrace, []string{`listeners[0].tls: the settings "s" have an identity, which h3 cannot carry; give h3 a listener of its own`}},
		"an identity towards h3":                      {anUpstream("endpoints: ['h3://a'], tls: {pq: require, identity: {cert: a, key: b, ca: c}}"), []string{"upstreams.up.tls: the settings have an identity, which h3 cannot carry; write zap+tls:// or https://"}},
		"a vault without its parts":                   {aCertificates("kms: {vault: 'vault:8200'}"), []string{"tls.s.certificates.kms.key: is missing; vault needs key, cert and token", "tls.s.certificates.kms.cert: is missing; vault needs key, cert and token", "tls.s.certificates.kms.token: is missing; vault needs key, cert and token", `tls.s.certificates.kms.vault: "vault:8200" is not a URL as https://vault:8200 is`}},
		"a remote key without its parts":              {aCertificates("kms: {server: 'zap-rpc+tls://a:1'}"), []string{"tls.s.certificates.kms.key: is missing; server needs key, cert and tls", "tls.s.certificates.kms.cert: is missing; server needs key, cert and tls", "tls.s.certificates.kms.tls: is missing; server needs key, cert and tls"}},
		"client_auth without client_ca":               {aTLS("client_auth: require"), []string{"tls.s.client_auth: needs client_ca, the CAs that clients' certificates chain to"}},
		"a development host that is none":             {aVersion + "tls: {s: {certificates: {dev: {hosts: ['a b']}}}}\nlisteners: [{name: l, address: ':443', tls: s}]\n" + aTrace, []string{`tls.s.certificates.dev.hosts[0]: "a b" is not a host`}},
		"h2 in the clear":                             {aServer("protocols: [h1, h2]"), []string{"listeners[1].protocols[1]: h2 needs tls; in the clear it is h2c"}},
		"h3 in the clear":                             {aServer("protocols: [h3]"), []string{"listeners[1].protocols[0]: h3 needs tls; name settings with tls:"}},
		"h2c over TLS":                                {aServer("protocols: [h2c], tls: dev"), []string{"listeners[1].protocols[0]: h2c is HTTP/2 in the clear, and the listener has tls; with tls it is h2"}},
		"a protocol twice":                            {aServer("protocols: [h1, h1]"), []string{"listeners[1].protocols[1]: h1 is given twice"}},
		"a protocol that does not exist":              {aServer("protocols: [http]"), []string{`listeners[1].protocols[0]: unknown value "http"; known: h1, h2, h2c, h3, zap, zap-rpc`}},
		"zap beside h1 in the clear":                  {aServer("protocols: [h1, zap]"), []string{"listeners[1].protocols[1]: zap cannot be told from HTTP without tls; give it a listener of its own"}},
		"h3 on a unix socket":                         {aVersion + aDev + "listeners: [{name: l, address: 'unix:/s', protocols: [h1, h3], tls: dev}]\n" + aTrace, []string{"listeners[0].protocols: h3 runs over QUIC, which a unix socket cannot carry"}},
		"early data without QUIC":                     {aServer("tls: dev, early_data: safe"), []string{"listeners[1].early_data: only h3 and zap over QUIC have early data; add h3 to protocols"}},
		"early data in the clear":                     {aServer("early_data: safe"), []string{"listeners[1].early_data: needs tls"}},
		"ECH in the clear":                            {aServer("ech: true"), []string{"listeners[1].ech: needs tls"}},
		"ECH without a store":                         {aServer("tls: dev, ech: true"), []string{"listeners[1].ech: its keys come from a store, and there is no kms; add kms: {dir, master}"}},
		"a store without its folder":                  {aVersion + aListener + aTrace + "kms: {master: {file: m}}\n", []string{"kms.dir: is missing"}},
		"a store without a master":                    {aVersion + aListener + aTrace + "kms: {dir: d}\n", []string{"kms.master: needs exactly one of file, credential, env and passphrase_file"}},
		"a store with two masters":                    {aVersion + aListener + aTrace + "kms: {dir: d, master: {file: m, env: M}}\n", []string{"kms.master: needs exactly one of file, credential, env and passphrase_file"}},
		"a store whose tickets have no name":          {aVersion + aListener + aTrace + "kms: {dir: d, master: {file: m}, tickets: ''}\n", []string{"kms.tickets: must name an entry; leave it out for the default"}},
		"certificates of a store that is not there":   {aCertificates("kms: {store: a}"), []string{"tls.s.certificates.kms: there is no store; add kms: {dir, master} at the top"}},
		"no certificates of a store":                  {aCertificates("kms: {}") + "kms: {dir: d, master: {file: m}}\n", []string{"tls.s.certificates.kms: needs one of store, entries of our own, server, those who sign for us, vault, and pkcs11"}},
		"ACME without a host":                         {aCertificates("acme: {}"), []string{"tls.s.certificates.acme: there is no host to get a certificate for; give routes a match.host, or list hosts"}},
		"ACME for an address":                         {aCertificates("acme: {hosts: 192.0.2.1}"), []string{"tls.s.certificates.acme.hosts: is an address; certificates are for names"}},
		"ACME for what is no host":                    {aCertificates("acme: {hosts: [a, 'b c']}"), []string{`tls.s.certificates.acme.hosts[1]: "b c" is not a host`}},
		"ACME for a wildcard without DNS":             {aCertificates("acme: {hosts: '*.example.com'}"), []string{"tls.s.certificates.acme: *.example.com is a wildcard, for which issuers demand dns-01; add dns-01 and dns, or another source of certificates"}},
		"ACME for a wildcard with DNS":                {aCertificates("acme: {hosts: '*.example.com', dns: {exec: hook}}"), nil},
		"http-01 without a listener":                  {aCertificates("acme: {hosts: a, challenges: http-01}"), []string{"tls.s.certificates.acme.challenges: http-01 comes to port 80, and no TCP listener without tls speaks h1; add {name: http, address: \":80\", redirect_https: true}"}},
		"dns-01 without DNS":                          {aCertificates("acme: {hosts: a, challenges: [tls-alpn-01, dns-01]}"), []string{"tls.s.certificates.acme.challenges[1]: dns-01 needs dns: {rfc2136} or dns: {exec}"}},
		"a challenge twice":                           {aCertificates("acme: {hosts: a, challenges: [tls-alpn-01, tls-alpn-01]}"), []string{"tls.s.certificates.acme.challenges[1]: tls-alpn-01 is given twice"}},
		"an issuer in the clear":                      {aCertificates("acme: {hosts: a, directory: 'http://ca/'}"), []string{`tls.s.certificates.acme.directory: "http://ca/" is not an https URL`}},
		"DNS of two kinds":                            {aCertificates("acme: {hosts: a, dns: {exec: hook, rfc2136: {server: 'a:53'}}}"), []string{"tls.s.certificates.acme.dns: needs one of rfc2136 and exec"}},
		"a DNS server without a port":                 {aCertificates("acme: {hosts: a, dns: {rfc2136: {server: a}}}"), []string{`tls.s.certificates.acme.dns.rfc2136.server: "a" is not host:port; the port is 53 as a rule`}},
		"half a TSIG key":                             {aCertificates("acme: {hosts: a, dns: {rfc2136: {server: 'a:53', key_name: k}}}"), []string{"tls.s.certificates.acme.dns.rfc2136: key_name and key_secret go together"}},
		"an external account's key of no kind":        {aCertificates("acme: {hosts: a, eab: {key_id: k, mac_key: 'a+b='}}"), []string{"tls.s.certificates.acme.eab.mac_key: is not base64url; as the issuer gave it, without padding"}},
		"certificates on demand without asking":       {aCertificates("acme: {on_demand: {}}"), []string{"tls.s.certificates.acme.on_demand.ask: is missing"}},
		"certificates on demand that ask nobody":      {aCertificates("acme: {on_demand: {ask: localhost}}"), []string{`tls.s.certificates.acme.on_demand.ask: "localhost" is not a URL; as in http://127.0.0.1:9000/may-have-certificate`}},
		"certificates on demand without end":          {aCertificates("acme: {on_demand: {ask: 'http://a/', rate: 0}}"), []string{"tls.s.certificates.acme.on_demand.rate: must not be 0"}},
		"an issuer asked without end":                 {aCertificates("acme: {hosts: a, check_every: 0s}"), []string{"tls.s.certificates.acme.check_every: is less than 1s"}},
		"a redirect to https from https":              {aServer("tls: dev, redirect_https: true"), []string{"listeners[1].redirect_https: is for listeners without tls"}},
		"QUIC settings without QUIC":                  {aServer("quic: {keep_alive: 1s}"), []string{"listeners[1].quic: none of the protocols runs over QUIC; add h3 to protocols"}},
		"QUIC windows that contradict":                {aServer("tls: dev, protocols: [h3], quic: {stream_window: 1MiB, connection_window: 1KiB}"), []string{"listeners[1].quic.connection_window: is less than stream_window"}},
		"an address without a port":                   {aVersion + "listeners: [{name: l, address: localhost}]\n" + aTrace, []string{`listeners[0].address: "localhost" has no port; write host:port, :port or unix:/path`}},
		"a port that is none":                         {aVersion + "listeners: [{name: l, address: ':http'}]\n" + aTrace, []string{`listeners[0].address: ":http": the port "http" is not a number from 0 to 65535`}},
		"a port beyond 16 bits":                       {aVersion + "listeners: [{name: l, address: ':70000'}]\n" + aTrace, []string{`listeners[0].address: ":70000": the port "70000" is not a number from 0 to 65535`}},
		"an IPv6 address without brackets":            {aVersion + "listeners: [{name: l, address: '::1:80'}]\n" + aTrace, []string{`listeners[0].address: "::1:80": an IPv6 address needs brackets, as in [::1]:443`}},
		"a unix address without a path":               {aVersion + "listeners: [{name: l, address: 'unix:'}]\n" + aTrace, []string{"listeners[0].address: a unix address needs a path, as in unix:/run/pqgw.sock"}},
		"two listeners with one name":                 {aVersion + "listeners: [{name: l, address: ':80'}, {name: l, address: ':81'}]\n" + aTrace, []string{`listeners[1].name: another listener has the name "l"; the first is in line 2`}},
		"two listeners with one address":              {aVersion + "listeners: [{name: l, address: ':80'}, {name: m, address: ':80'}]\n" + aTrace, []string{"listeners[1].address: :80 is taken by listeners[0]"}},
		"a listener at the admin address":             {aVersion + aListener + aTrace + "admin: {address: ':80'}\n", []string{"listeners[0].address: :80 is taken by admin"}},
		"two listeners on any port":                   {aVersion + "listeners: [{name: l, address: ':0'}, {name: m, address: ':0'}]\n" + aTrace, nil},
		"h3 beside TCP on one port":                   {aVersion + aDev + "listeners: [{name: l, address: ':443', tls: dev}, {name: m, address: ':443', tls: dev, protocols: [h3]}]\n" + aTrace, nil},
		"a PROXY header from nobody":                  {aServer("proxy_protocol: {from: []}"), []string{"listeners[1].proxy_protocol.from: is missing"}},
		"a network with bits below its length":        {aServer("trusted_proxies: [10.1.0.0/8]"), []string{`listeners[1].trusted_proxies[0]: "10.1.0.0/8" has bits set beyond its length; write 10.0.0.0/8`}},
		"a network that is none":                      {aServer("trusted_proxies: everyone"), []string{`listeners[1].trusted_proxies: "everyone" is not a network; write it as 10.0.0.0/8 or 2001:db8::/32`}},
		"an upstream without endpoints":               {anUpstream("retries: 1"), []string{"upstreams.up.endpoints: is missing"}},
		"an upstream named trace":                     {aVersion + aListener + aTrace + "upstreams: {trace: {endpoints: 'http://a'}}\n", []string{"upstreams.trace: trace is built in; choose another name"}},
		"an upstream with a bad name":                 {aVersion + aListener + aTrace + "upstreams: {'a b': {endpoints: 'http://a'}}\n", []string{`upstreams.a b: "a b" is not a name; use up to 63 letters, digits, '_', '-' and '.'`}},
		"an endpoint that is no URL":                  {anUpstream("endpoints: 'localhost:80'"), []string{`upstreams.up.endpoints: "localhost:80" is not a URL; write it as http://host:port`}},
		"an endpoint with a path":                     {anUpstream("endpoints: 'http://a/b'"), []string{"upstreams.up.endpoints: an endpoint is only scheme://host:port; a path is changed by a route's rewrite"}},
		"an endpoint with a user":                     {anUpstream("endpoints: 'http://u:p@a'"), []string{"upstreams.up.endpoints: an endpoint is only scheme://host:port; a path is changed by a route's rewrite"}},
		"an endpoint with an unknown scheme":          {anUpstream("endpoints: 'htps://a'"), []string{`upstreams.up.endpoints: unknown scheme "htps"; did you mean "https"?`}},
		"an endpoint without its port":                {anUpstream("endpoints: 'zap+tls://a'"), []string{`upstreams.up.endpoints: "zap+tls://a" has no port, and zap+tls has none by default`}},
		"an endpoint twice":                           {anUpstream("endpoints: ['http://a', 'http://a:80']"), []string{"upstreams.up.endpoints[1]: http://a:80 is given twice"}},
		"calls with what only exchanges heed":         {anUpstream("endpoints: 'zap-rpc+tls://a:1', retries: 3, max_connections: 5"), []string{"upstreams.up.retries: is not for zap-rpc endpoints, whose calls are never sent twice; drop it", "upstreams.up.max_connections: is not for zap-rpc endpoints, which have one for each client connection; limit the listener's connections"}},
		"calls beside exchanges":                      {anUpstream("endpoints: ['http://a', 'zap-rpc+tls://a:1']"), []string{"upstreams.up.endpoints: some take HTTP exchanges and some ZAP calls; make two upstreams of it"}},
		"TLS settings that no endpoint uses":          {anUpstream("endpoints: ['http://a'], tls: {pq: require}"), []string{"upstreams.up.tls: no endpoint uses TLS; write https:// or zap+tls://, or drop tls"}},
		"client_ca towards an upstream":               {anUpstream("endpoints: ['https://a'], tls: {client_ca: ca.pem}"), []string{"upstreams.up.tls: client_ca and client_auth are for listeners; the CAs of an upstream are ca"}},
		"a hundred retries":                           {anUpstream("endpoints: ['https://a'], retries: 100"), []string{"upstreams.up.retries: is more than 10"}},
		"a route to nowhere":                          {aRoute("{to: upp}"), []string{`routes[0].to: no upstream is named "upp"; did you mean "up"?`}},
		"a route that does nothing":                   {aRoute("{match: {path: /a}}"), []string{"routes[0]: does nothing; give it to, redirect or respond"}},
		"a route that does two things":                {aRoute("{to: up, respond: {}}"), []string{"routes[0]: has to and respond, of which a route has one"}},
		"two routes that are equal":                   {aRoute("{to: up}, {to: trace}"), []string{"routes[1]: is as specific as routes[0] (line 3), and one request can match both; give one of them another condition"}},
		"two routes whose hosts are equal in case":    {aRoute("{to: up, match: {host: A.example}}, {to: trace, match: {host: [b.example, a.example.]}}"), []string{"routes[1]: is as specific as routes[0] (line 3), and one request can match both; give one of them another condition"}},
		"two routes that share a method":              {aRoute("{to: up, match: {method: [GET, PUT]}}, {to: trace, match: {method: [PUT, POST]}}"), []string{"routes[1]: is as specific as routes[0] (line 3), and one request can match both; give one of them another condition"}},
		"two routes of unlike headers":                {aRoute("{to: up, match: {header: {a: x}}}, {to: trace, match: {header: {b: x}}}"), []string{"routes[1]: is as specific as routes[0] (line 3), and one request can match both; give one of them another condition"}},
		"two routes of unlike methods":                {aRoute("{to: up, match: {method: GET}}, {to: trace, match: {method: POST}}"), nil},
		"two routes of unlike values of a header":     {aRoute("{to: up, match: {header: {a: x}}}, {to: trace, match: {header: {A: y}}}"), nil},
		"a route with a host twice":                   {aRoute("{to: up, match: {host: [a.example, A.example]}}"), []string{"routes[0].match.host: a.example is given twice"}},
		"two routes with one name":                    {aRoute("{name: n, to: up}, {name: n, to: trace, match: {path: /x}}"), []string{`routes[1].name: another route has the name "n"; the first is in line 3`}},
		"a host with a port":                          {aRoute("{to: up, match: {host: 'a.example:80'}}"), []string{`routes[0].match.host: "a.example:80" has a port; hosts are matched without one`}},
		"a star inside a host":                        {aRoute("{to: up, match: {host: 'a.*.example'}}"), []string{`routes[0].match.host: "a.*.example" has a * in it; it may stand only for whole labels in front, as in *.example.com`}},
		"a host that is none":                         {aRoute("{to: up, match: {host: 'a..b'}}"), []string{`routes[0].match.host: "a..b" is not a host`}},
		"a path that is not absolute":                 {aRoute("{to: up, match: {path: v1}}"), []string{`routes[0].match.path: "v1" does not begin with /; write it as /v1/*`}},
		"a star inside a path":                        {aRoute("{to: up, match: {path: /v*}}"), []string{`routes[0].match.path: "/v*" has a * in it; it may stand only for the last segments, as in /v1/*`}},
		"a query in a path":                           {aRoute("{to: up, match: {path: '/v1?x'}}"), []string{`routes[0].match.path: "/v1?x" has '?' in it, which no path has`}},
		"dots in a path":                              {aRoute("{to: up, match: {path: /a/../b}}"), []string{`routes[0].match.path: "/a/../b" has a segment of dots, which requests never have here`}},
		"an empty segment in a path":                  {aRoute("{to: up, match: {path: /a//b}}"), []string{`routes[0].match.path: "/a//b" has an empty segment`}},
		"a method in small letters":                   {aRoute("{to: up, match: {method: [GET, post]}}"), []string{`routes[0].match.method[1]: methods are in capitals; did you mean "POST"?`}},
		"a listener that does not exist":              {aRoute("{to: up, match: {listener: k}}"), []string{`routes[0].match.listener: no listener is named "k"; did you mean "l"?`}},
		"rpc_method without zap-rpc":                  {aRoute("{to: up, match: {rpc_method: 1}}"), []string{`routes[0].to: the upstream "up" takes no ZAP calls, which rpc_method matches; its endpoints must be zap-rpc+tls or zap-rpc+quic`, "routes[0].match.rpc_method: no listener of this route speaks zap-rpc"}},
		"a redirection that is none":                  {aRoute("{redirect: {to: /x, status: 200}}"), []string{"routes[0].redirect.status: 200 is not a redirection; known: 301, 302, 303, 307, 308"}},
		"a redirection to nowhere":                    {aRoute("{redirect: {}}"), []string{"routes[0].redirect.to: is missing"}},
		"an unknown placeholder":                      {aRoute("{redirect: {to: 'https://{hots}/'}}"), []string{"routes[0].redirect.to: an unknown placeholder; known: {scheme}, {host}, {path}, {query}"}},
		"an answer with an impossible status":         {aRoute("{respond: {status: 99}}"), []string{"routes[0].respond.status: 99 is not from 200 to 599"}},
		"an answer 204 with a body":                   {aRoute("{respond: {status: 204, body: x}}"), []string{"routes[0].respond.body: an answer 204 has none"}},
		"a rewrite without an upstream":               {aRoute("{respond: {}, rewrite: {strip_prefix: /a}}"), []string{"routes[0].rewrite: changes the path towards an upstream, and the route has none"}},
		"a rewrite that changes nothing":              {aRoute("{to: up, rewrite: {}}"), []string{"routes[0].rewrite: changes nothing; give it strip_prefix or replace_prefix"}},
		"a prefix that ends in a slash":               {aRoute("{to: up, rewrite: {strip_prefix: /a/}}"), []string{"routes[0].rewrite.strip_prefix: ends in / or *; write it as /v1"}},
		"a prefix that no path of the route has":      {aRoute("{to: up, match: {path: /v1/*}, rewrite: {strip_prefix: /v2}}"), []string{"routes[0].rewrite.strip_prefix: no path of this route begins with it: they are /v1/*"}},
		"timeouts that nobody waits for":              {aRoute("{respond: {}, timeouts: {connect: 1s}}"), []string{"routes[0].timeouts: a route without to waits for nobody"}},
		"request headers that nobody gets":            {aRoute("{respond: {}, request_headers: {set: {a: b}}}"), []string{"routes[0].request_headers: a route without to sends no request on"}},
		"a header that is the gateway's own":          {aRoute("{to: up, request_headers: {set: {X-PQ: '1', Content-Length: 3, Transfer-Encoding: x}}}"), []string{"routes[0].request_headers.set.X-PQ: X-PQ is the gateway's own to write", "routes[0].request_headers.set.Content-Length: Content-Length is the gateway's own to write", "routes[0].request_headers.set.Transfer-Encoding: Transfer-Encoding is the gateway's own to write"}},
		"a header name that is none":                  {aRoute("{to: up, response_headers: {remove: 'a b'}}"), []string{`routes[0].response_headers.remove: "a b" is not a field name`}},
		"a header value with a line break":            {aRoute(`{to: up, response_headers: {set: {a: "b\r\nc: d"}}}`), []string{"routes[0].response_headers.set.a: the value has a control character or space around it"}},
		"Host added to a request":                     {aRoute("{to: up, request_headers: {add: {Host: x}}}"), []string{"routes[0].request_headers.add.Host: Host can only be set, and only of a request"}},
		"header changes that change nothing":          {aRoute("{to: up, response_headers: {}}"), []string{"routes[0].response_headers: changes nothing; give it set, add or remove"}},
		"not YAML at all":                             {"a: [1\n", []string{": not YAML: sequence end token ']' not found"}},
		"an empty file":                               {"# nothing\n", []string{": the file is empty; begin with version: 1"}},
		"two documents":                               {aVersion + "---\n" + aVersion, []string{": a second document; a configuration is one"}},
		"bytes that are not UTF-8":                    {"a: \xff\n", []string{": the file is not UTF-8"}},
		"JSON with a problem":                         {`{"version": 1, "listeners": [{"name": "l", "address": ":80", "tsl": "x"}], "routes": [{"to": "trace"}]}`, []string{`listeners[0].tsl: unknown key; did you mean "tls"?`}},
		"JSON that is right":                          {`{"version": 1, "listeners": [{"name": "l", "address": ":80"}], "routes": [{"to": "trace"}]}`, nil},
		"a value that JSON has as a number elsewhere": {aVersion + aListener + "routes: [{respond: {body: 42}}]\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Parse("f.yaml", []byte(c.source), testOptions())
			var problems *Problems
			if err != nil && !errors.As(err, &problems) {
				t.Fatalf("the error is no *Problems: %v", err)
			}
			var got []string
			if problems != nil {
				got = says(problems.List)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s\n%s", diff, c.source)
			}
		})
	}
}

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct {
		source string
		want   []string
	}{
		"a list that drops PQ":                   {aTLS("groups: [X25519, P-256]"), []string{"tls.s.groups: the list drops post-quantum key exchange: every connection will be classical; add X25519MLKEM768"}},
		"a list that refuses what prefer allows": {aTLS("groups: [X25519MLKEM768]"), []string{"tls.s.groups: the list refuses every classical peer, as pq: require does; say pq: require"}},
		"a list with both":                       {aTLS("groups: [X25519MLKEM768, X25519]"), nil},
		"TLS 1.2":                                {aTLS("min_version: '1.2'"), []string{"tls.s.min_version: TLS 1.2 is never post-quantum: what such peers say can be recorded and read later"}},
		"settings that nothing uses":             {aVersion + aListener + aTrace + "tls: {s: {}}\nupstreams: {u: {endpoints: 'http://a'}}\n", []string{"tls.s: nothing uses these settings", "upstreams.u: no route leads here"}},
		"no routes":                              {aVersion + aListener, []string{"routes: there are none, so that every request is answered 404"}},
		"an admin listener for everyone":         {aVersion + aListener + aTrace + "admin: {address: ':9000'}\n", []string{"admin.address: whoever reaches it over the network can stop the gateway; listen on a unix socket or on 127.0.0.1"}},
		"an admin listener for this machine":     {aVersion + aListener + aTrace + "admin: {address: '127.0.0.1:9000'}\n", nil},
		"an access log named like a word":        {aVersion + aListener + aTrace + "access_log: of\n", []string{`access_log: is the path of a file, /etc/pqgw/of; did you mean "off"?`}},
		"ZAP in the clear for everyone":          {aVersion + "listeners: [{name: l, address: ':1', protocols: zap}]\n" + aTrace, []string{"listeners[0].protocols: ZAP in the clear on an address that others reach; add tls"}},
		"ZAP in the clear on loopback":           {aVersion + "listeners: [{name: l, address: '[::1]:1', protocols: zap}]\n" + aTrace, nil},
		"ZAP on a unix socket":                   {aVersion + "listeners: [{name: l, address: 'unix:/s', protocols: zap}]\n" + aTrace, nil},
		"a peer that nobody can be":              {aRoute("{to: up, match: {peer: x}}"), []string{"routes[0].match.peer: no listener of this route asks clients for a certificate, so that it never matches; set client_ca"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, warnings, err := Parse("f.yaml", []byte(c.source), testOptions())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, says(warnings)); diff != "" {
				t.Errorf("-want +got\n%s\n%s", diff, c.source)
			}
		})
	}
}

func TestALongLineIsShownAroundTheProblem(t *testing.T) {
	source := `{"version": 1, "x": "` + strings.Repeat("é", 500) + `", "oops": 1, "y": "` + strings.Repeat("z", 500) + `"}`
	_, _, err := Parse("f.json", []byte(source), testOptions())
	lines := strings.Split(err.Error(), "\n")
	for i, line := range lines {
		if strings.Contains(line, ": oops:") {
			shown, mark := []rune(lines[i+1]), []rune(lines[i+2])
			if len(shown) > 180 || string(shown[len(mark)-1:len(mark)+5]) != `"oops"` {
				t.Errorf("the mark is not below the key:\n%s\n%s", lines[i+1], lines[i+2])
			}
			return
		}
	}
	t.Errorf("no problem about the key: %v", err)
}

func TestNestedAliasesDoNotFillMemory(t *testing.T) {
	var b strings.Builder
	b.WriteString("version: 1\nlisteners: []\nroutes:\n  - &a0 {match: {method: [" + strings.Repeat("A, ", 1000) + "]}}\n")
	b.WriteString(strings.Repeat("  - *a0\n", maxNodes/1000))
	_, _, err := Parse("f.yaml", []byte(b.String()), testOptions())
	if err == nil || !strings.Contains(err.Error(), "aliases make the file too large") {
		t.Errorf("the file is read whole: %.300v", err)
	}
}
