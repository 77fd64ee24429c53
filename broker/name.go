package broker

import "strings"

// SameName says whether two usernames differ in the case of the letters A to Z at most. A user base whose query joins more
// spellings than that would let each be guessed at apart from the others.
func SameName(a, b string) bool { return lowerName(a) == lowerName(b) }

func lowerName(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, name)
}
