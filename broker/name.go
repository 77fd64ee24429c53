package broker

import "strings"

// SameName reports whether two usernames differ only in the case of A to Z. A user base that treats
// more spellings as equal would allow guesses at the password under each of them.
func SameName(a, b string) bool { return lowerName(a) == lowerName(b) }

func lowerName(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, name)
}
