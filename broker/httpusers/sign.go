package httpusers

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Header fields of a signed request.
const (
	HeaderTimestamp = "X-Rueda-Timestamp"
	HeaderNonce     = "X-Rueda-Nonce"
	HeaderSignature = "X-Rueda-Signature"
)

// MinSecret is the minimum length of a secret, in bytes.
const MinSecret = 32

const (
	signaturePrefix = "v1="
	nonceSize       = 16 // bytes
)

// Window is the maximum difference between the time of a request and the service's clock.
const Window = time.Minute

// Sign returns the signature of a request. path is the path of the request; timestamp and nonce are
// the values in its header.
func Sign(secret []byte, method, path, timestamp, nonce string, body []byte) string {
	sum := sha256.Sum256(body)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(strings.Join([]string{"v1", method, path, timestamp, nonce, hex.EncodeToString(sum[:])}, "\n")))
	return signaturePrefix + hex.EncodeToString(mac.Sum(nil))
}

// Verify checks the signature and time of a request and returns its nonce. The caller must check
// that the nonce was not used within the last two Windows.
func Verify(secret []byte, r *http.Request, body []byte, now time.Time) (nonce string, err error) {
	timestamp, nonce := r.Header.Get(HeaderTimestamp), r.Header.Get(HeaderNonce)
	want := Sign(secret, r.Method, r.URL.EscapedPath(), timestamp, nonce, body)
	if !hmac.Equal([]byte(want), []byte(r.Header.Get(HeaderSignature))) {
		return "", errors.New("signature is wrong")
	}
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > Window {
		return "", errors.New("request is not of now")
	}
	if len(nonce) != 2*nonceSize {
		return "", errors.New("nonce is not of 32 digits")
	}
	return nonce, nil
}

// SignRequest adds the header fields to a request.
func SignRequest(secret []byte, r *http.Request, body []byte, now time.Time) {
	var random [nonceSize]byte
	_, _ = rand.Read(random[:])
	timestamp, nonce := strconv.FormatInt(now.Unix(), 10), hex.EncodeToString(random[:])
	r.Header.Set(HeaderTimestamp, timestamp)
	r.Header.Set(HeaderNonce, nonce)
	r.Header.Set(HeaderSignature, Sign(secret, r.Method, r.URL.EscapedPath(), timestamp, nonce, body))
}
