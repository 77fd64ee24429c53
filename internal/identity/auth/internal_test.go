package auth

import (
	"bytes"
	"crypto/sha256"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
)

// testKeyed is a hash under a key of the tests.
func testKeyed(what, text string) Hash {
	return sha256.Sum256([]byte("key\n" + what + "\n" + text))
}

func FuzzRefreshToken(f *testing.F) {
	f.Add(newFirstToken(testKeyed).text().Reveal())
	f.Add(refreshToken(make([]byte, successorSize)).text().Reveal())
	f.Add("rt1_")
	f.Add("rt2_")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if token, ok := parseRefreshToken(text); ok && token.text().Reveal() != text {
			t.Errorf("%q has a second spelling, %q", text, token.text().Reveal())
		}
	})
}

func TestRefreshTokenText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.SampledFrom([]int{firstSize, successorSize}).Draw(rt, "size")
		token := refreshToken(rapid.SliceOfN(rapid.Byte(), size, size).Draw(rt, "bytes"))
		got, ok := parseRefreshToken(token.text().Reveal())
		if !ok || !bytes.Equal(got, token) {
			rt.Fatalf("%x reads back as %x, %v", token, got, ok)
		}
	})
}

// TestSuccessor checks what a successor contains, and that a change of any byte, another family and
// other keys make it a forgery.
func TestSuccessor(t *testing.T) {
	keys, err := keyset.New()
	if err != nil {
		t.Fatal(err)
	}
	family := Family{KeyID: keys.Deriver()}
	parent := newFirstToken(testKeyed).hash()
	issued := time.Unix(1_790_000_000, 123_456_789)
	expires := issued.Add(30 * 24 * time.Hour)
	token, ok := newSuccessor(keys, testKeyed, &family, parent, issued, expires)
	if !ok || token.parent() != parent {
		t.Fatalf("successor %x of %x, %v", token, parent, ok)
	}
	if from, to := token.times(); !from.Equal(issued) || !to.Equal(expires) {
		t.Errorf("from %v to %v", from, to)
	}
	if other, _ := newSuccessor(keys, testKeyed, &family, parent, issued, expires); bytes.Equal(other, token) {
		t.Error("two successors are equal")
	}
	if genuine, known := token.genuine(keys, &family); !genuine || !known {
		t.Errorf("genuine %v, known %v", genuine, known)
	}
	for i := range token {
		forged := bytes.Clone(token)
		forged[i] ^= 1
		if genuine, _ := refreshToken(forged).genuine(keys, &family); genuine {
			t.Errorf("byte %d can be changed", i)
		}
	}
	if genuine, _ := token.genuine(keys, &Family{KeyID: family.KeyID, Seed: [32]byte{1}}); genuine {
		t.Error("it is valid for another family")
	}
	if genuine, known := token.genuine(keys, &Family{KeyID: "unknown"}); genuine || known {
		t.Errorf("without its secret: genuine %v, known %v", genuine, known)
	}
}

// TestShortMAC checks that a change of any byte before the short MAC, or in it, shows, and so does
// another key.
func TestShortMAC(t *testing.T) {
	keys, err := keyset.New()
	if err != nil {
		t.Fatal(err)
	}
	first := newFirstToken(testKeyed)
	now := time.Unix(1_790_000_000, 0)
	next, ok := newSuccessor(keys, testKeyed, &Family{KeyID: keys.Deriver()}, first.hash(), now, now.Add(time.Hour))
	if !ok {
		t.Fatal("no secret")
	}
	for _, token := range []refreshToken{first, next} {
		if !token.minted(testKeyed) {
			t.Errorf("%x has a wrong MAC", token)
		}
		if token.minted(func(what, text string) Hash { return testKeyed(what, text+"x") }) {
			t.Error("the MAC is right under another key")
		}
		covered := firstSize
		if token.isSuccessor() {
			covered = signedSize
		}
		for i := range covered {
			changed := bytes.Clone(token)
			changed[i] ^= 1
			if refreshToken(changed).minted(testKeyed) {
				t.Errorf("byte %d of %d can be changed", i, len(token))
			}
		}
	}
}

func TestSameNetwork(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"192.0.2.1", "192.0.2.254", true},
		{"192.0.2.1", "::ffff:192.0.2.9", true},
		{"192.0.2.1", "192.0.3.1", false},
		{"2001:db8:1::1", "2001:db8:1:ffff::9", true},
		{"2001:db8:1::1", "2001:db8:2::1", false},
		{"fe80::1%eth0", "fe80::2%eth1", true},
		{"192.0.2.1", "2001:db8::1", false},
		{"", "", false},
		{"", "192.0.2.1", false},
	} {
		if got := sameNetwork(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}
