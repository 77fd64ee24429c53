package keyset

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// EncryptionKey encrypts the stored document. It prints as "[redacted]" in every format.
type EncryptionKey struct {
	secret *[encryptionKeyLength]byte // behind a pointer, because fmt prints unexported struct fields without calling their methods
}

const (
	redacted            = "[redacted]"
	encryptionKeyLength = 32
	// maxEncryptionKeyText is more than any spelling of a key has.
	maxEncryptionKeyText = 256
)

// String returns "[redacted]".
func (EncryptionKey) String() string { return redacted }

// GoString returns "[redacted]".
func (EncryptionKey) GoString() string { return redacted }

// Format writes "[redacted]" for every verb.
func (EncryptionKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns "[redacted]".
func (EncryptionKey) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// ParseEncryptionKey reads a key of 32 bytes from 64 hexadecimal digits or from base64 of either
// alphabet, with or without padding. Space around it is ignored.
func ParseEncryptionKey(text string) (EncryptionKey, error) {
	text = strings.TrimSpace(text)
	decode := base64.StdEncoding.WithPadding(base64.NoPadding).Strict().DecodeString
	switch {
	case len(text) == 2*encryptionKeyLength:
		decode = hex.DecodeString
	default:
		text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimSuffix(text, "="))
	}
	b, err := decode(text)
	if err != nil || len(b) != encryptionKeyLength || strings.ContainsAny(text, "\r\n") {
		return EncryptionKey{}, errors.New("not an encryption key: want 32 random bytes as 64 hexadecimal digits or base64")
	}
	return EncryptionKey{secret: (*[encryptionKeyLength]byte)(b)}, nil
}

// ReadEncryptionKey reads the key from a file that only its owner may read.
func ReadEncryptionKey(path string) (EncryptionKey, error) {
	text, err := readSecretFile(path, maxEncryptionKeyText)
	if err != nil {
		return EncryptionKey{}, fmt.Errorf("encryption key %s: %w", path, err)
	}
	key, err := ParseEncryptionKey(string(text))
	if err != nil {
		return EncryptionKey{}, fmt.Errorf("encryption key %s: %w", path, err)
	}
	return key, nil
}

// MakeEncryptionKey writes a new key to a new file with mode 0600. It replaces no file.
func MakeEncryptionKey(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, hex.EncodeToString(randomBytes(encryptionKeyLength)))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write an encryption key: %w", err), os.Remove(path))
	}
	return syncDir(filepath.Dir(path))
}

// id identifies a key and reveals nothing else about it.
func (k EncryptionKey) id() string {
	mac := hmac.New(sha256.New, k.secret[:])
	mac.Write([]byte("rueda encryption key id 1\n"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:9])
}

// sealedDocument is an encrypted document. Its first member identifies it.
type sealedDocument struct {
	Sealed int    `json:"sealed"` // the version of this form
	Key    string `json:"key"`    // id of the key
	Nonce  []byte `json:"nonce"`
	Text   []byte `json:"text"`
}

const (
	sealVersion = 1
	sealMark    = `{"sealed":`
	// sealContext is authenticated with the text, so that nothing that was encrypted for another
	// purpose opens here.
	sealContext = "rueda keys 1\n"
)

// IsSealed reports whether a document is encrypted.
func IsSealed(document []byte) bool { return bytes.HasPrefix(document, []byte(sealMark)) }

func (k EncryptionKey) aead() (cipher.AEAD, error) {
	block, err := aes.NewCipher(k.secret[:])
	if err != nil {
		return nil, fmt.Errorf("use the encryption key: %w", err)
	}
	return cipher.NewGCM(block)
}

// seal encrypts with AES-256-GCM and a random nonce. A document is saved a few times a year, so
// nonces do not repeat.
func (k EncryptionKey) seal(text []byte) ([]byte, error) {
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	nonce := randomBytes(aead.NonceSize())
	sealed, err := json.Marshal(sealedDocument{
		Sealed: sealVersion, Key: k.id(), Nonce: nonce, Text: aead.Seal(nil, nonce, text, []byte(sealContext)),
	})
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return append(sealed, '\n'), nil
}

// Errors of keys that are encrypted.
var (
	ErrNoEncryptionKey    = errors.New("the keys are encrypted, and no encryption key is given: set [keys] encryption_key_file or encryption_key_env")
	ErrNotEncrypted       = errors.New("the keys were encrypted and have been replaced by keys that are not: this could be done without the encryption key; if it was you, restart")
	ErrWrongEncryptionKey = errors.New("the keys are encrypted with another encryption key than that of [keys] encryption_key_file or encryption_key_env")
)

func (k EncryptionKey) open(document []byte) ([]byte, error) {
	var s sealedDocument
	d := json.NewDecoder(bytes.NewReader(document))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("damaged: more than one JSON value")
	}
	if s.Sealed != sealVersion {
		return nil, fmt.Errorf("unknown encryption version %d (want %d)", s.Sealed, sealVersion)
	}
	if s.Key != k.id() {
		return nil, fmt.Errorf("%w: they need key %.16q, but this is %q", ErrWrongEncryptionKey, s.Key, k.id())
	}
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	if len(s.Nonce) != aead.NonceSize() {
		return nil, errors.New("damaged: the nonce has the wrong length")
	}
	text, err := aead.Open(nil, s.Nonce, s.Text, []byte(sealContext))
	if err != nil {
		return nil, errors.New("damaged: it was changed since it was encrypted")
	}
	return text, nil
}
