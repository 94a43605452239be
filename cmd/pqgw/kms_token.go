package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/handshake/pkcs11"
	"github.com/hanzoai/pqgw/kms"
)

// tokenFlags say which PKCS#11 token, and what opens it.
type tokenFlags struct {
	module, token, pinFile string
}

func (f *tokenFlags) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.module, "pkcs11-module", "", "PKCS#11 library whose token has the keys, instead of a store")
	fl.StringVar(&f.token, "pkcs11-token", "", "label of the token")
	fl.StringVar(&f.pinFile, "pkcs11-pin-file", "", "file of its PIN")
}

// with runs use on the token's keys.
func (f *tokenFlags) with(use func(kms.Keys) error) error {
	if f.token == "" || f.pinFile == "" {
		return withCode(exitUsage, errors.New("--pkcs11-module needs --pkcs11-token and --pkcs11-pin-file"))
	}
	pin, err := os.ReadFile(f.pinFile)
	if err != nil {
		return withCode(exitConfig, fmt.Errorf("--pkcs11-pin-file: %w", err))
	}
	keys, err := pkcs11.Open(pkcs11.Settings{Module: f.module, Token: f.token, PIN: strings.TrimSpace(string(pin))})
	if err != nil {
		return withCode(exitConfig, err)
	}
	return errors.Join(use(keys), keys.Close())
}
