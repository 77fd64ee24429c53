package record

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ruedahq/rueda/market"
)

// A record is a multiple of 8 bytes, little-endian. Its head:
//
//	 0 kind    1 flags    2 length in words of 8 bytes
//	 4 instrument         8 position, from that of the block
//	12 At, from that of the block
//	16 N, low half       20 Time from At, signed
//
// Then come, if their flag is set, words of 8 bytes for values that exceed the short form: the
// length in words, the high half of N, the full Time and the full At. The fields of the kind
// follow.
const (
	HeadSize = 24 // of a record without the optional words

	FlagCheckpoint        = 1 << 0 // part of a checkpoint
	flagLatency           = 1 << 1 // D is set: max(0, At-Time)
	flagLong              = 1 << 2 // the length has its own word
	flagN                 = 1 << 3
	flagTime              = 1 << 4
	flagAt                = 1 << 5
	sideShift             = 6
	flagCheckpointFollows = 1 << sideShift // of a Gap, which has no side
)

// Records that are not rows.
const (
	recBlock   Kind = 0xB0 + iota // begins a block: base of positions and times
	Definition                    // definition of an instrument, as JSON
	CheckpointBegin
	CheckpointEnd // of a complete checkpoint
	SourceNumber  // newest sequence number of a source: Source
)

// NumKinds is above the kinds of rows and below those of other records.
const NumKinds = Gap + 1

// Limits of Append; the hub's own limits are far lower.
const (
	maxText   = 255
	maxLevels = 1 << 20 // of one side
)

// Base has the values to which the records of a block are relative.
type Base struct {
	Position uint64
	At       int64
}

// Fits reports whether a row can be encoded in the block: its position and At must not be too far
// ahead. An earlier At takes a full word.
func (b Base) Fits(r *Row) bool {
	return r.Position-b.Position <= math.MaxUint32 &&
		(r.At < b.At || uint64(r.At)-uint64(b.At) <= math.MaxUint32)
}

// Append appends the record of a row that fits base.
func Append(b []byte, base Base, r *Row) []byte {
	start := len(b)
	b = slices.Grow(b, 128)[:start+HeadSize] // enough for almost every record
	flags := uint64(r.Side&3) << sideShift
	if r.Checkpoint {
		flags |= FlagCheckpoint
	}
	if r.CheckpointFollows {
		flags |= flagCheckpointFollows
	}
	if r.Latency >= 0 {
		flags |= flagLatency
	}
	if r.N > math.MaxUint32 {
		flags |= flagN
		b = binary.LittleEndian.AppendUint64(b, r.N>>32)
	}
	ahead := r.Time - r.At
	if ahead != int64(int32(ahead)) || (r.Time < 0) != (r.At < 0) {
		flags |= flagTime
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Time))
	}
	late := uint64(r.At) - uint64(base.At)
	if late > math.MaxUint32 {
		flags |= flagAt
		b = binary.LittleEndian.AppendUint64(b, uint64(r.At))
	}
	if r.Kind == BookUpdate && len(r.Bids)+len(r.Asks) == 1 {
		b = appendLevel(b, r.Bids, r.Asks) // the most frequent case
	} else {
		b = appendBody(b, r)
	}
	for len(b)&7 != 0 {
		b = append(b, 0)
	}
	words := uint64(len(b)-start) / 8
	if words > math.MaxUint16 {
		b = lengthen(b, start, words+1)
		flags, words = flags|flagLong, 0
	}
	h := b[start : start+HeadSize]
	binary.LittleEndian.PutUint64(h, uint64(r.Kind)|flags<<8|words<<16|uint64(r.Instrument)<<32)
	binary.LittleEndian.PutUint64(h[8:], (r.Position-base.Position)&math.MaxUint32|late<<32)
	binary.LittleEndian.PutUint64(h[16:], r.N&math.MaxUint32|uint64(ahead)<<32)
	return b
}

// appendLevel appends one level as appendLevels does.
func appendLevel(b []byte, bids, asks []market.Level) []byte {
	l, count := bids, uint64(1)
	if len(bids) == 0 {
		l, count = asks, 1<<16
	}
	at := len(b)
	b = slices.Grow(b, 24)[:at+24]
	w := b[at : at+24]
	binary.LittleEndian.PutUint64(w, count|uint64(l[0].Orders)<<32)
	binary.LittleEndian.PutUint64(w[8:], uint64(l[0].Price))
	binary.LittleEndian.PutUint64(w[16:], uint64(l[0].Size))
	return b
}

// lengthen inserts the length word after the header of the record at start.
func lengthen(b []byte, start int, words uint64) []byte {
	b = append(b, make([]byte, 8)...)
	at := start + HeadSize
	copy(b[at+8:], b[at:len(b)-8])
	binary.LittleEndian.PutUint64(b[at:], words)
	return b
}

// appendBody appends the fields of a row's kind, without padding.
func appendBody(b []byte, r *Row) []byte {
	switch r.Kind {
	case Trade:
		b = AppendWords(b, uint64(r.Price), uint64(r.Size))
		return appendTradeTexts(b, r)
	case Cancel:
		b = AppendWords(b, uint64(r.Price), uint64(r.Size), r.RefN)
		return appendTradeTexts(b, r)
	case Correct:
		b = AppendWords(b, uint64(r.Price), uint64(r.Size), r.RefN, uint64(r.OldPrice), uint64(r.OldSize))
		return appendTradeTexts(b, r)
	case Status:
		b = AppendWords(b, uint64(r.Until))
		return appendText(append(b, byte(r.Phase)), r.Reason)
	case Quote, BookUpdate, BookState:
		return appendLevels(b, r.Bids, r.Asks)
	case BookLost, Gap:
		return appendText(b, r.Reason)
	case Reference:
		return AppendWords(b, uint64(r.Price), uint64(r.OldPrice), uint64(r.Size))
	case Bar:
		return appendBar(b, &r.Bar)
	case Numbers:
		b = AppendWords(b, r.Counts.N[:]...)
		return AppendWords(b, r.Counts.Bars[:]...)
	}
	return b
}

// AppendWords appends words, little-endian.
func AppendWords(b []byte, words ...uint64) []byte {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

func appendText(b []byte, s string) []byte {
	s = s[:min(len(s), maxText)]
	b = append(b, byte(len(s)))
	return append(b, s...)
}

// appendLevels appends the numbers of levels, then prices and sizes, then the numbers of orders.
// The first number of orders shares the word of the level counts, so that a change of one level
// takes three words.
func appendLevels(b []byte, bids, asks []market.Level) []byte {
	bids, asks = bids[:min(len(bids), maxLevels)], asks[:min(len(asks), maxLevels)]
	first := uint32(0)
	if len(bids) > 0 {
		first = bids[0].Orders
	} else if len(asks) > 0 {
		first = asks[0].Orders
	}
	if len(bids) < math.MaxUint16 && len(asks) < math.MaxUint16 {
		b = AppendWords(b, uint64(len(bids))|uint64(len(asks))<<16|uint64(first)<<32)
	} else {
		b = AppendWords(b, math.MaxUint32|uint64(first)<<32, uint64(len(bids))|uint64(len(asks))<<32)
	}
	for i := range bids {
		b = binary.LittleEndian.AppendUint64(b, uint64(bids[i].Price))
		b = binary.LittleEndian.AppendUint64(b, uint64(bids[i].Size))
	}
	for i := range asks {
		b = binary.LittleEndian.AppendUint64(b, uint64(asks[i].Price))
		b = binary.LittleEndian.AppendUint64(b, uint64(asks[i].Size))
	}
	skip := 1
	for _, side := range [2][]market.Level{bids, asks} {
		for i := range side {
			if skip > 0 {
				skip--
				continue
			}
			b = binary.LittleEndian.AppendUint32(b, side[i].Orders)
		}
	}
	return b
}

const (
	barRevised = 1 << 0
	barOpen    = 1 << 1
)

func appendBar(b []byte, r *BarRow) []byte {
	flags := byte(0)
	if r.Revised {
		flags |= barRevised
	}
	if r.Open {
		flags |= barOpen
	}
	b = append(b, byte(r.Interval), flags, 0, 0)
	b = binary.LittleEndian.AppendUint32(b, r.Trades)
	return AppendWords(b, uint64(r.First), uint64(r.High), uint64(r.Low), uint64(r.Last),
		r.Volume.Hi, r.Volume.Lo, r.Value.Hi, r.Value.Lo)
}

// AppendBlock appends the record that begins a block. It contains its offset in the file, so that a
// moved block is detected.
func AppendBlock(b []byte, base Base, offset int64) []byte {
	b = append(b, byte(recBlock), 0, 4, 0)
	b = append(b, blockMagic...)
	return AppendWords(b, base.Position, uint64(base.At), uint64(offset))
}

const (
	blockMagic = "RJBK"
	BlockSize  = 32 // of the record that begins a block
)

// AppendMark appends a record without fields.
func AppendMark(b []byte, kind Kind) []byte {
	b = append(b, byte(kind), 0, HeadSize/8, 0)
	return append(b, make([]byte, HeadSize-4)...)
}

// AppendDefinition appends the definition of an instrument, as JSON.
func AppendDefinition(b []byte, number uint32, def []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, HeadSize)...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(def)))
	b = append(b, def...)
	for len(b)&7 != 0 {
		b = append(b, 0)
	}
	words := uint64(len(b)-start) / 8
	flags := byte(0)
	if words > math.MaxUint16 {
		b = lengthen(b, start, words+1)
		flags, words = flagLong, 0
	}
	h := b[start:]
	h[0], h[1] = byte(Definition), flags
	binary.LittleEndian.PutUint16(h[2:], uint16(words))
	binary.LittleEndian.PutUint32(h[4:], number)
	return b
}
