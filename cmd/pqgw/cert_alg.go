package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hanzoai/pqgw/handshake"
	"github.com/hanzoai/pqgw/kms/pqcert"
)

// algECDSA is the algorithm of certificates for TLS itself.
const algECDSA = "ecdsa-p256"

func algFlag(cmd *cobra.Command, alg *string) {
	cmd.Flags().StringVar(alg, "alg", algECDSA, "algorithm of the key: ecdsa-p256, or ml-dsa-65 or ml-dsa-87 for identities of hops")
}

// parseAlg tells an ML-DSA algorithm from ECDSA.
func parseAlg(alg string) (a pqcert.Algorithm, identity bool, err error) {
	if alg == algECDSA {
		return 0, false, nil
	}
	if a, err = pqcert.ParseAlgorithm(alg); err != nil {
		return 0, false, withCode(exitUsage, fmt.Errorf("--alg is %q; there are ecdsa-p256, ml-dsa-65 and ml-dsa-87", alg))
	}
	return a, true, nil
}

// makeCA makes the authority in dir, or opens the one that is there.
func makeCA(dir, alg string) (madeFiles, error) {
	algorithm, identity, err := parseAlg(alg)
	if err != nil {
		return madeFiles{}, err
	}
	if !identity {
		a, created, err := handshake.MakeAuthority(dir)
		if err != nil {
			return madeFiles{}, err
		}
		return madeFiles{Cert: a.CertFile(), Key: a.KeyFile(), Created: created, NotAfter: a.Certificate().NotAfter}, nil
	}
	a, created, err := handshake.MakeIdentityAuthority(dir, algorithm)
	if err != nil {
		return madeFiles{}, err
	}
	return madeFiles{Cert: a.CertFile(), Key: a.KeyFile(), Created: created, NotAfter: a.Certificate().NotAfter}, nil
}

// issueCert issues by the authority in dir, which must be of the same family.
func issueCert(dir, alg, name, spiffe string, life time.Duration) (handshake.Issued, error) {
	algorithm, identity, err := parseAlg(alg)
	if err != nil {
		return handshake.Issued{}, err
	}
	if !identity {
		a, err := handshake.OpenAuthority(dir)
		if err != nil {
			return handshake.Issued{}, hintCA(dir, alg, err)
		}
		if spiffe == "" {
			return a.IssueFiles(life, name)
		}
		if !strings.HasPrefix(spiffe, "spiffe://") {
			return handshake.Issued{}, withCode(exitUsage, fmt.Errorf("--spiffe-id %q does not begin with spiffe://", spiffe))
		}
		return a.IssueFiles(life, name, spiffe)
	}
	if spiffe != "" {
		return handshake.Issued{}, withCode(exitUsage, errors.New("--spiffe-id is for certificates of TLS: an ML-DSA identity bears its name"))
	}
	a, err := handshake.OpenIdentityAuthority(dir)
	if err != nil {
		return handshake.Issued{}, hintCA(dir, alg, err)
	}
	return a.IssueFiles(algorithm, life, name)
}

func hintCA(dir, alg string, err error) error {
	command := "pqgw cert ca " + dir
	if alg != algECDSA {
		command += " --alg " + alg
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w; make one with '%s'", err, command)
	}
	return fmt.Errorf("%w; an authority of this kind is made with '%s', in a folder of its own", err, command)
}
