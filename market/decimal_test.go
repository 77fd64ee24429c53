package market

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestParsePrice(t *testing.T) {
	tests := []struct {
		in   string
		want Price
		err  error
	}{
		{"0", 0, nil},
		{"-0", 0, nil},
		{"-0.00", 0, nil},
		{"7049.5", 704950000000, nil},
		{"7049.50", 704950000000, nil},
		{"007", 7 * Scale, nil},
		{"-0.25", -25000000, nil},
		{"0.00000001", 1, nil},
		{"-0.00000001", -1, nil},
		{"1.000000000000", 1 * Scale, nil}, // more than eight decimals, all zero
		{"9999999.99999999", 999999999999999, nil},
		{"90000000000", 9000000000000000000, nil},
		{"92233720368", 9223372036800000000, nil},
		{"-92233720368", -9223372036800000000, nil},

		{"0.000000001", 0, ErrPrecision},
		{"10000000.00000001", 0, ErrPrecision}, // 16 significant digits
		{"92233720368.5", 9223372036850000000, nil},
		{"92233720369", 0, ErrRange},
		{"-92233720369", 0, ErrRange},
		{"92233720368.99999999", 0, ErrRange},
		{"999999999999", 0, ErrRange},
		{strings.Repeat("9", 40), 0, ErrRange},
		{"18446744073709551616", 0, ErrRange}, // 2^64
		{"18446744073709551616.5", 0, ErrRange},

		{"", 0, ErrNotDecimal},
		{"-", 0, ErrNotDecimal},
		{"--1", 0, ErrNotDecimal},
		{"+1", 0, ErrNotDecimal},
		{".5", 0, ErrNotDecimal},
		{"-.5", 0, ErrNotDecimal},
		{"5.", 0, ErrNotDecimal},
		{"1e3", 0, ErrNotDecimal},
		{"1.5e3", 0, ErrNotDecimal},
		{"1.2.3", 0, ErrNotDecimal},
		{"1,5", 0, ErrNotDecimal},
		{" 1", 0, ErrNotDecimal},
		{"1 ", 0, ErrNotDecimal},
		{"NaN", 0, ErrNotDecimal},
		{"Inf", 0, ErrNotDecimal},
		{"0x10", 0, ErrNotDecimal},
		{"1\x00", 0, ErrNotDecimal},
		{"١", 0, ErrNotDecimal}, // a digit, but not an ASCII one
	}
	for _, tt := range tests {
		got, err := ParsePrice(tt.in)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("ParsePrice(%q) = %d, %v, want %d, %v", tt.in, got, err, tt.want, tt.err)
		}
		fromBytes, err := ParsePrice([]byte(tt.in))
		if fromBytes != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("ParsePrice([]byte(%q)) = %d, %v, want %d, %v", tt.in, fromBytes, err, tt.want, tt.err)
		}
	}
}

func TestParseSize(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Size
		err  error
	}{
		{"120", 120 * Scale, nil},
		{"-0", 0, nil},
		{"-1", 0, ErrRange},
		{"x", 0, ErrNotDecimal},
	} {
		if got, err := ParseSize(tt.in); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("ParseSize(%q) = %d, %v, want %d, %v", tt.in, got, err, tt.want, tt.err)
		}
	}
}

func TestPriceAppend(t *testing.T) {
	for _, tt := range []struct {
		in   Price
		want string
	}{
		{0, "0"},
		{1, "0.00000001"},
		{-1, "-0.00000001"},
		{Scale, "1"},
		{-Scale, "-1"},
		{704950000000, "7049.5"},
		{-25000000, "-0.25"},
		{10 * Scale, "10"},
		{math.MaxInt64, "92233720368.54775807"},
		{math.MinInt64, "-92233720368.54775808"},
	} {
		if got := tt.in.String(); got != tt.want {
			t.Errorf("Price(%d).String() = %q, want %q", int64(tt.in), got, tt.want)
		}
		if got := string(tt.in.Append([]byte("x"))); got != "x"+tt.want {
			t.Errorf("Price(%d).Append = %q", int64(tt.in), got)
		}
	}
	if got := Size(150000000).String(); got != "1.5" {
		t.Errorf("Size.String() = %q, want 1.5", got)
	}
}

func TestExact(t *testing.T) {
	for _, tt := range []struct {
		in   int64
		want bool
	}{
		{0, true},
		{999999999999999, true},
		{1000000000000000, true},
		{1000000000000001, false},
		{1000000000000010, true},
		{9223372036854775807, false},
		{9220000000000000000, true},
	} {
		if got := Price(tt.in).Exact(); got != tt.want {
			t.Errorf("Price(%d).Exact() = %v", tt.in, got)
		}
		if got := Price(-tt.in).Exact(); got != tt.want {
			t.Errorf("Price(%d).Exact() = %v", -tt.in, got)
		}
		if got := Size(tt.in).Exact(); got != tt.want {
			t.Errorf("Size(%d).Exact() = %v", tt.in, got)
		}
	}
	if Price(math.MinInt64).Exact() {
		t.Error("the smallest Price is not exact")
	}
	if Size(-1).Exact() {
		t.Error("a negative Size is not exact")
	}
}

// TestExactSurvivesDoubles checks the promise of Exact.
func TestExactSurvivesDoubles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20000 {
		p := Price(rng.Int64() >> rng.UintN(63))
		if !p.Exact() {
			continue
		}
		f, ok := new(big.Float).SetString(p.String())
		if !ok {
			t.Fatalf("%s is not a number", p)
		}
		double, _ := f.Float64()
		// A reader that prints 15 digits of its double gets the number back.
		back, err := ParsePrice(plain(double))
		if err != nil || back != p {
			t.Fatalf("%s became %v, then %s (%v)", p, double, back, err)
		}
	}
}

// plain formats a double with 15 significant digits and no exponent.
func plain(v float64) string {
	whole := big.NewFloat(v).Text('g', 15)
	f, _ := new(big.Float).SetPrec(200).SetString(whole)
	return f.Text('f', 8)
}

func TestAppendScaled(t *testing.T) {
	for _, tt := range []struct {
		v        int64
		decimals int
		want     string
	}{
		{704950000000, 2, "704950"},
		{704950000000, 8, "704950000000"},
		{704950000000, 0, "7050"}, // a half rounds away from zero
		{-704950000000, 0, "-7050"},
		{704949999999, 0, "7049"},
		{0, 2, "0"},
		{-1, 2, "0"}, // no -0
		{-500000, 2, "-1"},
		{math.MaxInt64, 8, "9223372036854775807"},
		{math.MinInt64, 8, "-9223372036854775808"},
		{math.MinInt64, 0, "-92233720369"},
	} {
		if got := string(AppendScaled(nil, tt.v, tt.decimals)); got != tt.want {
			t.Errorf("AppendScaled(%d, %d) = %s, want %s", tt.v, tt.decimals, got, tt.want)
		}
	}
}

func FuzzPrice(f *testing.F) {
	for _, s := range []string{"0", "-0", "7049.5", "92233720368.5", "0.00000001", "1e5", "1.", "-.5", "00012.500", "9999999.99999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParsePrice(s)
		if err != nil {
			if p != 0 {
				t.Fatalf("ParsePrice(%q) = %d with error %v", s, p, err)
			}
			return
		}
		// Compare with an independent parser.
		want, ok := new(big.Rat).SetString(s)
		if !ok || new(big.Rat).SetFrac64(int64(p), Scale).Cmp(want) != 0 {
			t.Fatalf("ParsePrice(%q) = %s", s, p)
		}
		if !p.Exact() {
			t.Fatalf("ParsePrice(%q) = %s, which is not exact", s, p)
		}
		// The printed form is the shortest one and parses to the same value.
		text := p.String()
		if back, err := ParsePrice(text); err != nil || back != p {
			t.Fatalf("%q printed as %q, read as %s, %v", s, text, back, err)
		}
		if strings.Contains(text, ".") && strings.HasSuffix(text, "0") || text == "-0" || len(text) > len("-00000000.00000000")+3 {
			t.Fatalf("%q printed as %q", s, text)
		}
	})
}

func TestDecimalAllocs(t *testing.T) {
	text, buf := []byte("7049.55"), make([]byte, 0, 64)
	var sink Price
	if n := testing.AllocsPerRun(100, func() {
		p, err := ParsePrice(text)
		if err != nil {
			t.Fatal(err)
		}
		sink += p
		buf = p.Append(buf[:0])
		buf = AppendScaled(buf, int64(p), 2)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkParsePrice(b *testing.B) {
	text := []byte("7049.55")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParsePrice(text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendPrice(b *testing.B) {
	p, buf := Price(704955000000), make([]byte, 0, 32)
	b.ReportAllocs()
	for b.Loop() {
		buf = p.Append(buf[:0])
	}
}
