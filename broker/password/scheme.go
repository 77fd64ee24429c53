package password

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
)

// ErrHash is wrapped by all errors about a stored hash that cannot be checked: an unknown scheme,
// an invalid row, or a cost above the limits. Errors never contain the hash.
var ErrHash = errors.New("no password hash that can be checked")

func wrong(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrHash, fmt.Errorf(format, args...))
}

// Default cost of a new hash, and the lengths of its parts in bytes.
const (
	defaultMemory  = 19 << 10 // KiB
	defaultTime    = 2
	defaultThreads = 1
	sumLength      = 32
	saltLength     = 16
)

// Limits of imported hashes.
const (
	maxMemory  = 128 << 20 // bytes
	maxArgon   = 1 << 30   // bytes of all passes: about 0.6 s
	maxThreads = 8
	maxSum     = 64
	maxSalt    = 64
	maxStored  = 512 // bytes of the stored text
)

func (c Cost) orDefault() Cost {
	if c.Memory == 0 {
		c.Memory = defaultMemory
	}
	if c.Time == 0 {
		c.Time = defaultTime
	}
	if c.Threads == 0 {
		c.Threads = defaultThreads
	}
	return c
}

func (c Cost) work() uint64 { return uint64(c.Memory) << 10 * uint64(c.Time) }

// parsed is a parsed hash.
type parsed struct {
	scheme  string
	old     bool   // must be replaced
	memory  uint64 // bytes of memory to compute it
	work    uint64 // bytes of all passes
	sum     []byte
	compute func(password string) []byte
}

func (h *parsed) matches(password string) bool {
	return subtle.ConstantTimeCompare(h.compute(password), h.sum) == 1
}

// parse parses a stored hash of any scheme.
func (c *Checker) parse(text string) (parsed, error) {
	if len(text) > maxStored {
		return parsed{}, wrong("%d bytes are too long for one", len(text))
	}
	// Django puts the scheme before the hash of the scheme's library.
	if inner, ok := strings.CutPrefix(text, "argon2$argon2id$"); ok {
		text = "$argon2id$" + inner
	} else if inner, ok := strings.CutPrefix(text, "bcrypt$"); ok {
		text = inner
	}
	switch {
	case strings.HasPrefix(text, "$argon2id$"):
		return c.parseArgon(text)
	case strings.HasPrefix(text, "$2"), strings.HasPrefix(text, "bcrypt_sha256$"):
		return parseBcrypt(text)
	case strings.HasPrefix(text, "$scrypt$"), strings.HasPrefix(text, "scrypt$"), strings.HasPrefix(text, "scrypt:"):
		return parseScrypt(text)
	case strings.HasPrefix(text, "$pbkdf2-"), strings.HasPrefix(text, "pbkdf2_"), strings.HasPrefix(text, "pbkdf2:"):
		return parsePBKDF2(text)
	}
	return parsed{}, wrong("it is neither argon2id, bcrypt, scrypt nor PBKDF2 in a form known here")
}

// pepper is a secret that is mixed into passwords.
type pepper struct {
	id  string // stored in the hash
	key []byte
}

func newPepper(key []byte) pepper {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("rueda pepper id 1"))
	return pepper{id: base64.RawStdEncoding.EncodeToString(mac.Sum(nil)[:9]), key: append([]byte(nil), key...)}
}

func (p *pepper) mix(password string) []byte {
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(password))
	return mac.Sum(nil)
}

// argon is an argon2id hash with its parameters.
type argon struct {
	Cost
	pepper *pepper
	salt   []byte
	sum    []byte
}

func (a *argon) compute(password string) []byte {
	secret := []byte(password)
	if a.pepper != nil {
		secret = a.pepper.mix(password)
	}
	return argon2.IDKey(secret, a.salt, a.Time, a.Memory, a.Threads, uint32(len(a.sum)))
}

func (a *argon) hash() parsed {
	return parsed{scheme: "argon2id", memory: uint64(a.Memory) << 10, work: a.work(), sum: a.sum, compute: a.compute}
}

// String returns the PHC form: $argon2id$v=19$m=19456,t=2,p=1$salt$sum.
func (a *argon) String() string {
	b64, keyID := base64.RawStdEncoding, ""
	if a.pepper != nil {
		keyID = ",keyid=" + a.pepper.id
	}
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d%s$%s$%s", a.Memory, a.Time, a.Threads, keyID, b64.EncodeToString(a.salt), b64.EncodeToString(a.sum))
}

// parseArgon parses the PHC form.
func (c *Checker) parseArgon(text string) (parsed, error) {
	part := strings.Split(text, "$")
	if len(part) != 6 || part[2] != "v=19" {
		return parsed{}, wrong("argon2id is not in PHC form of version 19")
	}
	var a argon
	params, keyID, peppered := strings.Cut(part[3], ",keyid=")
	n, err := numbers(params, "m", "t", "p")
	if err != nil {
		return parsed{}, err
	}
	if n[2] > maxThreads || n[0] > maxMemory>>10 || n[1] > maxArgon>>10 || n[0]*n[1] > maxArgon>>10 {
		return parsed{}, wrong("it costs more than allowed here (%s)", params)
	}
	a.Cost = Cost{Memory: uint32(n[0]), Time: uint32(n[1]), Threads: uint8(n[2])}
	if a.salt, a.sum, err = saltAndSum(part[4], part[5]); err != nil {
		return parsed{}, err
	}
	if peppered {
		for i := range c.peppers {
			if c.peppers[i].id == keyID {
				a.pepper = &c.peppers[i]
			}
		}
		if a.pepper == nil {
			return parsed{}, wrong("it was made with a pepper that is not there")
		}
	}
	if a.String() != text {
		return parsed{}, wrong("it is not in the one form it has")
	}
	h := a.hash()
	h.old = a.work() < c.cost.work() || len(c.peppers) > 0 && a.pepper != &c.peppers[0]
	return h, nil
}

// numbers parses name=1,name=2 in this order; zero is invalid.
func numbers(text string, names ...string) ([]uint64, error) {
	fields := strings.Split(text, ",")
	if len(fields) != len(names) {
		return nil, wrong("it has not the parameters %s", strings.Join(names, ", "))
	}
	list := make([]uint64, len(names))
	for i, name := range names {
		value, ok := strings.CutPrefix(fields[i], name+"=")
		if !ok {
			return nil, wrong("it has not the parameters %s", strings.Join(names, ", "))
		}
		var err error
		if list[i], err = number(value); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func number(text string) (uint64, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, wrong("a parameter is not a whole number above zero, or too large")
	}
	return n, nil
}

// saltAndSum decodes the last two parts of the PHC form.
func saltAndSum(salt, sum string) (s, h []byte, err error) {
	if s, err = decode64(salt); err != nil || len(s) < 8 || len(s) > maxSalt {
		return nil, nil, wrong("its salt is not base64 of 8 to %d bytes", maxSalt)
	}
	h, err = checkSum(decode64(sum))
	return s, h, err
}

// decode64 decodes base64 with or without padding, and passlib's alphabet with . for +.
func decode64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") { // which the decoder would ignore
		return nil, wrong("it has a line end")
	}
	return base64.RawStdEncoding.Strict().DecodeString(strings.ReplaceAll(strings.TrimRight(text, "="), ".", "+"))
}

func checkSum(sum []byte, err error) ([]byte, error) {
	if err != nil || len(sum) < 16 || len(sum) > maxSum {
		return nil, wrong("its sum is not of 16 to %d bytes", maxSum)
	}
	return sum, nil
}
