package local

import (
	"errors"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// CheckNewUsername returns what is wrong with the name of a new user. It refuses names that look
// like another one: with invisible or compatibility characters, spaces at an end, or letters of
// several scripts. Names from before keep working.
func CheckNewUsername(s string) error {
	if err := checkUsername(s); err != nil {
		return err
	}
	switch {
	case strings.TrimSpace(s) != s:
		return errors.New("username must not begin or end with a space")
	case strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }):
		return errors.New("username must not have invisible characters")
	case !norm.NFKC.IsNormalString(s):
		return errors.New("username must be in the Unicode form NFKC: without full-width or separately accented characters")
	case len(scripts(s)) > 1:
		return errors.New("username must not mix letters of several scripts, such as Latin and Cyrillic")
	}
	return nil
}

// scripts returns the scripts of the letters of a text. Chinese, Japanese and Korean count as one.
func scripts(s string) map[string]bool {
	found := map[string]bool{}
	for _, r := range s {
		if !unicode.IsLetter(r) || unicode.In(r, unicode.Common, unicode.Inherited) {
			continue
		}
		switch {
		case unicode.In(r, unicode.Latin):
			found["Latin"] = true
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo):
			found["Han"] = true
		default:
			for name, table := range unicode.Scripts {
				if unicode.Is(table, r) {
					found[name] = true
				}
			}
		}
	}
	return found
}

// Twins returns those of the given names that look like another one of them.
func Twins(names []string) map[string]bool {
	first, twins := map[string]string{}, map[string]bool{}
	for _, name := range names {
		seen := look(name)
		other, found := first[seen]
		if !found {
			first[seen] = name
		} else if other != name {
			twins[other], twins[name] = true, true
		}
	}
	return twins
}

// alike has letters that look like Latin ones, each before the Latin one.
const alike = "\u0430a\u0432b\u0435e\u043ak\u043cm\u043dh\u043eo\u0440p\u0441c\u0442t\u0443y\u0445x\u0455s\u0456i\u0458j\u0501d\u051bq\u051dw" +
	"\u03b1a\u03b5e\u03b9i\u03bak\u03bdv\u03bfo\u03c1p\u03c4t\u03c5u\u03c7x\u0131i0o1l"

// look returns what a name looks like: without case, invisible characters and spaces at the ends,
// and with Latin letters in place of those that look like them.
func look(name string) string {
	latin := map[rune]rune{}
	letters := []rune(alike)
	for i := 0; i < len(letters); i += 2 {
		latin[letters[i]] = letters[i+1]
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		if l, ok := latin[r]; ok {
			return l
		}
		return r
	}, strings.ToLower(norm.NFKC.String(name))))
}
