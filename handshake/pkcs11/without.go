//go:build !pkcs11

package pkcs11

// Open fails in this build.
func Open(s Settings) (Keys, error) {
	return nil, &Error{Token: s.String(), Kind: ErrNotBuilt, Hint: "build with -tags pkcs11, which needs cgo"}
}
