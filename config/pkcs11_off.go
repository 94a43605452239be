//go:build !pkcs11

package config

const builtPKCS11 = false
