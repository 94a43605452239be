package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hanzoai/pqgw/config"
)

// configFixture writes a configuration file and returns its path.
func configFixture(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pqgw.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const goodConfig = `version: 1
tls: {dev: {certificates: {dev: {}}, pq: require}, old: {}}
listeners: [{name: edge, address: ":8443", tls: dev}, {name: front, address: ":8080"}]
routes:
  - {match: {host: api.example.com, path: /v1/*}, to: up}
  - {match: {listener: front}, redirect: {to: "https://{host}{path}{query}"}}
  - {to: trace}
upstreams: {up: {endpoints: "http://127.0.0.1:9000"}}
`

func TestConfigValidateExitCodes(t *testing.T) {
	good := configFixture(t, goodConfig)
	bad := configFixture(t, strings.Replace(goodConfig, "to: up", "to: upp", 1))
	missing := filepath.Join(t.TempDir(), "none.yaml")
	for name, c := range map[string]struct {
		args         []string
		code         int
		stdout, errs string
	}{
		"a good file":            {[]string{good}, exitOK, "is valid: 2 listeners, 3 routes, 1 upstream", "warning: " + good + ":2:52: tls.old: nothing uses"},
		"a good file by flag":    {[]string{"-c", good}, exitOK, "is valid", ""},
		"a bad file":             {[]string{bad}, exitConfig, "", bad + `:5:55: routes[0].to: no upstream is named "upp"; did you mean "up"?`},
		"a missing file":         {[]string{missing}, exitConfig, "", "no such file"},
		"no file":                {nil, exitUsage, "", "name one configuration file"},
		"a file twice":           {[]string{good, "-c", good}, exitUsage, "", "name one configuration file"},
		"two files":              {[]string{good, good}, exitUsage, "", "at most 1 arg"},
		"an unknown output":      {[]string{good, "--output", "xml"}, exitUsage, "", "--output"},
		"a bad file as JSON":     {[]string{bad, "--output", "json"}, exitConfig, `"valid": false`, "configuration invalid"},
		"a missing file as JSON": {[]string{missing, "--output", "json"}, exitConfig, `"valid": false`, "no such file"},
		"a good file as JSON":    {[]string{good, "--output", "json"}, exitOK, `"valid": true`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := runPQGW(append([]string{"config", "validate"}, c.args...)...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || c.stdout == "" && stdout != "" || !strings.Contains(stderr, c.errs) {
				t.Errorf("exit %d, stdout %q, stderr %q; want exit %d, %q, %q", code, stdout, stderr, c.code, c.stdout, c.errs)
			}
		})
	}
}

func TestConfigValidateJSONHasEveryProblemWithItsPlace(t *testing.T) {
	bad := configFixture(t, "version: 1\nlisteners: [{name: a}]\nrouts: []\n")
	_, stdout, _ := runPQGW("config", "validate", "--output", "json", bad)
	var v validation
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Problems) != 2 || v.Problems[0].Path != "listeners[0].address" || v.Problems[1].Line != 3 || v.Problems[1].Col != 1 || v.Problems[1].SourceLine != "routs: []" {
		t.Errorf("%+v", v)
	}
}

func TestConfigSchemaIsJSON(t *testing.T) {
	code, stdout, _ := runPQGW("config", "schema")
	var schema map[string]any
	if err := json.Unmarshal([]byte(stdout), &schema); err != nil || code != exitOK {
		t.Fatalf("exit %d, %v", code, err)
	}
	if schema["additionalProperties"] != false || schema["properties"] == nil {
		t.Errorf("the schema allows anything: %.200s", stdout)
	}
}

func TestConfigExplainSaysWhichRouteGetsARequest(t *testing.T) {
	good := configFixture(t, goodConfig)
	code, stdout, stderr := runPQGW("config", "explain", good, "--host", "API.example.com", "--path", "/v1/x?y")
	for _, want := range []string{
		"X25519MLKEM768 SecP256r1MLKEM768 SecP384r1MLKEM1024\n",
		"At edge the route api.example.com/v1/* gets it: to up.",
		"At front the route api.example.com/v1/* gets it: to up.",
		"no: listener",
		"matches, but 1 is more specific",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if code != exitOK {
		t.Errorf("exit %d: %s", code, stderr)
	}
	_, stdout, _ = runPQGW("config", "explain", good)
	if !strings.Contains(stdout, "RANK") || !strings.Contains(stdout, config.RouteOrder) {
		t.Errorf("no order of the routes in\n%s", stdout)
	}
	if code, _, stderr := runPQGW("config", "explain", good, "--listener", "edeg"); code != exitUsage || !strings.Contains(stderr, "edeg") {
		t.Errorf("an unknown listener: exit %d, %s", code, stderr)
	}
	if code, _, _ := runPQGW("config", "explain", good, "-H", "nonsense"); code != exitUsage {
		t.Errorf("a header that is none: exit %d", code)
	}
	if code, _, _ := runPQGW("config", "explain", good, "--rpc-method", "5000000000"); code != exitUsage {
		t.Errorf("a method number beyond 32 bits: exit %d", code)
	}
}

func TestConfigExplainAsJSON(t *testing.T) {
	_, stdout, _ := runPQGW("config", "explain", configFixture(t, goodConfig), "--output", "json", "--listener", "front", "--path", "/x")
	var e explanation
	if err := json.Unmarshal([]byte(stdout), &e); err != nil {
		t.Fatal(err)
	}
	if len(e.Requests) != 1 || e.Requests[0].Winner == 0 || e.Routes[e.Requests[0].Winner-1].Action != "redirect to https://{host}{path}{query}" {
		t.Errorf("%s", stdout)
	}
}

func TestExplainSaysThatAListenerLeadsToHTTPS(t *testing.T) {
	file := configFixture(t, strings.Replace(goodConfig, `":8080"}`, `":8080"}, {name: http, address: ":80", redirect_https: true}`, 1))
	_, stdout, stderr := runPQGW("config", "explain", file, "--host", "api.example.com", "--listener", "http")
	if !strings.Contains(stdout, "At http every request is led to https") || strings.Contains(stdout, "wins") {
		t.Errorf("explained as\n%s%s", stdout, stderr)
	}
}

func TestExplainSaysThatAPathIsRefused(t *testing.T) {
	file := configFixture(t, `version: 1
listeners: [{name: a, address: ":80"}, {name: b, address: ":81"}]
routes: [{to: trace}, {match: {path: /admin/*}, respond: {status: 403}}]
`)
	for path, want := range map[string]string{
		"/%61dmin/x":    "At a, b it is refused: 400, to some upstreams the path is /admin/x, which is another route's.",
		"/x/..%2fadmin": "At a, b it is refused: 400, the path has a segment '.' or '..'.",
		"/%62":          "At a, b the route /* gets it: to trace.",
	} {
		if _, stdout, stderr := runPQGW("config", "explain", file, "--path", path); !strings.Contains(stdout, want) {
			t.Errorf("%s is explained as\n%s%s", path, stdout, stderr)
		}
	}
}

func TestExplainTellsTheLimitsOnCalls(t *testing.T) {
	file := configFixture(t, `
version: 1
tls: {own: {certificates: {dev: {}}}}
listeners: [{name: rpc, address: ":9999", protocols: [zap-rpc], tls: own, limits: {calls: 9}}]
routes: [{name: one, match: {rpc_method: 1}, to: users, timeouts: {first_byte: 2s}}]
upstreams: {users: {endpoints: "zap-rpc+tls://127.0.0.1:9"}}
`)
	_, stdout, stderr := runPQGW("config", "explain", file, "--rpc-method", "1")
	for _, want := range []string{
		"rpc: up to 9 calls in flight on a connection, frames up to 4MiB.",
		"At rpc the route one gets it: to users.",
		"Of a call an answer may take 2s, a stream may stand still for 1h0m0s.",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s%s", want, stdout, stderr)
		}
	}
	_, stdout, _ = runPQGW("config", "explain", file, "--output", "json")
	var e explanation
	if err := json.Unmarshal([]byte(stdout), &e); err != nil {
		t.Fatal(err)
	}
	if *e.Listeners[0].Calls != (callLimits{9, 4 << 20}) || *e.Routes[0].Calls != (callTimeouts{duration(2 * time.Second), duration(time.Hour)}) {
		t.Error(stdout)
	}
}
