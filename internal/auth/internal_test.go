package auth

import (
	"testing"

	"pgregory.net/rapid"
)

func FuzzRefreshToken(f *testing.F) {
	good := newRefreshSecret()
	f.Add(good.text().Reveal())
	f.Add("rt1_")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		if s, ok := parseRefreshSecret(text); ok && s.text().Reveal() != text {
			t.Errorf("%q has a second spelling, %q", text, s.text().Reveal())
		}
	})
}

func TestRefreshTokenText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var s refreshSecret
		copy(s[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(rt, "bytes"))
		got, ok := parseRefreshSecret(s.text().Reveal())
		if !ok || got != s {
			rt.Fatalf("%x reads back as %x, %v", s, got, ok)
		}
	})
}
