// Package spelling finds the word that a misspelt one probably means.
package spelling

import "strings"

// maxWord is the length of the longest word that is compared, in bytes.
const maxWord = 128

// typos returns the number of characters in which two words differ, without upper and lower
// case. ok is false if they are too different to be the same word, misspelt.
func typos(a, b string) (n int, ok bool) {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if a == b {
		return 0, true
	}
	allowed := 2
	switch shorter := min(len(a), len(b)); {
	case shorter < 3, max(len(a), len(b)) > maxWord:
		return 0, false
	case shorter < 5:
		allowed = 1
	}
	n = distance(a, b)
	return n, n <= allowed
}

// IsSimilar reports whether two words are probably the same, except for the case of letters or a
// spelling error.
func IsSimilar(a, b string) bool {
	_, ok := typos(a, b)
	return ok
}

// Similar returns the word of a list that a misspelt word probably means, or "".
func Similar(word string, list []string) string {
	best, least := "", maxWord
	for _, known := range list {
		if n, ok := typos(word, known); ok && n < least {
			best, least = known, n
		}
	}
	return best
}

// distance returns the number of bytes that must be inserted, deleted or replaced to make b
// of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
