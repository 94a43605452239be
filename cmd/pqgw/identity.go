package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/handshake"
)

// identityFlags are the files of our post-quantum identity: all of them, or none.
type identityFlags struct {
	cert, key, ca string
}

func (f *identityFlags) flags(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&f.cert, "identity-cert", "", "PEM file of our ML-DSA identity's certificate chain")
	fl.StringVar(&f.key, "identity-key", "", "PEM file of its key")
	fl.StringVar(&f.ca, "identity-ca", "", "PEM file of the authority that vouches for the peers' identities")
}

// given tells whether there is one; half of one is an error.
func (f *identityFlags) given() (bool, error) {
	switch {
	case f.cert+f.key+f.ca == "":
		return false, nil
	case f.cert == "" || f.key == "" || f.ca == "":
		return false, errors.New("an identity needs --identity-cert, --identity-key and --identity-ca ('pqgw cert ca DIR --alg ml-dsa-65' and 'pqgw cert issue DIR --name N --alg ml-dsa-65' make them)")
	}
	return true, nil
}

// load reads the files and looks after them until the identity is closed; nil where
// none is given. onReload is told of each change.
func (f *identityFlags) load(onReload func(error)) (*handshake.IdentityFiles, error) {
	if given, err := f.given(); !given {
		return nil, err
	}
	return handshake.NewIdentityFiles(handshake.IdentityPaths{Cert: f.cert, Key: f.key, CA: f.ca}, onReload)
}
