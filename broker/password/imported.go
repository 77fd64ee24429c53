package password

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"math/bits"
	"strings"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/scrypt"
)

// Limits of imported schemes.
const (
	maxBcryptCost   = 14      // about a second
	maxBcryptLength = 72      // bytes of a password that bcrypt looks at
	minRounds       = 1000    // of PBKDF2
	maxRounds       = 4 << 20 // times blocks of the sum: about a second
	minScryptN      = 1 << 10
	maxScryptP      = 16
	maxScrypt       = 256 << 20 // bytes of all p: about 0.7 s
)

// parseBcrypt parses $2a$, $2b$, $2y$ and Django's combination with SHA-256. $2x$ comes from a
// library that mishandled bytes beyond ASCII.
func parseBcrypt(text string) (parsed, error) {
	inner, hashedFirst := strings.CutPrefix(text, "bcrypt_sha256$")
	if len(inner) != 60 || !strings.Contains("$2a$ $2b$ $2y$", inner[:4]) || inner[6] != '$' || strings.Trim(inner[7:], bcryptAlphabet) != "" {
		return parsed{}, wrong("it is not bcrypt of 60 characters and version 2a, 2b or 2y")
	}
	cost, err := bcrypt.Cost([]byte(inner))
	if err != nil || cost < bcrypt.MinCost || cost > maxBcryptCost {
		return parsed{}, wrong("its cost is not from %d to %d", bcrypt.MinCost, maxBcryptCost)
	}
	compute := func(password string) []byte {
		secret := []byte(password)
		if hashedFirst {
			sum := sha256.Sum256(secret)
			secret = []byte(hex.EncodeToString(sum[:]))
		}
		long := len(secret) > maxBcryptLength
		if long {
			secret = secret[:maxBcryptLength] // for equal timing
		}
		if bcrypt.CompareHashAndPassword([]byte(inner), secret) == nil && !long {
			return []byte{1}
		}
		return []byte{0}
	}
	return parsed{scheme: "bcrypt", old: true, memory: 4 << 10, work: 8 << 10 << cost, sum: []byte{1}, compute: compute}, nil
}

const bcryptAlphabet = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// parseScrypt parses the three forms of scrypt.
func parseScrypt(text string) (parsed, error) {
	var n, r, p uint64
	var salt, sum []byte
	var err error
	part := strings.Split(text, "$")
	switch {
	case len(part) == 5 && part[0] == "":
		var params []uint64
		if params, err = numbers(part[2], "ln", "r", "p"); err != nil {
			return parsed{}, err
		}
		if params[0] > 30 {
			return parsed{}, wrong("it costs more than allowed here (%s)", part[2])
		}
		n, r, p = 1<<params[0], params[1], params[2]
		salt, sum, err = saltAndSum(part[3], part[4])
	case len(part) == 6 && part[0] == "scrypt":
		n, r, p, err = numbers3(part[1], part[3], part[4])
		salt = []byte(part[2])
		if err == nil {
			sum, err = checkSum(decode64(part[5]))
		}
	case len(part) == 3 && strings.Count(part[0], ":") == 3:
		params := strings.Split(part[0], ":")
		n, r, p, err = numbers3(params[1], params[2], params[3])
		salt = []byte(part[1])
		if err == nil {
			sum, err = checkSum(hex.DecodeString(part[2]))
		}
	default:
		err = wrong("scrypt is in none of the forms known here")
	}
	if err != nil {
		return parsed{}, err
	}
	if err := checkSalt(salt); err != nil {
		return parsed{}, err
	}
	switch {
	case n < minScryptN || bits.OnesCount64(n) != 1:
		return parsed{}, wrong("its N is no power of two from %d", minScryptN)
	case n > maxMemory/128 || r > maxMemory/128/n || p > maxScryptP || 128*n*r*p > maxScrypt:
		return parsed{}, wrong("it costs more than allowed here (N=%d, r=%d, p=%d)", n, r, p)
	}
	compute := func(password string) []byte {
		out, err := scrypt.Key([]byte(password), salt, int(n), int(r), int(p), len(sum))
		if err != nil {
			return nil // matches no password
		}
		return out
	}
	return parsed{scheme: "scrypt", old: true, memory: 128 * n * r, work: 256 * n * r * p, sum: sum, compute: compute}, nil
}

func numbers3(a, b, c string) (x, y, z uint64, err error) {
	var list [3]uint64
	for i, text := range [...]string{a, b, c} {
		if list[i], err = number(text); err != nil {
			return 0, 0, 0, err
		}
	}
	return list[0], list[1], list[2], nil
}

// checkSalt limits the length of a raw salt.
func checkSalt(salt []byte) error {
	if len(salt) < 4 || len(salt) > maxSalt {
		return wrong("its salt has not 4 to %d bytes", maxSalt)
	}
	return nil
}

// parsePBKDF2 parses the three forms of PBKDF2.
func parsePBKDF2(text string) (parsed, error) {
	part := strings.Split(text, "$")
	var digest, rounds string
	var salt, sum []byte
	var err error
	switch {
	case len(part) == 5 && part[0] == "":
		digest, rounds = strings.TrimPrefix(part[1], "pbkdf2-"), strings.TrimPrefix(part[2], "i=")
		salt, sum, err = saltAndSum(part[3], part[4])
	case len(part) == 4:
		digest, rounds, salt = strings.TrimPrefix(part[0], "pbkdf2_"), part[1], []byte(part[2])
		sum, err = checkSum(decode64(part[3]))
	case len(part) == 3 && strings.Count(part[0], ":") == 2:
		params := strings.Split(part[0], ":")
		digest, rounds, salt = params[1], params[2], []byte(part[1])
		sum, err = checkSum(hex.DecodeString(part[2]))
	default:
		err = wrong("PBKDF2 is in none of the forms known here")
	}
	if err != nil {
		return parsed{}, err
	}
	if err := checkSalt(salt); err != nil {
		return parsed{}, err
	}
	newHash, ok := map[string]func() hash.Hash{"sha256": sha256.New, "sha512": sha512.New}[digest]
	if !ok {
		return parsed{}, wrong("its digest is neither sha256 nor sha512")
	}
	n, err := number(rounds)
	if err != nil {
		return parsed{}, err
	}
	h := newHash()
	blocks := uint64((len(sum) + h.Size() - 1) / h.Size())
	if n < minRounds || n*blocks > maxRounds {
		return parsed{}, wrong("its rounds are not from %d to %d", minRounds, maxRounds)
	}
	compute := func(password string) []byte {
		out, err := pbkdf2.Key(newHash, password, salt, int(n), len(sum))
		if err != nil {
			return nil // matches no password
		}
		return out
	}
	return parsed{scheme: "pbkdf2-" + digest, old: true, memory: 1 << 10, work: 2 * n * blocks * uint64(h.BlockSize()), sum: sum, compute: compute}, nil
}
