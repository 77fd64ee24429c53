package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// The text of a refresh token is refreshPrefix, then the base64url of its 32 bytes and their
// CRC-32. These 36 bytes are 48 characters without padding and without an unused bit, so a token
// has one spelling. The prefix is for scanners that look for leaked secrets. The checksum detects
// typing errors without a query.
const (
	refreshPrefix     = "rt1_"
	refreshTextLength = len(refreshPrefix) + 48
)

// refreshSecret has the 32 bytes of a refresh token.
type refreshSecret [32]byte

func newRefreshSecret() (s refreshSecret) {
	_, _ = rand.Read(s[:]) // never fails: it ends the program instead
	return s
}

// parseRefreshSecret parses the text of a token.
func parseRefreshSecret(text string) (s refreshSecret, ok bool) {
	body, ok := strings.CutPrefix(text, refreshPrefix)
	if !ok || len(text) != refreshTextLength {
		return s, false
	}
	var b [36]byte
	// The decoder skips line ends. A short result shows that there were some.
	if n, err := base64.RawURLEncoding.Decode(b[:], []byte(body)); err != nil || n != len(b) {
		return s, false
	}
	copy(s[:], b[:32])
	return s, crc32.ChecksumIEEE(s[:]) == binary.BigEndian.Uint32(b[32:])
}

func (s refreshSecret) text() Secret {
	b := binary.BigEndian.AppendUint32(s[:], crc32.ChecksumIEEE(s[:]))
	return NewSecret(refreshPrefix + base64.RawURLEncoding.EncodeToString(b))
}

func (s refreshSecret) hash() Hash { return sha256.Sum256(s[:]) }
