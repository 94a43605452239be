package config

import (
	"fmt"
	"strings"
)

// didYouMean is a hint at the one of known that is most like word; empty
// where none is near.
func didYouMean(word string, known []string) string {
	best := nearest(word, known)
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", best)
}

// nearest is the one of known that is most like word, "" where none is near.
func nearest(word string, known []string) string {
	best, least := "", 1+max(1, len(word)/3)
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// suggest is didYouMean, or the list of what is known where that is short.
func suggest(word string, known []string) string {
	if hint := didYouMean(word, known); hint != "" {
		return hint
	}
	if len(known) == 0 || len(known) > 24 {
		return ""
	}
	return "known: " + strings.Join(known, ", ")
}

// maxSuggest bounds the words that are compared, as the work grows with the square.
const maxSuggest = 64

// distance counts the insertions, deletions, changes and swaps of neighbours
// that make b of a.
func distance(a, b string) int {
	if len(a) > maxSuggest || len(b) > maxSuggest {
		return maxSuggest
	}
	var before, prev, row [maxSuggest + 1]int
	for j := range len(b) + 1 {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(prev[j]+1, row[j-1]+1, prev[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, prev = prev, row
	}
	return prev[len(b)]
}
