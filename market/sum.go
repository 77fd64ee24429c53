package market

import "math/bits"

// Sum is an exact sum of sizes (in units of 1e-8) or of prices times sizes (in units of 1e-16). It
// is a two's complement number of 128 bits, with the upper ones in Hi, and holds turnovers up to
// 1.7e22.
type Sum struct{ Hi, Lo uint64 }

// Decimals of a Sum.
const (
	SizeDecimals  = 8  // of a sum of sizes
	ValueDecimals = 16 // of a sum of prices times sizes
)

// Sum returns the size as a Sum.
func (z Size) Sum() Sum { return Sum{uint64(z >> 63), uint64(z)} }

// Times returns the price times a size, which must not be negative.
func (p Price) Times(z Size) Sum {
	var s Sum
	s.Hi, s.Lo = bits.Mul64(magnitude(int64(p)), uint64(z))
	if p < 0 {
		return s.Negative()
	}
	return s
}

// Add returns s + t.
func (s Sum) Add(t Sum) Sum {
	lo, carry := bits.Add64(s.Lo, t.Lo, 0)
	return Sum{s.Hi + t.Hi + carry, lo}
}

// Negative returns -s.
func (s Sum) Negative() Sum {
	lo, borrow := bits.Sub64(0, s.Lo, 0)
	return Sum{-s.Hi - borrow, lo}
}

// magnitude returns the absolute value of s and reports whether s is negative.
func (s Sum) magnitude() (m Sum, negative bool) {
	if int64(s.Hi) < 0 {
		return s.Negative(), true
	}
	return s, false
}

// Append appends the shortest form of s, which is in units of 10^-decimals: 8 decimals for a sum of
// sizes, 16 for one of prices times sizes. The form has no exponent, no trailing zeros and no "-0".
// It rounds to MaxDigits significant digits, halves to even.
func (s Sum) Append(b []byte, decimals int) []byte {
	m, negative := s.magnitude()
	var buf [maxSumDigits]byte
	return appendRounded(b, m.digits(&buf), decimals, exactly, negative)
}

// AppendAverage appends the average price value/volume, where value is a sum of prices times sizes
// and volume a sum of sizes above 0. It rounds once, halves to even, to 8 decimals or MaxDigits
// significant digits, whichever is coarser.
func AppendAverage(b []byte, value, volume Sum) []byte {
	m, negative := value.magnitude()
	q, rest := m.divide(volume)
	var buf [maxSumDigits]byte
	return appendRounded(b, Sum{Lo: q}.digits(&buf), 8, rest, negative)
}

// divide returns the whole part of s / d, which must fit 64 bits, and how the remainder compares
// with half of d.
func (s Sum) divide(d Sum) (q uint64, rest remainder) {
	var r Sum
	if d.Hi == 0 && s.Hi < d.Lo {
		q, r.Lo = bits.Div64(s.Hi, s.Lo, d.Lo)
	} else {
		for range 128 {
			r = Sum{r.Hi<<1 | r.Lo>>63, r.Lo<<1 | s.Hi>>63}
			s = Sum{s.Hi<<1 | s.Lo>>63, s.Lo << 1}
			q <<= 1
			if lo, borrow := bits.Sub64(r.Lo, d.Lo, 0); r.Hi > d.Hi || r.Hi == d.Hi && borrow == 0 {
				r = Sum{r.Hi - d.Hi - borrow, lo}
				q |= 1
			}
		}
	}
	if r == (Sum{}) {
		return q, exactly
	}
	twice := r.Add(r)
	switch {
	case twice == d:
		return q, half
	case twice.Hi < d.Hi || twice.Hi == d.Hi && twice.Lo < d.Lo:
		return q, belowHalf
	}
	return q, aboveHalf
}

// remainder classifies the digits that rounding removes, in units of the last digit kept.
type remainder uint8

const (
	exactly remainder = iota // zero
	belowHalf
	half
	aboveHalf
)

// maxSumDigits is the maximum number of digits of a Sum.
const maxSumDigits = 40

// digits writes the decimal digits of s, without leading zeros, to the end of buf and returns them.
func (s Sum) digits(buf *[maxSumDigits]byte) []byte {
	const part = 1e19 // 19 digits; more than any Hi of a magnitude
	at := len(buf)
	put := func(v uint64, atLeast int) {
		for n := 0; v > 0 || n < atLeast; n++ {
			at--
			buf[at] = byte('0' + v%10)
			v /= 10
		}
	}
	if s.Hi == 0 {
		put(s.Lo, 0)
	} else {
		high, low := bits.Div64(s.Hi, s.Lo, part)
		put(low, 19)
		put(high, 0)
	}
	return buf[at:]
}

// appendRounded rounds and appends a number. digits has its digits, the last decimals of which are
// after the point; rest describes what follows them.
func appendRounded(b, digits []byte, decimals int, rest remainder, negative bool) []byte {
	var buf [2 * maxSumDigits]byte
	lead := max(1, decimals+1-len(digits)) // leading zeros, for a carry and up to the point
	d := buf[:0]
	for range lead {
		d = append(d, '0')
	}
	d = append(d, digits...)
	keep := min(len(d), lead+MaxDigits)
	rest = roundingOf(d[keep:], rest)
	if rest == aboveHalf || rest == half && d[keep-1]%2 == 1 { // '0' is even
		i := keep - 1
		for ; d[i] == '9'; i-- {
			d[i] = '0'
		}
		d[i]++
	}
	whole, fraction := d[:len(d)-decimals], d[len(d)-decimals:]
	for len(whole) > 1 && whole[0] == '0' {
		whole = whole[1:]
	}
	for len(fraction) > 0 && fraction[len(fraction)-1] == '0' {
		fraction = fraction[:len(fraction)-1]
	}
	if negative && (len(fraction) > 0 || whole[0] != '0') {
		b = append(b, '-')
	}
	b = append(b, whole...)
	if len(fraction) > 0 {
		b = append(b, '.')
		b = append(b, fraction...)
	}
	return b
}

// roundingOf sets the digits after the last one kept to zero and classifies them, together with the
// rest after them.
func roundingOf(digits []byte, rest remainder) remainder {
	if len(digits) == 0 {
		return rest
	}
	first, more := digits[0], rest != exactly
	for i := range digits {
		more = more || i > 0 && digits[i] != '0'
		digits[i] = '0'
	}
	switch {
	case first > '5' || first == '5' && more:
		return aboveHalf
	case first == '5':
		return half
	case first > '0' || more:
		return belowHalf
	}
	return exactly
}

// ParseSum parses the text of a Sum with the given number of decimals: a plain decimal, as for
// ParsePrice. It never rounds; it returns ErrNotDecimal, ErrPrecision or ErrRange instead.
func ParseSum[T string | []byte](s T, decimals int) (Sum, error) {
	i, negative := 0, false
	if len(s) > 0 && s[0] == '-' {
		negative, i = true, 1
	}
	var sum Sum
	start, point := i, -1
	for ; i < len(s); i++ {
		digit := uint64(s[i] - '0')
		switch {
		case s[i] == '.' && point < 0 && i > start && i+1 < len(s):
			point = i
			continue
		case digit > 9:
			return Sum{}, ErrNotDecimal
		case point >= 0 && i-point > decimals:
			if digit != 0 {
				return Sum{}, ErrPrecision
			}
			continue
		}
		if !sum.shift(digit) {
			return Sum{}, ErrRange
		}
	}
	if i == start {
		return Sum{}, ErrNotDecimal
	}
	missing := decimals
	if point >= 0 {
		missing = max(0, decimals-(len(s)-1-point))
	}
	for range missing {
		if !sum.shift(0) {
			return Sum{}, ErrRange
		}
	}
	if negative {
		return sum.Negative(), nil
	}
	return sum, nil
}

// shift appends a digit. It reports false if the result does not fit.
func (s *Sum) shift(digit uint64) bool {
	high, low := bits.Mul64(s.Lo, 10)
	overflow, top := bits.Mul64(s.Hi, 10)
	low, carry := bits.Add64(low, digit, 0)
	top, carry = bits.Add64(top, high, carry)
	*s = Sum{top, low}
	return overflow == 0 && carry == 0 && top < 1<<63
}
