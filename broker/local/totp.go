package local

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// One-time passwords (RFC 6238): SHA-1, six digits, steps of 30 seconds, as in all authenticator
// apps. The weaknesses of SHA-1 do not affect HMAC. A clock may be one step off.
const (
	otpDigits = 6
	otpStep   = 30 // seconds
	otpDrift  = 1  // steps
	otpSecret = 20 // bytes, as RFC 4226 recommends
	maxOTP    = 64 // bytes that a client may send
)

// Recovery codes have 120 bits: too many to guess, also with a copy of the database, so a plain
// hash is enough. Codes of earlier versions have 80 bits.
const (
	recoveryCodes    = 10
	recoveryBytes    = 15
	recoveryBytesOld = 10
)

// b32 returns the encoding of secrets and recovery codes.
func b32() *base32.Encoding { return base32.StdEncoding.WithPadding(base32.NoPadding) }

// totp returns the one-time password of a step.
func totp(secret []byte, step int64) string {
	mac := hmac.New(sha1.New, secret)
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step))
	mac.Write(counter[:])
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 0xf
	n := binary.BigEndian.Uint32(sum[at:]) & 0x7fffffff
	return fmt.Sprintf("%0*d", otpDigits, n%1_000_000)
}

// totpStep returns the step near now with this one-time password. It computes all steps.
func totpStep(secret []byte, code string, now time.Time) (step int64, ok bool) {
	at := now.Unix() / otpStep
	for s := at - otpDrift; s <= at+otpDrift; s++ {
		if subtle.ConstantTimeCompare([]byte(totp(secret, s)), []byte(code)) == 1 {
			step, ok = s, true
		}
	}
	return step, ok
}

// plainOTP removes characters that people type between digits and letters.
func plainOTP(s string) string {
	return strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(s))
}

// newRecoveryCode returns a code in six groups: ABCD-EFGH-IJKL-MNOP-QRST-UVWX.
func newRecoveryCode() string {
	b := make([]byte, recoveryBytes)
	_, _ = rand.Read(b)
	var groups []string
	for group := range slices.Chunk([]byte(b32().EncodeToString(b)), 4) {
		groups = append(groups, string(group))
	}
	return strings.Join(groups, "-")
}

func newRecoveryCodes() (codes []string) {
	for range recoveryCodes {
		codes = append(codes, newRecoveryCode())
	}
	return codes
}

// hashRecovery returns the stored hash of a recovery code.
func hashRecovery(code string) string {
	sum := sha256.Sum256([]byte(plainOTP(code)))
	return hex.EncodeToString(sum[:])
}

// otpURL returns the URL of a secret for authenticator apps.
func otpURL(issuer, username string, secret []byte) string {
	q := url.Values{"secret": {b32().EncodeToString(secret)}, "issuer": {issuer}, "algorithm": {"SHA1"}, "digits": {"6"}, "period": {"30"}}
	// Apps do not decode + as a space, so use %20.
	return "otpauth://totp/" + url.PathEscape(issuer) + ":" + url.PathEscape(username) + "?" + strings.ReplaceAll(q.Encode(), "+", "%20")
}

// factors encrypts the secrets of second factors.
type factors struct {
	aead cipher.AEAD
}

// newFactors derives its key from the secret, which has other uses too.
func newFactors(secret []byte) (*factors, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "rueda second factors 1", 32)
	if err != nil {
		return nil, fmt.Errorf("derive the key of second factors: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("derive the key of second factors: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("derive the key of second factors: %w", err)
	}
	return &factors{aead: aead}, nil
}

// encrypt encrypts a secret for one user; in another user's row it is invalid.
func (f *factors) encrypt(secret []byte, userID string) string {
	return base64.RawStdEncoding.EncodeToString(f.aead.Seal(nil, nil, secret, []byte(userID)))
}

func (f *factors) decrypt(encrypted, userID string) ([]byte, error) {
	if f == nil {
		return nil, ErrNoSecret
	}
	b, err := base64.RawStdEncoding.DecodeString(encrypted)
	if err == nil {
		b, err = f.aead.Open(nil, nil, b, []byte(userID))
	}
	if err != nil {
		return nil, errors.New("it was encrypted with another key, or is damaged")
	}
	return b, nil
}
