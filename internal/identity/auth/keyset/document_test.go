package keyset

import (
	"bytes"
	"testing"
	"time"
)

// FuzzKeyDocument checks that any document is either refused or read as it is written again, and
// that every set has a key that signs.
func FuzzKeyDocument(f *testing.F) {
	d, err := newDocument(ES256, time.Unix(1_800_000_000, 0).UTC())
	if err != nil {
		f.Fatal(err)
	}
	e := &edit{document: d, now: d.keys[0].created, make: newPair}
	for _, o := range []Rotation{{Algorithm: EdDSA, Now: true}, {Now: true, Revoke: d.keys[0].id}, {}} {
		if err := e.rotate(o, &keyRules{lifetime: time.Hour, algorithm: ES256}); err != nil {
			f.Fatal(err)
		}
		text, err := d.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"version":1,"keys":[],"refresh":[]}`))
	f.Add([]byte(`{"sealed":1,"key":"","nonce":"","text":""}`))
	key := EncryptionKey{secret: new([encryptionKeyLength]byte)}
	sealed, err := key.seal([]byte("{}"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Fuzz(func(t *testing.T, data []byte) {
		if text, err := key.open(data); err == nil && string(text) != "{}" {
			t.Errorf("opened what nobody sealed: %q", text)
		}
		d, complete, err := parseDocument(data)
		if err != nil {
			return
		}
		if _, err := newRing(d); err != nil {
			t.Fatal(err)
		}
		text, err := d.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, whole, err := parseDocument(text)
		if err != nil || !whole {
			t.Fatalf("written and not read: %v\n%s", err, text)
		}
		if second, err := again.encode(); complete && (err != nil || !bytes.Equal(text, second)) {
			t.Fatalf("%v: another document the second time\n%s\n%s", err, text, second)
		}
	})
}
