package config

import (
	"fmt"
	"strings"
)

// word is a string type with a closed set of values.
type word interface{ values() []string }

func (PQ) values() []string         { return pqNames }
func (TLSVersion) values() []string { return []string{"1.3", "1.2"} }
func (ClientAuth) values() []string { return []string{"require", "optional"} }
func (Engine) values() []string     { return []string{"auto", "portable"} }
func (EarlyData) values() []string  { return []string{"off", "safe"} }
func (Balance) values() []string    { return []string{"p2c"} }
func (LogLevel) values() []string   { return []string{"debug", "info", "warn", "error"} }
func (LogFormat) values() []string  { return []string{"auto", "text", "json"} }
func (Protocol) values() []string   { return []string{"h1", "h2", "h2c", "h3", "zap", "zap-rpc"} }
func (Group) values() []string      { return groupNames }

func (Scheme) values() []string {
	return []string{
		"http", "https", "h2c", "h3", "unix", "zap", "zap+tls", "zap+quic", "zap+unix", "zap-rpc+tls", "zap-rpc+quic",
	}
}

// groupAliases are other names of groups, as other software writes them.
var groupAliases = map[string]Group{
	"x25519": X25519, "P256": P256, "secp256r1": P256, "prime256v1": P256, "P384": P384, "secp384r1": P384,
}

// unknownWord is the error of a value outside a closed set.
type unknownWord struct {
	what, word string
	known      []string
}

func (e *unknownWord) Error() string {
	return fmt.Sprintf("unknown %s %q; known: %s", e.what, e.word, strings.Join(e.known, ", "))
}
