package kms

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"fmt"

	"golang.org/x/crypto/cryptobyte"
)

// ParseECHConfigList reads an ECHConfigList (RFC 9849, section 4) as it is published:
// its bytes, the same in base64 as in an HTTPS record, or in PEM under ECHCONFIG.
// It gives the bytes and the public name of the first configuration. The error is
// ErrCorrupt.
func ParseECHConfigList(text []byte) (list []byte, publicName string, err error) {
	list = text
	if block, _ := pem.Decode(text); block != nil && block.Type == "ECHCONFIG" {
		list = block.Bytes
	} else if raw, err := base64.StdEncoding.DecodeString(string(bytes.TrimSpace(text))); err == nil {
		list = raw
	}
	s := cryptobyte.String(list)
	var configs cryptobyte.String
	if !s.ReadUint16LengthPrefixed(&configs) || !s.Empty() || configs.Empty() {
		return nil, "", fmt.Errorf("%w: no ECHConfigList", ErrCorrupt)
	}
	for !configs.Empty() {
		var version uint16
		var config cryptobyte.String
		if !configs.ReadUint16(&version) || !configs.ReadUint16LengthPrefixed(&config) {
			return nil, "", fmt.Errorf("%w: an ECHConfig is cut off", ErrCorrupt)
		}
		if version == echVersion && publicName == "" {
			publicName = publicNameOf(config)
		}
	}
	if publicName == "" {
		return nil, "", fmt.Errorf("%w: no ECHConfig of RFC 9849", ErrCorrupt)
	}
	return list, publicName, nil
}

// publicNameOf is empty where the contents of an ECHConfig are malformed.
func publicNameOf(config cryptobyte.String) string {
	const idAndKEM = 1 + 2
	var key, suites, name cryptobyte.String
	if !config.Skip(idAndKEM) || !config.ReadUint16LengthPrefixed(&key) || !config.ReadUint16LengthPrefixed(&suites) ||
		!config.Skip(1) || !config.ReadUint8LengthPrefixed(&name) {
		return ""
	}
	return string(name)
}
