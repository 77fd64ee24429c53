package config

import (
	"slices"
	"strings"

	"github.com/ruedahq/rueda/broker/password"
)

// Bounds of what a configuration may ask of new passwords, and of the secrets mixed into them.
const (
	leastMinPassword = 8
	mostMinPassword  = 64
	leastPepper      = 16 // bytes
	leastWord        = 3  // bytes of a context word: a shorter one is part of too many words
	mostWords        = 100
	maxIssuer        = 64 // bytes of the name in authenticator apps
)

// breached returns the file of breached passwords.
func (c *mainFile) breached(doc *document) string {
	file := doc.relative(c.Auth.Breached)
	if file == "" {
		return ""
	}
	if _, err := password.OpenBreached(file); err != nil {
		doc.wrong("auth.breached_passwords", "%v", err)
	}
	return file
}

// peppers reads the secrets that are mixed into passwords, the present one first.
func (c *mainFile) peppers(doc *document) (list [][]byte) {
	a := &c.Auth
	if n := a.MinPassword; n != 0 && (n < leastMinPassword || n > mostMinPassword) {
		doc.wrong("auth.min_password", "must be from %d to %d", leastMinPassword, mostMinPassword)
	}
	if len(a.ContextWords) > mostWords || slices.ContainsFunc(a.ContextWords, func(w string) bool { return len(w) < leastWord || len(w) > maxIssuer }) {
		doc.wrong("auth.context_words", "must have at most %d words of %d to %d bytes", mostWords, leastWord, maxIssuer)
	}
	if strings.Contains(a.OTPIssuer, ":") || len(a.OTPIssuer) > maxIssuer {
		doc.wrong("auth.otp_issuer", "must have at most %d bytes and no colon", maxIssuer)
	}
	now := secretSource{a.PepperFile, a.PepperEnv, a.PepperCommand}
	old := secretSource{a.OldPepperFile, a.OldPepperEnv, a.OldPepperCommand}
	if old.exists() && !now.exists() {
		doc.wrong("auth.old_pepper_file", "goes with pepper_file: hashes made with the old one are replaced by ones made with the new one")
		return nil
	}
	for _, p := range []struct {
		name string
		from secretSource
	}{{"pepper", now}, {"old_pepper", old}} {
		if !p.from.exists() {
			continue
		}
		secret := doc.secret("auth", p.name, p.from)
		if secret != "" && len(secret) < leastPepper {
			doc.wrong("auth."+p.name+"_file", "must have %d bytes at least, such as those of: openssl rand -base64 32", leastPepper)
		}
		list = append(list, []byte(secret))
	}
	return list
}
