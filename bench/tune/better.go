package tune

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// atLeast wants each number of a value to be no smaller than the one in its
// place; 0 leaves a number alone.
func atLeast(least ...uint64) func(string) (string, error) {
	return func(is string) (string, error) {
		fields := strings.Fields(is)
		if len(fields) != len(least) {
			return "", fmt.Errorf("%q has %d numbers, not %d", is, len(fields), len(least))
		}
		changed := false
		for i, f := range fields {
			n, err := strconv.ParseUint(f, 10, 64)
			if err != nil {
				return "", err
			}
			if n < least[i] {
				fields[i], changed = strconv.FormatUint(least[i], 10), true
			}
		}
		if !changed {
			return is, nil // as it is written
		}
		return strings.Join(fields, "\t"), nil
	}
}

// widest wants a range that holds the one given.
func widest(low, high uint64) func(string) (string, error) {
	return func(is string) (string, error) {
		var from, to uint64
		if _, err := fmt.Sscan(is, &from, &to); err != nil {
			return "", err
		}
		if from <= low && to >= high {
			return is, nil
		}
		return fmt.Sprintf("%d\t%d", min(from, low), max(to, high)), nil
	}
}

// exactly wants one value.
func exactly(want string) func(string) (string, error) {
	return func(string) (string, error) { return want, nil }
}

// sameMask wants a set of CPUs, which the kernel writes as hexadecimal words
// with or without zeros before them.
func sameMask(want string) func(string) (string, error) {
	return func(is string) (string, error) {
		if plain(is) == plain(want) {
			return is, nil
		}
		return want, nil
	}
}

func plain(mask string) string { return strings.TrimLeft(strings.ReplaceAll(mask, ",", ""), "0") }

// allCPUs is the mask of the first n CPUs.
func allCPUs(n int) string {
	var words []string
	for ; n > 0; n -= 32 {
		word := uint64(1)<<min(n, 32) - 1
		words = append([]string{fmt.Sprintf("%0*x", (bits.Len64(word)+3)/4, word)}, words...)
	}
	return strings.Join(words, ",")
}
