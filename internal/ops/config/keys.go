package config

import (
	"cmp"
	"errors"
	"io/fs"
	"regexp"
	"time"

	"github.com/ruedahq/rueda/internal/base/fileowner"
	"github.com/ruedahq/rueda/internal/identity/database"
)

// keysConfig is the table [keys]: the keys that sign access tokens.
type keysConfig struct {
	Algorithm            string    `toml:"algorithm"`
	Rotate               *duration `toml:"rotate"`
	EncryptionKeyFile    string    `toml:"encryption_key_file"`
	EncryptionKeyEnv     string    `toml:"encryption_key_env"`
	EncryptionKeyCommand *[]string `toml:"encryption_key_command"`
}

// encryptionKey returns where the encryption key comes from.
func (k *keysConfig) encryptionKey() secretSource {
	return secretSource{k.EncryptionKeyFile, k.EncryptionKeyEnv, k.EncryptionKeyCommand}
}

// keyAlgorithms returns the supported algorithms.
var keyAlgorithms = []string{"ES256", "EdDSA", "RS256"}

const (
	// leastRotation is the shortest time that a key may sign.
	leastRotation = duration(time.Hour)
	// maxVerifying bounds the number of keys whose tokens may be valid.
	maxVerifying = 100
	// defaultAccessTTL is the default of auth.access_ttl.
	defaultAccessTTL = duration(24 * time.Hour)
)

var environmentName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// checkKeys finds mistakes in [keys]. It reads the encryption key, so that a missing key or one
// with wide permissions is found before the start.
func (c *mainFile) checkKeys(doc *document) {
	k := &c.Keys
	known := k.Algorithm == ""
	for _, a := range keyAlgorithms {
		known = known || k.Algorithm == a
	}
	if !known {
		doc.notOneOf("keys.algorithm", k.Algorithm, keyAlgorithms)
	}
	if k.Rotate != nil && *k.Rotate != 0 {
		life := cmp.Or(c.Auth.AccessTTL, defaultAccessTTL)
		if *k.Rotate < leastRotation {
			doc.wrong("keys.rotate", "must be at least %v, or \"0s\" for never", time.Duration(leastRotation))
		} else if life / *k.Rotate > maxVerifying {
			doc.wrong("keys.rotate", "is too short: with auth.access_ttl = %v, more than %d keys would have valid tokens", time.Duration(life), maxVerifying)
		}
	}
	switch {
	case k.EncryptionKeyFile != "" && k.EncryptionKeyEnv != "":
		doc.wrong("keys.encryption_key_env", "is set together with encryption_key_file: remove one")
		return
	case k.EncryptionKeyCommand != nil: // keys runs it
		return
	}
	if k.EncryptionKeyEnv != "" && !environmentName.MatchString(k.EncryptionKeyEnv) {
		// The value may be the key itself.
		doc.wrong("keys.encryption_key_env", "is not the name of an environment variable")
		return
	}
	var settings database.Config
	c.keys(doc, &settings)
	key := "keys.encryption_key_file"
	if k.EncryptionKeyEnv != "" {
		key = "keys.encryption_key_env"
	}
	checkEncryptionKey(doc, key, &settings)
}

// checkEncryptionKey reports an encryption key that cannot be read.
func checkEncryptionKey(doc *document, key string, d *database.Config) {
	switch err := d.CheckEncryptionKey(); {
	case errors.Is(err, fs.ErrPermission):
		doc.wrong(key, "%v", fileowner.Unreadable(err))
	case err != nil:
		doc.wrong(key, "%v; rueda keys init-encryption FILE makes one", err)
	}
}

// keys adds the settings of the keys to those of the database.
func (c *mainFile) keys(doc *document, d *database.Config) {
	k := &c.Keys
	d.KeyAlgorithm = k.Algorithm
	d.AccessTTL = time.Duration(c.Auth.AccessTTL)
	d.EncryptionKeyFile = doc.relative(k.EncryptionKeyFile)
	d.EncryptionKeyEnv = k.EncryptionKeyEnv
	if k.EncryptionKeyCommand != nil {
		d.EncryptionKey = doc.secret("keys", "encryption_key", k.encryptionKey())
		checkEncryptionKey(doc, "keys.encryption_key_command", d)
	}
	switch {
	case k.Rotate == nil:
	case *k.Rotate == 0:
		d.KeyRotation = -1
	default:
		d.KeyRotation = time.Duration(*k.Rotate)
	}
}
