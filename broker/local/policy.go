package local

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/password"
)

// Limits of names and passwords in bytes; DefaultMinPassword is in characters.
const (
	DefaultMinPassword = 10
	MaxPassword        = password.MaxLength
	MaxUsername        = 128
)

// common has the 3,000 most common passwords of at least eight characters, and common words that
// are too short for a password alone. It is compressed, with one on each line, in lower case.
//
//go:embed common/passwords.txt.gz
var common []byte

func checkUsername(s string) error {
	switch {
	case s == "" || len(s) > MaxUsername:
		return fmt.Errorf("username must have 1 to %d bytes", MaxUsername)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("username must be UTF-8 without control characters")
	}
	return nil
}

// CheckPassword implements broker.SelfService.
func (b *Base) CheckPassword(username, password string) error {
	return b.checkPassword(username, password, false)
}

// checkPassword implements the policy: a minimum length, and no password that is common or known
// from a breach. If the file of breached passwords cannot be read, no password is accepted.
func (b *Base) checkPassword(username, s string, weak bool) error {
	switch {
	case s == "" || len(s) > MaxPassword || !utf8.ValidString(s):
		return badPassword("must have 1 to %d bytes of UTF-8", MaxPassword)
	case weak:
		return nil
	case utf8.RuneCountInString(s) < b.min:
		return badPassword("must have at least %d characters", b.min)
	case b.isObvious(username, s):
		return badPassword("is one of those that are tried first: it is common, of few characters, the username, or the name of the service")
	case b.breached == nil:
		return nil
	}
	switch found, err := b.breached.Has(s); {
	case err != nil:
		return fmt.Errorf("%w: check a new password: %w", broker.ErrUnavailable, err)
	case found:
		return badPassword("is known from a breach of another system: people who attack accounts try it")
	}
	return nil
}

func badPassword(format string, args ...any) error {
	return &broker.PasswordError{Problem: fmt.Sprintf(format, args...)}
}

// isObvious reports whether a password is a common one, with or without usual suffixes, or equals
// the username. It also reports those of at most two different characters, and those with fewer
// than four letters besides the username and the names of the service.
func (b *Base) isObvious(username, s string) bool {
	s, username = strings.ToLower(s), strings.ToLower(username)
	bare := strings.TrimRight(s, "0123456789!.,?*#$@-_")
	if s == username || bare != "" && bare == username || isCommon(s, bare) {
		return true
	}
	rest := s
	for _, word := range append(b.words[:len(b.words):len(b.words)], username) {
		if len(word) >= leastWord {
			rest = strings.ReplaceAll(rest, word, "")
		}
	}
	letters, seen := 0, map[rune]bool{}
	for _, r := range rest {
		if unicode.IsLetter(r) {
			letters++
		}
	}
	for _, r := range s {
		seen[r] = true
	}
	return rest != s && letters < leastLetters || len(seen) <= 2
}

// Bounds of isObvious: a name of fewer bytes is part of too many words, and a password with a name
// needs so many other letters.
const (
	leastWord    = 3
	leastLetters = 4
)

// isCommon reports whether one of two texts is a common password.
func isCommon(s, bare string) bool {
	list, err := gzip.NewReader(bytes.NewReader(common))
	if err != nil {
		panic(err) // the list is part of the program
	}
	for lines := bufio.NewScanner(list); lines.Scan(); {
		if line := lines.Text(); line == s || line == bare {
			return true
		}
	}
	return false
}
