//go:build !go1.27

package config

var groupNames = []string{
	string(X25519MLKEM768), string(SecP256r1MLKEM768), string(SecP384r1MLKEM1024), string(X25519), string(P256), string(P384),
}

var pqNames = []string{"require", "prefer", "off"}
