package auth

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
)

// The text of a refresh token is a prefix, and then the base64url of its content and the CRC-32 of
// the content. Both kinds have a multiple of three bytes. There is no padding and no unused bit, so
// a token has only one spelling. The prefix helps scanners that look for leaked secrets. The
// checksum refuses a typing error without a query.
const (
	firstPrefix     = "rt1_" // the first token of a login: random bytes and their MAC
	successorPrefix = "rt2_" // the answer to a refresh

	firstSize     = 32
	firstMAC      = 12 // of firstSize
	successorSize = signedSize + sha256.Size
	signedSize    = sha256.Size + 8 + 8 + nonceSize // parent, issued, expires, nonce
	nonceSize     = 9
	nonceMAC      = 4 // of nonceSize: 40 random bits remain
	checksumSize  = 4
)

// refreshToken is a refresh token as a client holds it. Rows of a Store contain only its hash.
//
// A successor contains the hash of its parent, its times, a nonce and a MAC of these under the
// family's secret. It needs no row before it is used, although each refresh answers with another
// one.
//
// Both kinds also have a short MAC under the key of the installation. It shows without a query that
// a token is not invented. Tokens of earlier programs have random bytes there, so that a wrong MAC
// refuses nothing.
type refreshToken []byte

// newFirstToken returns the first token of a login.
func newFirstToken(keyed keyedHash) refreshToken {
	t := make(refreshToken, firstSize)
	_, _ = rand.Read(t[:firstSize-firstMAC]) // never fails: it ends the program instead
	t.setMAC(keyed)
	return t
}

// shortMAC returns the part of t that is the short MAC, and the bytes before it.
func (t refreshToken) shortMAC() (signed, mac []byte) {
	end, size := firstSize, firstMAC
	if t.isSuccessor() {
		end, size = signedSize, nonceMAC
	}
	return t[:end-size], t[end-size : end]
}

func (t refreshToken) setMAC(keyed keyedHash) {
	signed, mac := t.shortMAC()
	h := keyed("refresh token", string(signed))
	copy(mac, h[:])
}

// minted reports whether the short MAC is right.
func (t refreshToken) minted(keyed keyedHash) bool {
	signed, mac := t.shortMAC()
	h := keyed("refresh token", string(signed))
	return hmac.Equal(mac, h[:len(mac)])
}

// newSuccessor returns a successor of the token with the hash parent. It reports false if the keys
// have no secret for the family.
func newSuccessor(keys *keyset.Set, keyed keyedHash, f *Family, parent Hash, issued, expires time.Time) (refreshToken, bool) {
	t := make(refreshToken, successorSize)
	copy(t, parent[:])
	binary.BigEndian.PutUint64(t[sha256.Size:], uint64(issued.UnixNano()))
	binary.BigEndian.PutUint64(t[sha256.Size+8:], uint64(expires.UnixNano()))
	_, _ = rand.Read(t[signedSize-nonceSize : signedSize-nonceMAC])
	t.setMAC(keyed)
	mac, ok := keys.Derive(f.KeyID, f.Seed, t[:signedSize])
	copy(t[signedSize:], mac[:])
	return t, ok
}

// parseRefreshToken reads the text of a token. It does not check the MAC of a successor.
func parseRefreshToken(text string) (refreshToken, bool) {
	size := firstSize
	body, ok := strings.CutPrefix(text, firstPrefix)
	if !ok {
		size = successorSize
		body, ok = strings.CutPrefix(text, successorPrefix)
	}
	if !ok || len(body) != base64.RawURLEncoding.EncodedLen(size+checksumSize) {
		return nil, false
	}
	// The decoder skips line ends, which make the result shorter.
	b, err := base64.RawURLEncoding.DecodeString(body)
	if err != nil || len(b) != size+checksumSize {
		return nil, false
	}
	return b[:size], crc32.ChecksumIEEE(b[:size]) == binary.BigEndian.Uint32(b[size:])
}

func (t refreshToken) text() Secret {
	prefix := firstPrefix
	if t.isSuccessor() {
		prefix = successorPrefix
	}
	b := binary.BigEndian.AppendUint32(append([]byte(nil), t...), crc32.ChecksumIEEE(t))
	return NewSecret(prefix + base64.RawURLEncoding.EncodeToString(b))
}

func (t refreshToken) hash() Hash { return sha256.Sum256(t) }

func (t refreshToken) isSuccessor() bool { return len(t) == successorSize }

// parent returns the hash of the token that t succeeds, or zero for the first token of a login.
func (t refreshToken) parent() (h Hash) {
	if t.isSuccessor() {
		copy(h[:], t)
	}
	return h
}

// times returns when a successor was issued and when it expires.
func (t refreshToken) times() (issued, expires time.Time) {
	at := func(i int) time.Time { return time.Unix(0, int64(binary.BigEndian.Uint64(t[i:]))) }
	return at(sha256.Size), at(sha256.Size + 8)
}

// genuine reports whether the MAC of a successor is right. It reports known = false if the keys
// have no secret for the family.
func (t refreshToken) genuine(keys *keyset.Set, f *Family) (genuine, known bool) {
	mac, known := keys.Derive(f.KeyID, f.Seed, t[:signedSize])
	return known && hmac.Equal(mac[:], t[signedSize:]), known
}
