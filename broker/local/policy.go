package local

import (
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

// common has the most common passwords, one on each line, in lower case.
//
//go:embed common.txt
var common string

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
	case isCommon(username, s):
		return badPassword("is one of those that are tried first: it is common, of few characters, or the username")
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

// isCommon reports whether a password is a common one, with or without usual suffixes, equals the
// username, or has at most two different characters.
func isCommon(username, s string) bool {
	s = strings.ToLower(s)
	bare := strings.TrimRight(s, "0123456789!.,?*#$@-_")
	if name := strings.ToLower(username); s == name || len(bare) > 0 && bare == name {
		return true
	}
	for line := range strings.Lines(common) {
		if line = strings.TrimSpace(line); line == s || line == bare {
			return true
		}
	}
	seen := map[rune]bool{}
	for _, r := range s {
		seen[r] = true
	}
	return len(seen) <= 2
}
