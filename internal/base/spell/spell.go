// Package spell suggests a known word for an unknown one: "did you mean listen?".
package spell

import "strings"

// longest is the maximum length of words that are compared, because Distance takes time and memory
// proportional to the product of both lengths.
const longest = 64

// Nearest returns the known word with the smallest edit distance from word. It returns false if no
// word is similar: at most one letter may differ, or a third of the letters of a longer word.
func Nearest(word string, known []string) (string, bool) {
	if len(word) > longest {
		return "", false
	}
	best, at := "", max(1, len(word)/3)+1
	for _, k := range known {
		if n := Distance(word, k); n < at {
			best, at = k, n
		}
	}
	return best, best != ""
}

// Suggest returns the question "did you mean" with the nearest word. If there is none, it returns
// lead followed by all known words.
func Suggest(word string, known []string, lead string) string {
	if near, ok := Nearest(word, known); ok {
		return "did you mean " + near + "?"
	}
	return lead + strings.Join(known, ", ")
}

// Distance returns the number of letters to insert, delete, change or swap with their neighbour to
// turn a into b.
func Distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			n := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				n = min(n, rows[i-2][j-2]+1)
			}
			rows[i][j] = n
		}
	}
	return rows[len(a)][len(b)]
}
