package export

import (
	"encoding/binary"
	"math/bits"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// decimal is a number in the format of Parquet: 128 bits, two's complement, big-endian. The column
// defines the scale.
type decimal = [16]byte

func decimalOf(v int64) (d decimal) {
	binary.BigEndian.PutUint64(d[:8], uint64(v>>63))
	binary.BigEndian.PutUint64(d[8:], uint64(v))
	return d
}

func decimalOfSum(s market.Sum) (d decimal) {
	binary.BigEndian.PutUint64(d[:8], s.Hi)
	binary.BigEndian.PutUint64(d[8:], s.Lo)
	return d
}

// appendExact appends a sum with the given decimals and all its digits, where the stream would
// round to fifteen.
func appendExact(b []byte, s market.Sum, decimals int) []byte {
	if int64(s.Hi) < 0 {
		b = append(b, '-')
		s = s.Negative()
	}
	var digits [40]byte
	i := len(digits)
	for n := 0; s != (market.Sum{}) || n <= decimals; n++ {
		var rest uint64
		s.Hi, rest = s.Hi/10, s.Hi%10
		s.Lo, rest = bits.Div64(rest, s.Lo, 10)
		i--
		digits[i] = byte('0' + rest)
	}
	point := len(digits) - decimals
	end := len(digits)
	for end > point && digits[end-1] == '0' {
		end--
	}
	b = append(b, digits[i:point]...)
	if end == point {
		return b
	}
	b = append(b, '.')
	return append(b, digits[point:end]...)
}

// vwapOf returns the average price of a bar as on the wire. ok is false if nothing was traded.
func vwapOf(k *journal.BarRow) (p market.Price, ok bool) {
	if k.Trades == 0 || k.Volume == (market.Sum{}) {
		return 0, false
	}
	var text [64]byte
	p, err := market.ParsePrice(market.AppendAverage(text[:0], k.Value, k.Volume))
	return p, err == nil
}
