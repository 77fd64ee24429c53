package market

import (
	"errors"
	"math/bits"
)

// Price is an exact price in units of 1e-8 of the instrument's currency. It may be negative
// (spreads, power, interest rates).
type Price int64

// Size is an exact quantity in units of 1e-8 of the instrument's unit. It is never negative in a
// valid event.
type Size int64

// Scale is the number of units in 1: prices and sizes have eight decimals.
const Scale = 100_000_000

// MaxDigits is the maximum number of significant digits of a Price or Size. With 15 digits, clients
// that read JSON numbers as IEEE 754 doubles get the exact value back.
const MaxDigits = 15

// Errors returned by ParsePrice and ParseSize.
var (
	ErrNotDecimal = errors.New("not a plain decimal number")
	ErrPrecision  = errors.New("more than 8 decimals or 15 significant digits")
	ErrRange      = errors.New("number out of range")
)

// ParsePrice parses a plain decimal such as "7049.5" or "-0.25": no exponent, no plus sign, digits
// on both sides of the point. Leading and trailing zeros are ignored. It never rounds; it returns
// ErrNotDecimal, ErrPrecision or ErrRange instead.
func ParsePrice[T string | []byte](s T) (Price, error) {
	v, err := parseDecimal(s)
	return Price(v), err
}

// ParseSize parses a plain decimal like ParsePrice and returns ErrRange for a negative number.
func ParseSize[T string | []byte](s T) (Size, error) {
	v, err := parseDecimal(s)
	if err == nil && v < 0 {
		return 0, ErrRange
	}
	return Size(v), err
}

func parseDecimal[T string | []byte](s T) (int64, error) {
	i, neg := 0, false
	if len(s) > 0 && s[0] == '-' {
		neg, i = true, 1
	}
	var v uint64
	start := i
	for ; i < len(s) && s[i]-'0' <= 9; i++ {
		if v > (1<<63-1)/10/Scale {
			// One more digit would exceed the largest int64 in any case.
			return 0, ErrRange
		}
		v = v*10 + uint64(s[i]-'0')
	}
	if i == start {
		return 0, ErrNotDecimal
	}
	hi, lo := bits.Mul64(v, Scale)
	if hi != 0 || lo > 1<<63-1 {
		return 0, ErrRange
	}
	v = lo
	if i < len(s) {
		if s[i] != '.' || i+1 == len(s) {
			return 0, ErrNotDecimal
		}
		unit := uint64(Scale)
		for i++; i < len(s); i++ {
			d := uint64(s[i] - '0')
			if d > 9 {
				return 0, ErrNotDecimal
			}
			unit /= 10
			if unit == 0 && d != 0 {
				return 0, ErrPrecision
			}
			v += d * unit
		}
		if v > 1<<63-1 {
			return 0, ErrRange
		}
	}
	if !exact(v) {
		return 0, ErrPrecision
	}
	if neg {
		return -int64(v), nil
	}
	return int64(v), nil
}

// exact reports whether v has at most MaxDigits significant digits.
func exact(v uint64) bool {
	for v >= 1e15 {
		if v%10 != 0 {
			return false
		}
		v /= 10
	}
	return true
}

// Exact reports whether p has at most MaxDigits significant digits. A feed.Sink rejects other
// prices.
func (p Price) Exact() bool { return exact(magnitude(int64(p))) }

// Exact reports whether z is not negative and has at most MaxDigits significant digits.
func (z Size) Exact() bool { return z >= 0 && exact(uint64(z)) }

// Append appends the shortest decimal text of p: no exponent, no trailing zeros, no "-0".
func (p Price) Append(b []byte) []byte { return appendDecimal(b, int64(p)) }

// Append appends the shortest decimal text of z.
func (z Size) Append(b []byte) []byte { return appendDecimal(b, int64(z)) }

func (p Price) String() string { return string(p.Append(nil)) }
func (z Size) String() string  { return string(z.Append(nil)) }

func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}

func appendDecimal(b []byte, v int64) []byte {
	if v < 0 {
		b = append(b, '-')
	}
	u := magnitude(v)
	whole, frac := u/Scale, u%Scale
	b = appendUint(b, whole)
	if frac == 0 {
		return b
	}
	var d [9]byte
	d[0] = '.'
	for i := 8; i >= 1; i-- {
		d[i] = byte('0' + frac%10)
		frac /= 10
	}
	n := 9
	for d[n-1] == '0' {
		n--
	}
	return append(b, d[:n]...)
}

func appendUint(b []byte, v uint64) []byte {
	var d [20]byte
	i := len(d)
	for {
		i--
		d[i] = byte('0' + v%10)
		v /= 10
		if v == 0 {
			return append(b, d[i:]...)
		}
	}
}

// AppendScaled rounds v to the given number of decimals (0 to 8) and appends it as a whole number
// of that unit: 7049.5 with 2 decimals becomes 704950. It rounds halves away from zero. Book
// checksums use this form.
func AppendScaled(b []byte, v int64, decimals int) []byte {
	div := uint64(1)
	for range 8 - decimals {
		div *= 10
	}
	u := (magnitude(v) + div/2) / div
	if v < 0 && u != 0 {
		b = append(b, '-')
	}
	return appendUint(b, u)
}
