package config

import (
	"strings"
	"testing"
)

func TestATokenIsCheckedWherePKCS11IsBuiltIn(t *testing.T) {
	whole := "kms: {pkcs11: {module: m.so, token: edge, pin: '1234'}, key: site, cert: c.pem}"
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a whole one":           {whole, nil},
		"by slot and id":        {"kms: {pkcs11: {module: m.so, slot: 0, id: 0a1B}}", nil},
		"a slot that is none":   {"kms: {pkcs11: {module: m.so, slot: x}, key: site}", []string{`kms.pkcs11.slot: "x" is not a whole number`}},
		"no token":              {"kms: {pkcs11: {module: m.so}, key: site}", []string{"kms.pkcs11: needs exactly one of token, its label, and slot"}},
		"both":                  {"kms: {pkcs11: {module: m.so, token: edge, slot: 1}, key: site}", []string{"kms.pkcs11: needs exactly one of token, its label, and slot"}},
		"no module":             {"kms: {pkcs11: {token: edge}, key: site}", []string{"kms.pkcs11.module: is missing"}},
		"no key":                {"kms: {pkcs11: {module: m.so, token: edge}}", []string{"kms.key: is missing; pkcs11 needs key, the label, or pkcs11.id"}},
		"an id that is none":    {"kms: {pkcs11: {module: m.so, token: edge, id: abc}}", []string{"kms.pkcs11.id: is not hexadecimal"}},
		"what goes with others": {"kms: {pkcs11: {module: m.so, token: edge}, key: site, token: t}", []string{"kms: tls and token go with server or vault"}},
		"two kinds":             {"kms: {pkcs11: {module: m.so, token: edge}, vault: 'https://v', key: site}", []string{"kms: needs one of store"}},
	} {
		_, _, err := Parse("f.yaml", []byte(aCertificates(c.text)), testOptions())
		text := ""
		if err != nil {
			text = err.Error()
		}
		want := c.want
		if !builtPKCS11 && name != "no module" && name != "two kinds" {
			want = []string{"kms.pkcs11: this build has no PKCS#11; build with -tags pkcs11"}
		}
		if len(want) == 0 && err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q lacks %q", name, text, w)
			}
		}
	}
}

func TestAPINIsNotShown(t *testing.T) {
	_, _, err := Parse("f.yaml", []byte(aCertificates("kms: {pkcs11: {module: m.so, pin: \"${SECRET}\"}}")), testOptions())
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v", err)
	}
}
