package config

import (
	"errors"
	"strings"
	"testing"
)

// withStore are options whose store knows one secret, wherever it lies.
func withStore(opened *[]File) Options {
	o := testOptions()
	o.Resolvers = nil
	o.KMS = func(k *KMS) (Resolver, error) {
		*opened = append(*opened, k.Dir)
		return func(name string) (string, error) {
			if name != "admin" {
				return "", errors.New("not found")
			}
			return "/run/secret.sock", nil
		}, nil
	}
	return o
}

func TestSecretsComeFromTheStoreThatTheFileNames(t *testing.T) {
	var opened []File
	source := aVersion + aListener + aTrace + "admin: {address: 'unix:${kms:admin}'}\ndata_dir: ${kms:admin}\nkms: {dir: keys, master: {file: m}}\n"
	tree, _, err := Parse("f.yaml", []byte(source), withStore(&opened))
	if err != nil {
		t.Fatal(err)
	}
	if tree.Admin.Address.Addr != "/run/secret.sock" || tree.DataDir != "/run/secret.sock" {
		t.Errorf("read %q and %q", tree.Admin.Address, tree.DataDir)
	}
	if len(opened) != 1 || opened[0] != "/etc/pqgw/keys" {
		t.Errorf("opened %q, want the one store once", opened)
	}
}

func TestSecretsThatAreNotThereAreProblems(t *testing.T) {
	const secret = "data_dir: ${kms:admin}\n"
	for name, c := range map[string]struct{ source, want string }{
		"no store":       {aVersion + aListener + aTrace + secret, "the file has no kms"},
		"a wrong name":   {aVersion + aListener + aTrace + "data_dir: ${kms:nope}\nkms: {dir: keys, master: {file: m}}\n", "data_dir: ${kms:nope}: not found"},
		"within the kms": {aVersion + aListener + aTrace + "kms: {dir: '${kms:admin}', master: {file: m}}\n", "the file has no kms"},
	} {
		t.Run(name, func(t *testing.T) {
			var opened []File
			_, _, err := Parse("f.yaml", []byte(c.source), withStore(&opened))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want it to say %q", err, c.want)
			}
		})
	}
}

func TestHostsOfACMEAreThoseThatTheListenersServe(t *testing.T) {
	tree, _, err := Parse("f.yaml", []byte(aVersion+`
tls:
  a: {certificates: {acme: {hosts: More.example.com, challenges: dns-01, dns: {exec: hook}}}}
  b: {certificates: {dev: {}}}
listeners: [{name: a, address: ":443", tls: a}, {name: b, address: ":444", tls: b}]
routes:
  - {match: {host: [Api.example.com, "*.wild.example.com", 192.0.2.1]}, to: trace}
  - {match: {host: only-b.example.com, listener: b}, to: trace}
  - {match: {host: both.example.com, listener: [a, b]}, to: trace}
`), testOptions())
	if err != nil {
		t.Fatal(err)
	}
	want := "*.wild.example.com api.example.com both.example.com more.example.com"
	if got := strings.Join(tree.ACMEHosts("a"), " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := tree.ACMEHosts("b"); got != nil {
		t.Errorf("settings without acme need %v", got)
	}
}
