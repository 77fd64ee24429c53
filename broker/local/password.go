package local

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of what Add and SetPassword take, in bytes; MinPassword in characters.
const (
	MinPassword = 8
	MaxPassword = 1024
	MaxUsername = 128
)

// The cost of a hash: the first choice of OWASP's password storage guide, 19 MiB
// and two passes; 22 ms on the machine it was chosen on.
const (
	hashMemory  = 19 << 10 // KiB
	hashTime    = 2
	hashThreads = 1
	hashLength  = 32
	saltLength  = 16
)

// Ceilings for hashes that were made elsewhere: a row must not be able to take
// the memory of the gateway, nor a core of it for seconds.
const (
	maxHashMemory  = 64 << 10 // KiB
	maxHashTime    = 10
	maxHashThreads = 4
)

// kdf is argon2.IDKey.
type kdf func(password, salt []byte, time, memory uint32, threads uint8, keyLen uint32) []byte

// passwordHash is an argon2id hash with its parameters.
type passwordHash struct {
	memory  uint32 // KiB
	time    uint32
	threads uint8
	salt    []byte
	sum     []byte
}

func newHash(f kdf, password string) passwordHash {
	h := passwordHash{memory: hashMemory, time: hashTime, threads: hashThreads, salt: make([]byte, saltLength)}
	_, _ = rand.Read(h.salt)
	h.sum = f([]byte(password), h.salt, h.time, h.memory, h.threads, hashLength)
	return h
}

// dummyHash takes as long to check as any other and matches no password.
func dummyHash() passwordHash {
	return passwordHash{memory: hashMemory, time: hashTime, threads: hashThreads, salt: make([]byte, saltLength), sum: make([]byte, hashLength)}
}

func (h passwordHash) matches(f kdf, password string) bool {
	sum := f([]byte(password), h.salt, h.time, h.memory, h.threads, uint32(len(h.sum)))
	return subtle.ConstantTimeCompare(sum, h.sum) == 1
}

// String is the PHC form: $argon2id$v=19$m=19456,t=2,p=1$salt$hash.
func (h passwordHash) String() string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$%s$%s", h.memory, h.time, h.threads, b64.EncodeToString(h.salt), b64.EncodeToString(h.sum))
}

// parseHash reads the PHC form.
func parseHash(text string) (h passwordHash, err error) {
	part := strings.Split(text, "$")
	if len(part) != 6 || part[0] != "" || part[1] != "argon2id" || part[2] != "v=19" {
		return h, errors.New("not an argon2id hash in PHC form")
	}
	if _, err := fmt.Sscanf(part[3], "m=%d,t=%d,p=%d", &h.memory, &h.time, &h.threads); err != nil {
		return h, errors.New("hash has no parameters m, t, p")
	}
	switch {
	case h.memory > maxHashMemory || h.time > maxHashTime || h.threads > maxHashThreads:
		return h, fmt.Errorf("hash costs more than allowed here (%s)", part[3])
	case h.time == 0 || h.threads == 0:
		return h, errors.New("hash has a parameter of zero")
	}
	b64 := base64.RawStdEncoding.Strict()
	if h.salt, err = b64.DecodeString(part[4]); err != nil || len(h.salt) < 8 || len(h.salt) > 64 {
		return h, errors.New("hash has a bad salt")
	}
	if h.sum, err = b64.DecodeString(part[5]); err != nil || len(h.sum) < 16 || len(h.sum) > 64 {
		return h, errors.New("hash has a bad sum")
	}
	if h.String() != text {
		return h, errors.New("hash is not in the one form it has")
	}
	return h, nil
}

func checkUsername(s string) error {
	switch {
	case s == "" || len(s) > MaxUsername:
		return fmt.Errorf("username must have 1 to %d bytes", MaxUsername)
	case !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl):
		return errors.New("username must be UTF-8 without control characters")
	}
	return nil
}

// checkPassword is the policy: a length, no rules of composition, nothing trimmed.
func checkPassword(s string, weak bool) error {
	switch {
	case s == "" || len(s) > MaxPassword || !utf8.ValidString(s):
		return fmt.Errorf("password must have 1 to %d bytes of UTF-8", MaxPassword)
	case utf8.RuneCountInString(s) < MinPassword && !weak:
		return fmt.Errorf("password must have at least %d characters", MinPassword)
	}
	return nil
}
