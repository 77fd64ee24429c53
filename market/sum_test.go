package market

import (
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// bigSum converts s to math/big.
func bigSum(s Sum) *big.Int {
	v := new(big.Int).SetUint64(s.Hi)
	v.Lsh(v, 64).Or(v, new(big.Int).SetUint64(s.Lo))
	if int64(s.Hi) < 0 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	return v
}

// printed returns the decimal text of v / 10^decimals, rounded like a Sum. It is the expected
// value.
func printed(v *big.Rat, decimals int) string {
	for {
		scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(decimals, 0))), nil)
		x := new(big.Rat).Mul(v, new(big.Rat).SetInt(scale))
		if decimals < 0 {
			x.Quo(x, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-decimals)), nil)))
		}
		q, r := new(big.Int).QuoRem(x.Num(), x.Denom(), new(big.Int))
		twice := r.Abs(r).Lsh(r, 1).Cmp(x.Denom())
		if twice > 0 || twice == 0 && q.Bit(0) == 1 {
			q.Add(q, big.NewInt(int64(x.Sign())))
		}
		if digits := strings.TrimRight(strings.TrimLeft(q.String(), "-"), "0"); len(digits) > MaxDigits {
			decimals = decimals - (len(strings.TrimLeft(q.String(), "-")) - MaxDigits)
			continue
		}
		if decimals <= 0 {
			q.Mul(q, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(-decimals)), nil))
			return q.String()
		}
		text := new(big.Rat).SetFrac(q, scale).FloatString(decimals)
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		if text == "-0" {
			return "0"
		}
		return text
	}
}

func TestSumOfRandomTrades(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var volume, value Sum
		wantVolume, wantValue := new(big.Int), new(big.Int)
		for range 1 + rng.IntN(5) {
			p := Price(rng.Int64N(1e15)) >> rng.IntN(50)
			if rng.IntN(4) == 0 {
				p = -p
			}
			z := Size(1 + rng.Int64N(1e18)>>rng.IntN(59))
			volume, value = volume.Add(z.Sum()), value.Add(p.Times(z))
			wantVolume.Add(wantVolume, big.NewInt(int64(z)))
			wantValue.Add(wantValue, new(big.Int).Mul(big.NewInt(int64(p)), big.NewInt(int64(z))))
		}
		if bigSum(volume).Cmp(wantVolume) != 0 || bigSum(value).Cmp(wantValue) != 0 {
			t.Fatalf("sums %v %v, want %v %v", volume, value, wantVolume, wantValue)
		}
		scaled := func(v *big.Int, decimals int64) *big.Rat {
			return new(big.Rat).SetFrac(v, new(big.Int).Exp(big.NewInt(10), big.NewInt(decimals), nil))
		}
		for _, c := range []struct{ got, want string }{
			{string(volume.Append(nil, SizeDecimals)), printed(scaled(wantVolume, 8), 8)},
			{string(value.Append(nil, ValueDecimals)), printed(scaled(wantValue, 16), 16)},
			{string(AppendAverage(nil, value, volume)), printed(new(big.Rat).Quo(scaled(wantValue, 16), scaled(wantVolume, 8)), 8)},
		} {
			if c.got != c.want {
				t.Fatalf("got %s, want %s (value %v, volume %v)", c.got, c.want, wantValue, wantVolume)
			}
		}
	}
}

func TestSumText(t *testing.T) {
	for _, c := range []struct {
		s        Sum
		decimals int
		want     string
	}{
		{Sum{}, 16, "0"},
		{Sum{}, 8, "0"},
		{Sum{0, 1}, 16, "0.0000000000000001"},
		{Sum{0, 1}.Negative(), 16, "-0.0000000000000001"},
		{Sum{0, 1234567890123455}, 0, "1234567890123460"},
		{Sum{0, 1234567890123445}, 0, "1234567890123440"}, // half to even
		{Sum{0, 1234567890123435}, 0, "1234567890123440"},
		{Sum{0, 9999999999999995}, 0, "10000000000000000"},
		{Sum{0, 9999999999999995}, 16, "1"},
		{Sum{1<<63 - 1, 1<<64 - 1}, 16, "17014118346046900000000"},
		{Sum{1 << 63, 1}, 16, "-17014118346046900000000"},
		{Price(7040 * Scale).Times(184233 * Scale), 16, "1297000320"},
	} {
		if got := string(c.s.Append(nil, c.decimals)); got != c.want {
			t.Errorf("%v with %d decimals: got %s, want %s", c.s, c.decimals, got, c.want)
		}
	}
	if got := string(AppendAverage(nil, Price(1).Times(1), Size(2).Sum())); got != "0" { // half of the last place, to even
		t.Errorf("got %s", got)
	}
	if got := string(AppendAverage(nil, Price(3).Times(1), Size(2).Sum())); got != "0.00000002" {
		t.Errorf("got %s", got)
	}
	huge := Sum{1, 0} // a volume of more than 64 bits
	if got := string(AppendAverage(nil, Sum{3, 1 << 63}, huge)); got != "0.00000004" {
		t.Errorf("got %s", got)
	}
}

func TestIntervals(t *testing.T) {
	for i := range NumIntervals {
		if got, ok := ParseInterval(i.String()); !ok || got != i || i.Length() <= 0 {
			t.Errorf("%s reads as %v %v", i, got, ok)
		}
	}
	for _, bad := range []string{"", "1", "60s", "1M", "2m", "1m "} {
		if _, ok := ParseInterval(bad); ok {
			t.Errorf("%q was taken", bad)
		}
	}
	if NumIntervals.String() != "" || NumIntervals.Length() != 0 {
		t.Error("there is one more")
	}
}

func TestTradingDay(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct{ zone, t, start, end string }{
		{"", "2026-11-20T00:00:00Z", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z"},
		{"America/Argentina/Buenos_Aires", "2026-11-20T02:59:59Z", "2026-11-19T03:00:00Z", "2026-11-20T03:00:00Z"},
		{"America/Argentina/Buenos_Aires", "2026-11-20T03:00:00Z", "2026-11-20T03:00:00Z", "2026-11-21T03:00:00Z"},
		{"America/New_York", "2026-11-01T12:00:00Z", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"}, // 25 hours
		{"Asia/Kolkata", "2026-11-20T18:30:00Z", "2026-11-20T18:30:00Z", "2026-11-21T18:30:00Z"},
		{"America/Santiago", "2026-09-06T12:00:00Z", "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"}, // begins at 01:00
	} {
		loc, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		start, end := TradingDay(at(c.t), loc)
		if !start.Equal(at(c.start)) || !end.Equal(at(c.end)) {
			t.Errorf("%s at %s: %s to %s", c.zone, c.t, start.UTC(), end.UTC())
		}
	}
}

func BenchmarkAppendAverage(b *testing.B) {
	value, volume := Price(7040*Scale+12345678).Times(184233*Scale), Size(184237*Scale).Sum()
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendAverage(buf[:0], value, volume)
	}
}
