package config

import (
	"reflect"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/identity/database"
)

func TestConfigKeys(t *testing.T) {
	for text, want := range map[string]database.Config{
		``:                           {},
		"[keys]\n":                   {},
		"[keys]\nrotate = \"0s\"":    {KeyRotation: -1},
		"[keys]\nrotate = \"1h\"":    {KeyRotation: time.Hour},
		"[keys]\nrotate = \"2160h\"": {KeyRotation: 90 * 24 * time.Hour},
		"[auth]\naccess_ttl = \"1h\"\n[keys]\nalgorithm = \"RS256\"": {KeyAlgorithm: "RS256", AccessTTL: time.Hour},
		"[keys]\nencryption_key_file = \"k/e.y\"":                    {EncryptionKeyFile: "etc/rueda/k/e.y"},
		"[keys]\nencryption_key_file = \"/run/secrets/key\"":         {EncryptionKeyFile: "/run/secrets/key"},
		"[keys]\nencryption_key_env = \"KEK\"":                       {EncryptionKeyEnv: "KEK"},
	} {
		var c mainFile
		doc, err := decode("etc/rueda/rueda.toml", []byte(text), &c)
		if err != nil || doc.err() != nil {
			t.Fatal(text, err, doc.err())
		}
		var got database.Config
		if c.keys(doc, &got); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"[auth]\naccess_ttl = \"240h\"\n[keys]\nrotate = \"1h\"": "etc/rueda.toml:4: keys.rotate: is too short: with auth.access_ttl = 240h0m0s, more than 100 keys would have valid tokens",
		"[keys]\nrotate = \"59m\"":                               `etc/rueda.toml:2: keys.rotate: must be at least 1h0m0s, or "0s" for never`,
		"[keys]\nalgorithm = \"HS256\"":                          `etc/rueda.toml:2: keys.algorithm: "HS256" is not one of ES256, EdDSA, RS256`,
		"[keys]\nencryption_key_env = \"RUEDA_TEST_NO_SUCH\"":    "etc/rueda.toml:2: keys.encryption_key_env: environment variable RUEDA_TEST_NO_SUCH: not an encryption key: want 32 random bytes as 64 hexadecimal digits or base64; rueda keys init-encryption FILE makes one",
	} {
		var c mainFile
		doc, err := decode("etc/rueda.toml", []byte(text), &c)
		if err != nil {
			t.Fatal(err)
		}
		c.checkKeys(doc)
		if err := doc.err(); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
