//go:build !pkcs11

package pkcs11

import (
	"errors"
	"strings"
	"testing"
)

func TestAnotherBuildSaysWhatItLacks(t *testing.T) {
	_, err := Open(Settings{Module: "m.so", Token: "edge", PIN: "4711"})
	if !errors.Is(err, ErrNotBuilt) || !strings.Contains(err.Error(), "-tags pkcs11") || strings.Contains(err.Error(), "4711") {
		t.Errorf("%v", err)
	}
}
