package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestExpansion(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"token": "abc\n", "crlf": "abc\r\n", "two": "a\nb\n\n", "dollar": "${REGION}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "huge"), make([]byte, maxExpanded+1), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := testOptions()
	opts.Dir = dir
	for name, c := range map[string]struct{ in, want, fails string }{
		"nothing to expand":              {"a$b{c}", "a$b{c}", ""},
		"a variable":                     {"x-${REGION}-y", "x-eu-y", ""},
		"two variables":                  {"${REGION}${PORT}", "eu8443", ""},
		"a default that is needed":       {"${NOPE:-here}", "here", ""},
		"a default that is not":          {"${REGION:-us}", "eu", ""},
		"a default for what is empty":    {"${EMPTY:-x}", "x", ""},
		"an empty default":               {"a${NOPE:-}b", "ab", ""},
		"a default with a colon":         {"${NOPE:-http://a:1}", "http://a:1", ""},
		"an empty variable":              {"a${EMPTY}b", "ab", ""},
		"an escape":                      {"$${REGION}", "${REGION}", ""},
		"an escape after a dollar":       {"$$${REGION}", "$${REGION}", ""},
		"a file":                         {"${file:token}", "abc", ""},
		"a file by its absolute path":    {"${file:" + dir + "/token}", "abc", ""},
		"a file with CRLF":               {"${file:crlf}", "abc", ""},
		"a file's last newline only":     {"${file:two}", "a\nb\n", ""},
		"what a file holds is not again": {"${file:dollar}", "${REGION}", ""},
		"another source":                 {"${kms:key}", "sealed-key", ""},
		"a file that is not there":       {"${file:none}", "", "no such file"},
		"a file that is too large":       {"${file:huge}", "", "larger than 1MiB"},
		"a variable that is not set":     {"${NOPE}", "", "NOPE is not set"},
		"no end":                         {"${REGION", "", "without its }"},
		"a name with a dash":             {"${A-B}", "", "not the name of a variable"},
		"a source that does not exist":   {"${vault:x}", "", `unknown source of values "vault"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, _, err := opts.expand(c.in)
			switch {
			case c.fails == "" && (err != nil || got != c.want):
				t.Errorf("%q becomes %q, %v; want %q", c.in, got, err, c.want)
			case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
				t.Errorf("%q becomes %q, %v; want an error with %q", c.in, got, err, c.fails)
			}
		})
	}
}

func TestPathsAreRelativeToTheFile(t *testing.T) {
	dir := t.TempDir()
	source := aVersion + `
access_log: log/access
data_dir: data
tls: {s: {certificates: {files: {cert: a.pem, key: /k.pem}}, client_ca: ../ca.pem}}
listeners: [{name: l, address: 'unix:l.sock', tls: s}]
routes: [{to: u}]
upstreams: {u: {endpoints: ['unix:u.sock', 'unix:/abs.sock']}}
`
	path := filepath.Join(dir, "pqgw.yaml")
	if err := os.WriteFile(path, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	tree, _, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	files := tree.TLS["s"].Certificates.Files[0]
	for _, c := range []struct{ got, want string }{
		{string(tree.AccessLog), dir + "/log/access"},
		{string(tree.DataDir), dir + "/data"},
		{string(files.Cert), dir + "/a.pem"},
		{string(files.Key), "/k.pem"},
		{string(tree.TLS["s"].ClientCA), filepath.Dir(dir) + "/ca.pem"},
		{tree.Listeners[0].Address.String(), "unix:" + dir + "/l.sock"},
		{tree.Upstreams["u"].Endpoints[0].String(), "unix:" + dir + "/u.sock"},
		{tree.Upstreams["u"].Endpoints[1].String(), "unix:/abs.sock"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
	if _, _, err := Load(filepath.Join(dir, "none.yaml")); err == nil {
		t.Error("a file that is missing loads")
	}
}

func TestOverridesInheritWhatTheyLeaveOut(t *testing.T) {
	// What is inherited stands after what inherits it, as the order of keys has no meaning.
	source := aVersion + `
listeners: [{name: l, address: ':80', limits: {fields: 10}}, {name: m, address: ':81'}]
routes: [{to: u, timeouts: {connect: 1s}}, {to: u, match: {path: /x}}]
upstreams: {u: {endpoints: 'http://a', timeouts: {first_byte: 7s}}}
limits: {head_bytes: 8KiB, fields: 20}
`
	tree, _, err := Parse("f.yaml", []byte(source), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	if l := tree.LimitsFor(tree.Listeners[0]); l.Fields != 10 || l.HeadBytes != 8<<10 {
		t.Errorf("the limits of l are %+v", l)
	}
	if l := tree.LimitsFor(tree.Listeners[1]); l != tree.Limits || l.Fields != 20 {
		t.Errorf("the limits of m are %+v", l)
	}
	u := tree.Upstreams["u"]
	if d := tree.TimeoutsFor(tree.Routes[0], u); d.Connect.String() != "1s" || d.FirstByte.String() != "7s" {
		t.Errorf("the timeouts of the first route are %+v", d)
	}
	if d := tree.TimeoutsFor(tree.Routes[1], u); d != u.Timeouts {
		t.Errorf("the timeouts of the second route are %+v", d)
	}
}

func TestWhatDependsOnOtherSettings(t *testing.T) {
	tree, _, err := Parse("f.yaml", []byte(aVersion+`
tls:
  s: {certificates: {dev: {}}, client_ca: ca.pem}
  up: {ca: up.pem, pq: off}
listeners: [{name: l, address: ':443', tls: s}, {name: m, address: ':80'}]
routes: [{to: u}, {to: v, match: {path: /v}}, {to: trace, match: {host: B.example., path: /x/*}}]
upstreams: {u: {endpoints: 'https://a', tls: s}, v: {endpoints: ['https://a'], tls: up}}
`), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	s := tree.TLS["s"]
	if s.ClientAuth != ClientAuthRequire || tree.TLSFor(tree.Listeners[0]) != s || tree.TLSFor(tree.Listeners[1]) != nil {
		t.Errorf("client_auth is %q", s.ClientAuth)
	}
	if got := tree.UpstreamTLS(tree.Upstreams["u"]); got != s || got.UpstreamCA() != "/etc/pqgw/ca.pem" {
		t.Errorf("the upstream's settings are %+v", got)
	}
	if got := tree.UpstreamTLS(tree.Upstreams["v"]); got.UpstreamCA() != "/etc/pqgw/up.pem" || got.EffectiveGroups()[0].PostQuantum() {
		t.Errorf("the other upstream's settings are %+v", got)
	}
	if l, m := tree.Listeners[0], tree.Listeners[1]; !l.Speaks(H2) || l.Speaks(H2C) || !m.Speaks(H2C) || m.Speaks(H2) {
		t.Errorf("protocols are %v and %v", l.Protocols, m.Protocols)
	}
	if names := []string{tree.Routes[0].Name, tree.Routes[1].Name, tree.Routes[2].Name}; names[0] != "/*" || names[1] != "/v" || names[2] != "b.example/x/*" {
		t.Errorf("the routes are named %q", names)
	}
}

// BenchmarkLoadTenThousandRoutes is what a reload of a large file costs.
func BenchmarkLoadTenThousandRoutes(b *testing.B) {
	var s strings.Builder
	s.WriteString(aVersion + aListener + "upstreams: {up: {endpoints: 'http://a'}}\nroutes:\n")
	for i := range 10000 {
		s.WriteString("  - match: {host: h" + strings.Repeat("x", i%7) + ".example.com, path: /p")
		s.WriteString(strings.Repeat("a", i%50) + "/" + Bytes(i).String() + "/*, method: GET}\n    to: up\n")
	}
	source := []byte(s.String())
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Parse("f.yaml", source, testOptions()); err != nil {
			b.Fatalf("%.300v", err)
		}
	}
}
