package kms

import (
	"bytes"
	"crypto/sha256"
	"os"
	"path/filepath"
	"testing"
)

// withSum gives mutated bytes the hash of a whole file, so that fuzzing gets
// past it.
func withSum(data []byte) []byte {
	if len(data) < sha256.Size {
		return data
	}
	body := data[:len(data)-sha256.Size]
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), sum[:]...)
}

func FuzzDecodeDocument(f *testing.F) {
	key, err := NewMasterKey()
	if err != nil {
		f.Fatal(err)
	}
	h := head{Info: Info{Name: "a", Kind: KindSecret, Version: 1, Public: []byte("p")}, Store: "s", Epoch: 1}
	data, err := sealDocument(h, []byte("value"), []Recipient{key.Recipient()}, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Fuzz(func(t *testing.T, mutated []byte) {
		d, err := decodeDocument(withSum(mutated))
		if err != nil {
			return
		}
		value, err := d.open([]*MasterKey{key})
		if err == nil && d.head.Kind != KindPublic && string(value.Reveal()) != "value" {
			t.Errorf("opened to %q", value.Reveal())
		}
	})
}

func FuzzParseHeader(f *testing.F) {
	dir := f.TempDir()
	key, err := NewMasterKey()
	if err != nil {
		f.Fatal(err)
	}
	if err := Init(dir, key); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, headerFile))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, mutated []byte) {
		p, err := parseHeader(mutated)
		if err != nil {
			return
		}
		if _, err := p.verify([]*MasterKey{key}); err != nil {
			return
		}
		original, _ := parseHeader(data)
		if !bytes.Equal(p.line, original.line) {
			t.Error("a changed header was vouched for")
		}
	})
}

func FuzzParseAuditLine(f *testing.F) {
	f.Add([]byte(`{"seq":1,"op":"get","prev":"","mac":"` + string(bytes.Repeat([]byte("0"), 64)) + "\"}\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		_, body, mac, err := parseLine(line)
		if err == nil && !bytes.Equal(line, []byte(string(body)+macKey+mac+"\"}\n")) {
			t.Errorf("%q came apart into %q and %q", line, body, mac)
		}
		lastLine(line)
		view{}.parseHead(line)
	})
}

func FuzzParseECHConfigList(f *testing.F) {
	config, err := NewECHConfig(7, make([]byte, 32), "public.example")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append([]byte{0, byte(len(config))}, config...))
	f.Add([]byte("AEX+DQBB"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, name, err := ParseECHConfigList(text)
		if err != nil {
			return
		}
		if name == "" || len(list) < 2+len(name) {
			t.Errorf("%q of %d bytes", name, len(list))
		}
		if again, same, err := ParseECHConfigList(list); err == nil && (same != name || !bytes.Equal(again, list)) {
			t.Errorf("%q, then %q", name, same)
		}
	})
}
