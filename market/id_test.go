package market

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestParseInstrumentID(t *testing.T) {
	long := strings.Repeat("S", 32)
	word := strings.Repeat("w", 16)
	tests := []struct {
		in      string
		exact   bool // is an identifier
		pattern bool // is a pattern; every identifier is
	}{
		{"GGAL|BYMA|24hs", true, true},
		{"AL30D|BYMA|CI", true, true},
		{"A|B|C", true, true},
		{"MERV_-_XMEV_(GGAL)/x|A3|48hs", true, true},
		{"BTC/USDT|BINANCE.US|SPOT_1-2", true, true},
		{long + "|" + word + "|" + word, true, true},
		{"~!#$%&'()+-./:<=>?@[]^_`{}|M|T", true, true},
		{"*|BYMA|24hs", false, true},
		{"GGAL|*|24hs", false, true},
		{"GGAL|BYMA|*", false, true},
		{"*|*|*", false, true},

		{"", false, false},
		{"GGAL", false, false},
		{"GGAL|BYMA", false, false},
		{"GGAL|BYMA|", false, false},
		{"|BYMA|CI", false, false},
		{"GGAL||CI", false, false},
		{"||", false, false},
		{"GGAL|BYMA|CI|", false, false},
		{"GGAL|BYMA|CI|x", false, false},
		{"GG*|BYMA|CI", false, false},
		{"GGAL|B*|CI", false, false},
		{"**|BYMA|CI", false, false},
		{"GG AL|BYMA|CI", false, false},
		{" GGAL|BYMA|CI", false, false},
		{"GGAL|BYMA|CI ", false, false},
		{"GG,AL|BYMA|CI", false, false},
		{"GG;AL|BYMA|CI", false, false},
		{`GG"AL|BYMA|CI`, false, false},
		{`GG\AL|BYMA|CI`, false, false},
		{"GG\x7fAL|BYMA|CI", false, false},
		{"GG\x00AL|BYMA|CI", false, false},
		{"ÑANDU|BYMA|CI", false, false},
		{"GGAL|.BYMA|CI", false, false},
		{"GGAL|BYMA|-CI", false, false},
		{"GGAL|BY/MA|CI", false, false},
		{long + "S|BYMA|CI", false, false},
		{"GGAL|" + word + "w|CI", false, false},
		{"GGAL|BYMA|" + word + "w", false, false},
		{strings.Repeat("|", 1000), false, false},
	}
	for _, tt := range tests {
		id, err := ParseInstrumentID(tt.in)
		if tt.exact != (err == nil) || (err != nil && !errors.Is(err, ErrBadInstrument)) {
			t.Errorf("ParseInstrumentID(%q): error %v, want identifier %v", tt.in, err, tt.exact)
		}
		if err == nil && (id.String() != tt.in || !id.Valid() || id.IsPattern()) {
			t.Errorf("ParseInstrumentID(%q) = %v", tt.in, id)
		}
		if err != nil && id != (InstrumentID{}) {
			t.Errorf("ParseInstrumentID(%q) = %v with an error", tt.in, id)
		}
		p, err := ParsePattern(tt.in)
		if tt.pattern != (err == nil) {
			t.Errorf("ParsePattern(%q): error %v, want pattern %v", tt.in, err, tt.pattern)
		}
		if err == nil && (p.String() != tt.in || p.IsPattern() == tt.exact || p.Valid() != tt.exact) {
			t.Errorf("ParsePattern(%q) = %v", tt.in, p)
		}
	}
	if n := len(long + "|" + word + "|" + word); n != MaxIDLength {
		t.Errorf("MaxIDLength = %d, want %d", MaxIDLength, n)
	}
}

func TestMatches(t *testing.T) {
	x := InstrumentID{"GGAL", "BYMA", "24hs"}
	for _, tt := range []struct {
		pattern string
		want    bool
	}{
		{"GGAL|BYMA|24hs", true},
		{"*|BYMA|24hs", true},
		{"GGAL|*|24hs", true},
		{"GGAL|BYMA|*", true},
		{"*|*|*", true},
		{"GGAL|BYMA|CI", false},
		{"GGAL|byma|24hs", false},
		{"*|BYMA|CI", false},
		{"GGA|BYMA|24hs", false},
	} {
		p, err := ParsePattern(tt.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if p.Matches(x) != tt.want {
			t.Errorf("%s matches %s: %v, want %v", tt.pattern, x, !tt.want, tt.want)
		}
	}
}

// TestThreat25InstrumentID parses random identifiers, intact and with one byte changed. The result
// is the text that was parsed, or an error.
func TestThreat25InstrumentID(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 1))
	const word = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	text := func(of string, most int) string {
		b := make([]byte, 1+rng.IntN(most))
		for i := range b {
			b[i] = of[rng.IntN(len(of))]
		}
		return string(b)
	}
	for range 50_000 {
		x := InstrumentID{text(word+"!#$%&'()+-./:<=>?@[]^_`{}~", 32), text(word, 16), text(word, 16)}
		if id, err := ParseInstrumentID(x.String()); err != nil || id != x {
			t.Fatalf("%q came back as %q, %v", x, id, err)
		}
		broken := []byte(x.String())
		broken[rng.IntN(len(broken))] = byte(rng.Uint32())
		if id, err := ParseInstrumentID(string(broken)); err == nil && id.String() != string(broken) {
			t.Fatalf("%q came back as %q", broken, id)
		}
	}
}

func FuzzInstrumentID(f *testing.F) {
	for _, s := range []string{"GGAL|BYMA|24hs", "*|BYMA|*", "||", "a|b|c|d", "GG AL|BYMA|CI", "Ñ|B|C"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePattern(s)
		id, exactErr := ParseInstrumentID(s)
		if err != nil {
			if exactErr == nil {
				t.Fatalf("%q is an identifier and not a pattern", s)
			}
			return
		}
		if p.String() != s || string(p.Append(nil)) != s || len(s) > MaxIDLength {
			t.Fatalf("%q came back as %q", s, p)
		}
		if !p.Matches(p) {
			t.Fatalf("%q does not match itself", s)
		}
		if (exactErr == nil) == p.IsPattern() || (exactErr == nil && (id != p || !id.Valid())) {
			t.Fatalf("%q: pattern %v, identifier %v, %v", s, p, id, exactErr)
		}
		if strings.ContainsAny(s, " ,;\"\\\x00\x7f") || strings.Count(s, "|") != 2 {
			t.Fatalf("%q was taken", s)
		}
	})
}
