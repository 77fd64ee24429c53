package market

import "math/bits"

// Sum is an exact sum of sizes, in units of 1e-8, or of prices times sizes, in units
// of 1e-16: a two's complement number of 128 bits, of which Hi are the upper ones. It
// holds turnovers up to 1.7e22.
type Sum struct{ Hi, Lo uint64 }

// Decimals of a Sum.
const (
	SizeDecimals  = 8  // of a sum of sizes
	ValueDecimals = 16 // of a sum of prices times sizes
)

// Sum is the size as the first term of a sum.
func (z Size) Sum() Sum { return Sum{uint64(z >> 63), uint64(z)} }

// Times is the price times a size that is not negative.
func (p Price) Times(z Size) Sum {
	var s Sum
	s.Hi, s.Lo = bits.Mul64(magnitude(int64(p)), uint64(z))
	if p < 0 {
		return s.Negative()
	}
	return s
}

// Add is s + t.
func (s Sum) Add(t Sum) Sum {
	lo, carry := bits.Add64(s.Lo, t.Lo, 0)
	return Sum{s.Hi + t.Hi + carry, lo}
}

// Negative is -s.
func (s Sum) Negative() Sum {
	lo, borrow := bits.Sub64(0, s.Lo, 0)
	return Sum{-s.Hi - borrow, lo}
}

// magnitude is s without its sign.
func (s Sum) magnitude() (m Sum, negative bool) {
	if int64(s.Hi) < 0 {
		return s.Negative(), true
	}
	return s, false
}

// Append appends s, of so many decimals, in its shortest form: no exponent, no
// trailing zero, no -0. More than MaxDigits significant digits are rounded to
// that many, halves to the even neighbour.
func (s Sum) Append(b []byte, decimals int) []byte {
	m, negative := s.magnitude()
	var buf [maxSumDigits]byte
	return appendRounded(b, m.digits(&buf), decimals, exactly, negative)
}

// AppendAverage appends value over volume, a sum of prices times sizes over one of
// sizes: their average price. It is rounded once, halves to the even neighbour, to 8
// decimals and MaxDigits significant digits, whichever is coarser. volume is above 0.
func AppendAverage(b []byte, value, volume Sum) []byte {
	m, negative := value.magnitude()
	q, rest := m.over(volume)
	var buf [maxSumDigits]byte
	return appendRounded(b, Sum{Lo: q}.digits(&buf), 8, rest, negative)
}

// over is the whole part of s / d, which has 64 bits, and how its rest compares
// with half of d.
func (s Sum) over(d Sum) (q uint64, rest remainder) {
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

// remainder is what lies behind the last digit, in units of that digit.
type remainder uint8

const (
	exactly remainder = iota // nothing
	belowHalf
	half
	aboveHalf
)

// maxSumDigits is room for the digits of any Sum.
const maxSumDigits = 40

// digits is s in decimal, without zeros in front, at the end of buf.
func (s Sum) digits(buf *[maxSumDigits]byte) []byte {
	const part = 1e19 // of 19 digits, above any Hi of a magnitude
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

// appendRounded appends a number by its digits, of which the last so many are
// behind the point, and by what lies behind them.
func appendRounded(b, digits []byte, decimals int, rest remainder, negative bool) []byte {
	var buf [2 * maxSumDigits]byte
	lead := max(1, decimals+1-len(digits)) // zeros in front: for a carry, and up to the point
	d := buf[:0]
	for range lead {
		d = append(d, '0')
	}
	d = append(d, digits...)
	keep := min(len(d), lead+MaxDigits)
	rest = cut(d[keep:], rest)
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

// cut makes digits behind the last one that is kept zeros, and says how they and the
// rest behind them compare with half of one of that.
func cut(digits []byte, rest remainder) remainder {
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
