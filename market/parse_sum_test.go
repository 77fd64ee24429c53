package market

import (
	"errors"
	"math/rand/v2"
	"testing"
)

// TestParseSum checks that the text of a sum is parsed to a sum with the same text, and that other
// texts are refused.
func TestParseSum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		s := Price(random.Int64() >> random.IntN(64)).Times(Size(random.Int64() >> random.IntN(64)))
		for _, decimals := range []int{SizeDecimals, ValueDecimals} {
			text := string(s.Append(nil, decimals))
			parsed, err := ParseSum(text, decimals)
			if err != nil || string(parsed.Append(nil, decimals)) != text {
				t.Fatalf("%s with %d decimals: %s, %v", text, decimals, parsed.Append(nil, decimals), err)
			}
		}
	}
	for text, want := range map[string]error{
		"": ErrNotDecimal, "-": ErrNotDecimal, ".5": ErrNotDecimal, "5.": ErrNotDecimal, "1.2.3": ErrNotDecimal, "1e5": ErrNotDecimal, "+1": ErrNotDecimal,
		"0.000000001": ErrPrecision, "0.0000000010": ErrPrecision,
		"2000000000000000000000000000000": ErrRange, "99999999999999999999999999999999999999999": ErrRange,
		"0.0000000100": nil, "-0": nil, "1701411834604692317316873037158": nil,
	} {
		if _, err := ParseSum([]byte(text), SizeDecimals); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}
