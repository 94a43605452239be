package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var compareValues = cmp.Options{
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmpopts.IgnoreUnexported(Tree{}),
}

func TestAPrintedTreeIsReadBackEqual(t *testing.T) {
	files, _ := filepath.Glob("testdata/good/*.yaml")
	if len(files) == 0 {
		t.Fatal("no files")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tree, _, err := Parse(file, source, testOptions())
			if err != nil {
				t.Fatal(err)
			}
			printed := Marshal(tree)
			golden(t, file+".printed", string(printed))
			again, _, err := Parse("printed", printed, testOptions())
			if err != nil {
				t.Fatalf("%v\n%s", err, printed)
			}
			if diff := cmp.Diff(tree, again, compareValues); diff != "" {
				t.Errorf("the tree changed (-first +again)\n%s\n%s", diff, printed)
			}
		})
	}
}

func TestATreeBuiltInGoResolvesAndPrints(t *testing.T) {
	tree := New()
	dev := Default[TLS]()
	dev.Certificates.Dev = &DevCertificates{Hosts: []string{"example.com"}}
	tree.TLS["edge"] = dev
	l := Default[Listener]()
	l.Name, l.TLS, l.Address = "edge", "edge", Address{Network: "tcp", Addr: ":8443"}
	tree.Listeners = []*Listener{l}
	r := Default[Route]()
	r.To = Trace
	tree.Routes = []*Route{r}
	warnings, err := tree.Resolve()
	if err != nil || len(warnings) > 0 {
		t.Fatalf("Resolve: %v, %v", warnings, err)
	}
	want := `version: 1
tls:
  edge:
    certificates:
      dev:
        hosts: example.com
listeners:
  - name: edge
    address: ":8443"
    protocols: [h1, h2]
    tls: edge
routes:
  - to: trace
`
	if diff := cmp.Diff(want, string(Marshal(tree))); diff != "" {
		t.Error(diff)
	}
	again, _, err := Parse("printed", Marshal(tree), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree, again, compareValues); diff != "" {
		t.Error(diff)
	}
}

func TestAnyTextSurvivesPrinting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := New()
		l := Default[Listener]()
		l.Name, l.Address = "l", Address{Network: "tcp", Addr: ":80"}
		tree.Listeners = []*Listener{l}
		r := Default[Route]()
		r.Respond = &Respond{Status: 200, Body: text().Draw(t, "body")}
		r.Name = text().Draw(t, "name")
		r.Respond.Headers = Fields{{Name: rapid.StringMatching("[a-zA-Z0-9~!|-]+").Filter(func(s string) bool { return validToken(s) }).Draw(t, "field"), Value: "v"}}
		tree.Routes = []*Route{r}
		if _, err := tree.Resolve(); err != nil {
			t.Skip("not a tree")
		}
		printed := Marshal(tree)
		again, _, err := Parse("printed", printed, Options{})
		if err != nil {
			t.Fatalf("%v\n%s", err, printed)
		}
		if diff := cmp.Diff(tree, again, compareValues); diff != "" {
			t.Fatalf("%s\n%s", diff, printed)
		}
	})
}

// text draws strings with what YAML and `${…}` give a meaning to.
func text() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.String(),
		rapid.SampledFrom([]string{"${", "$", "}", ": ", "#", " #", "\n", "\r\n", "\t", "'", "\"", "\\", "*a", "&a", "!!x", "- ", "null", "~", "<<", "1e3", "0x1f", "---", "{", "[", "%", "@", "`", "|", ">", "?", " ", "\u0085", "\u2028", "\ufeff", "\x00", "true"}),
	)
	return rapid.Map(rapid.SliceOfN(piece, 0, 6), func(parts []string) string {
		s := ""
		for _, p := range parts {
			s += p
		}
		return s
	})
}

func TestDurationsAndSizesArePrintedShort(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "30s": 30 * time.Second, "2m": 2 * time.Minute, "1h": time.Hour, "1h30m": 90 * time.Minute, "1m30s": 90 * time.Second, "1h0m5s": time.Hour + 5*time.Second, "10s": 10 * time.Second, "10m": 10 * time.Minute, "100ms": 100 * time.Millisecond,
	} {
		if got := shortDuration(d); got != want {
			t.Errorf("%v is printed %s, want %s", d, got, want)
		}
	}
	for want, b := range map[string]Bytes{"0B": 0, "1KiB": 1024, "1GiB": 1 << 30, "1500B": 1500, "1025B": 1025, "5TiB": 5 << 40} {
		if got := b.String(); got != want {
			t.Errorf("%d bytes are printed %s, want %s", int64(b), got, want)
		}
	}
}
