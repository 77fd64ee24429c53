package market

import (
	"encoding/binary"
	"slices"
)

// TradeDetails has the fields of a trade that are passed on from the feed to the client and are not
// needed to count or number trades. [Event], the rows of the journal, the recent rows and the
// messages embed it, so that the code between them copies every field.
type TradeDetails struct {
	Conditions []string // words of the market, such as odd_lot
}

// IsZero reports whether no field is set.
func (d *TradeDetails) IsZero() bool { return len(d.Conditions) == 0 }

// Clone returns a copy that shares no slice with d.
func (d *TradeDetails) Clone() TradeDetails {
	return TradeDetails{Conditions: slices.Clone(d.Conditions)}
}

// AppendBinary appends an encoding of all fields to b. It is unambiguous, so that it can be hashed.
func (d *TradeDetails) AppendBinary(b []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(d.Conditions)))
	for _, c := range d.Conditions {
		b = binary.AppendUvarint(b, uint64(len(c)))
		b = append(b, c...)
	}
	return b
}

// MaxBinary returns an upper bound for the number of bytes that AppendBinary appends.
func (d *TradeDetails) MaxBinary() int {
	n := binary.MaxVarintLen64
	for _, c := range d.Conditions {
		n += binary.MaxVarintLen64 + len(c)
	}
	return n
}

// ReadBinary sets d from the result of AppendBinary at the beginning of b, and returns the rest of
// b. It panics if b was not made by AppendBinary.
func (d *TradeDetails) ReadBinary(b []byte) []byte {
	count, n := binary.Uvarint(b)
	b = b[n:]
	d.Conditions = nil
	for range count {
		length, n := binary.Uvarint(b)
		b = b[n:]
		d.Conditions = append(d.Conditions, string(b[:length]))
		b = b[length:]
	}
	return b
}
