package record

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/market"
)

// Head is the decoded header of a record.
type Head struct {
	Kind       Kind
	Flags      byte
	Instrument uint32
	body       int // offset of the kind's fields
	Position   uint64
	N          uint64
	Time, At   int64
}

// Size returns the length of the record at the start of b; 0 if it is incomplete.
func Size(b []byte) int {
	if len(b) < HeadSize {
		return 0
	}
	if n := WantedSize(b); n >= HeadSize && n <= len(b) {
		return n
	}
	return 0
}

// WantedSize returns the length in the header of a record; 0 if it is invalid or b does not have
// it.
func WantedSize(b []byte) int {
	if b[1]&flagLong == 0 {
		return int(binary.LittleEndian.Uint16(b[2:])) * 8
	}
	if len(b) < HeadSize+8 || Word(b[HeadSize:], 0) > maxFrame {
		return 0
	}
	return int(Word(b[HeadSize:], 0)) * 8
}

// Instrument returns the number of the instrument of a record.
func Instrument(rec []byte) uint32 { return binary.LittleEndian.Uint32(rec[4:]) }

// IsMessage reports whether a record is a message of the stream: not part of a checkpoint and no
// Gap.
func IsMessage(rec []byte) bool {
	return rec[0] < byte(Gap) && rec[1]&FlagCheckpoint == 0
}

// AppendCanonical appends an encoding of a record that does not depend on its file.
func AppendCanonical(b []byte, h *Head, rec []byte) []byte {
	const own = flagLatency | 3<<sideShift
	b = append(b, byte(h.Kind), h.Flags&own)
	b = binary.LittleEndian.AppendUint32(b, h.Instrument)
	b = AppendWords(b, h.Position, h.N, uint64(h.Time), uint64(h.At))
	return append(b, rec[h.body:]...)
}

// Parse decodes the header of a complete record. It returns false for an invalid one.
func (h *Head) Parse(rec []byte, base Base) (ok bool) {
	h.Kind, h.Flags = Kind(rec[0]), rec[1]
	h.Instrument = binary.LittleEndian.Uint32(rec[4:])
	h.Position = base.Position + uint64(binary.LittleEndian.Uint32(rec[8:]))
	h.At = base.At + int64(binary.LittleEndian.Uint32(rec[12:]))
	h.N = uint64(binary.LittleEndian.Uint32(rec[16:]))
	h.body = HeadSize
	if h.Flags&(flagLong|flagN|flagTime|flagAt) == 0 {
		h.Time = h.At + int64(int32(binary.LittleEndian.Uint32(rec[20:])))
		return true
	}
	return h.parseLong(rec)
}

// parseLong decodes the words that exceed the short form.
func (h *Head) parseLong(rec []byte) (ok bool) {
	next := func() (w uint64) {
		if len(rec) < h.body+8 {
			h.body = math.MaxInt - 8
			return 0
		}
		w = binary.LittleEndian.Uint64(rec[h.body:])
		h.body += 8
		return w
	}
	if h.Flags&flagLong != 0 {
		next()
	}
	if h.Flags&flagN != 0 {
		h.N |= next() << 32
	}
	whole := int64(0)
	if h.Flags&flagTime != 0 {
		whole = int64(next())
	}
	if h.Flags&flagAt != 0 {
		h.At = int64(next())
	}
	h.Time = h.At + int64(int32(binary.LittleEndian.Uint32(rec[20:])))
	if h.Flags&flagTime != 0 {
		h.Time = whole
	}
	return h.body <= len(rec)
}

// Decoder decodes records. It has a row for each kind, so that fields which a kind does not use
// need no clearing.
type Decoder struct {
	head  Head
	rows  [NumKinds]Row
	words map[string]string // known reasons and conditions: few and frequent
	one   [1]market.Level
	sides [2]Row // one changed level: of bids, of asks
	touch [2]market.Level
	quote Row // of one bid and one ask
	bids  []market.Level
	asks  []market.Level
	slab  strings.Builder // backing memory of texts
}

// maxWords bounds the words of a decoder.
const maxWords = 1024

// Decode decodes a record. The row is valid until the next call. Values that vary at random (the
// side, whether a latency is set) are computed without branches, which would often be mispredicted.
func (d *Decoder) Decode(rec []byte, base Base) (*Row, bool) {
	w := Word(rec, 0)
	switch {
	case w&shortBits == levelWord && len(rec) == LevelSize:
		if r := d.DecodeLevel((*[LevelSize]byte)(rec), base); r != nil {
			return r, true
		}
	case w&shortBits == pairWord && len(rec) == pairSize:
		if r := d.pair((*[pairSize]byte)(rec), base); r != nil {
			return r, true
		}
	}
	kind := Kind(w)
	if kind == 0 || kind >= NumKinds {
		return nil, false
	}
	r := &d.rows[kind]
	r.Kind = kind
	r.Checkpoint = w>>8&FlagCheckpoint != 0
	body := HeadSize
	if w>>8&(flagLong|flagN|flagTime|flagAt) == 0 {
		r.setInstrument(w)
		r.setPosition(w, Word(rec, 1), Word(rec, 2), base)
	} else {
		h := &d.head
		if !h.Parse(rec, base) {
			return nil, false
		}
		r.Side, r.Instrument, r.Position = market.Side(h.Flags>>sideShift), h.Instrument, h.Position
		r.At, r.N, r.Time, body = h.At, h.N, h.Time, h.body
		given := int64(h.Flags / flagLatency & 1)
		r.Latency = max(0, r.At-r.Time)&-given | (given - 1)
	}
	return r, d.body(r, rec[body:])
}

// setInstrument decodes the first word of a header, except for the kind.
func (r *Row) setInstrument(w uint64) {
	r.Side, r.Instrument = market.Side(byte(w>>8)>>sideShift), uint32(w>>32)
}

// setPosition decodes the other words of a header in the short form.
func (r *Row) setPosition(w, late, ahead uint64, base Base) {
	r.Position = base.Position + late&math.MaxUint32
	at, d, given := base.At+int64(late>>32), int64(ahead)>>32, int64(w>>8/flagLatency&1)
	r.N, r.At, r.Time = ahead&math.MaxUint32, at, at+d
	r.Latency = max(0, -d)&-given | (given - 1)
}

// Most records are changes of one level, or quotes with two sides, in the short form. In these, the
// bits shortBits of the first word equal levelWord or pairWord.
const (
	LevelSize = HeadSize + 24
	pairSize  = HeadSize + 48
	shortBits = math.MaxUint16<<16 | (FlagCheckpoint|flagLong|flagN|flagTime|flagAt)<<8 | math.MaxUint8
	levelWord = LevelSize/8<<16 | uint64(BookUpdate)
	pairWord  = pairSize/8<<16 | uint64(Quote)
)

// IsLevel reports whether b begins with a short record of kind BookUpdate and of the size of one
// level.
func IsLevel(b []byte) bool { return len(b) >= LevelSize && Word(b, 0)&shortBits == levelWord }

// DecodeLevel decodes a change of one level as Decode does; nil if there are more levels. Each side
// has its own row with fixed slices, so that no pointer is stored.
func (d *Decoder) DecodeLevel(rec *[LevelSize]byte, base Base) *Row {
	w := binary.LittleEndian.Uint64(rec[24:])
	asks := w >> 16 & math.MaxUint16
	if w&math.MaxUint16+asks != 1 {
		return nil
	}
	r := &d.sides[asks&1]
	if r.Kind == 0 {
		d.sides[0] = Row{Kind: BookUpdate, Bids: d.one[:]}
		d.sides[1] = Row{Kind: BookUpdate, Asks: d.one[:]}
	}
	l := &d.one[0]
	l.Orders = uint32(w >> 32)
	l.Price = market.Price(binary.LittleEndian.Uint64(rec[32:]))
	l.Size = market.Size(binary.LittleEndian.Uint64(rec[40:]))
	w = binary.LittleEndian.Uint64(rec[0:])
	r.setInstrument(w)
	r.setPosition(w, binary.LittleEndian.Uint64(rec[8:]), binary.LittleEndian.Uint64(rec[16:]), base)
	return r
}

// pair decodes a quote with a bid and an ask as Decode does; nil for others.
func (d *Decoder) pair(rec *[pairSize]byte, base Base) *Row {
	w := binary.LittleEndian.Uint64(rec[24:])
	if w&math.MaxUint32 != 1<<16|1 {
		return nil
	}
	r := &d.quote
	if r.Kind == 0 {
		*r = Row{Kind: Quote, Bids: d.touch[:1], Asks: d.touch[1:]}
	}
	bid, ask := &d.touch[0], &d.touch[1]
	bid.Orders, ask.Orders = uint32(w>>32), binary.LittleEndian.Uint32(rec[64:])
	bid.Price = market.Price(binary.LittleEndian.Uint64(rec[32:]))
	bid.Size = market.Size(binary.LittleEndian.Uint64(rec[40:]))
	ask.Price = market.Price(binary.LittleEndian.Uint64(rec[48:]))
	ask.Size = market.Size(binary.LittleEndian.Uint64(rec[56:]))
	w = binary.LittleEndian.Uint64(rec[0:])
	r.setInstrument(w)
	r.setPosition(w, binary.LittleEndian.Uint64(rec[8:]), binary.LittleEndian.Uint64(rec[16:]), base)
	return r
}

func (d *Decoder) body(r *Row, b []byte) bool {
	switch r.Kind {
	case BookUpdate, Quote, BookState:
		return d.levels(r, b)
	case Trade:
		if len(b) < 16 {
			return false
		}
		r.Price, r.Size = market.Price(Word(b, 0)), market.Size(Word(b, 1))
		return d.tradeTexts(r, b[16:])
	case Cancel:
		if len(b) < 24 {
			return false
		}
		r.Price, r.Size, r.RefN = market.Price(Word(b, 0)), market.Size(Word(b, 1)), Word(b, 2)
		return d.tradeTexts(r, b[24:])
	case Correct:
		if len(b) < 40 {
			return false
		}
		r.Price, r.Size, r.RefN = market.Price(Word(b, 0)), market.Size(Word(b, 1)), Word(b, 2)
		r.OldPrice, r.OldSize = market.Price(Word(b, 3)), market.Size(Word(b, 4))
		return d.tradeTexts(r, b[40:])
	case Status:
		if len(b) < 9 {
			return false
		}
		r.Until, r.Phase = int64(Word(b, 0)), market.Phase(b[8])
		return d.reason(r, b[9:])
	case Gap:
		r.CheckpointFollows, r.Side = r.Side != 0, 0
		return d.reason(r, b)
	case BookLost:
		return d.reason(r, b)
	case Reference:
		if len(b) < 24 {
			return false
		}
		r.Price, r.OldPrice, r.Size = market.Price(Word(b, 0)), market.Price(Word(b, 1)), market.Size(Word(b, 2))
		return true
	case Bar:
		return decodeBar(&r.Bar, b)
	case Numbers:
		return decodeCounts(&r.Counts, b)
	}
	return false
}

// Word returns the i-th word of b, little-endian.
func Word(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }

// cutText returns the text at the start of b and the rest.
func cutText(b []byte) (text, rest []byte, ok bool) {
	if len(b) == 0 || len(b) <= int(b[0]) {
		return nil, nil, false
	}
	n := 1 + int(b[0])
	return b[1:n], b[n:], true
}

func (d *Decoder) reason(r *Row, b []byte) bool {
	text, _, ok := cutText(b)
	r.Reason = d.word(text)
	return ok
}

// slabBytes is the size of the memory for many texts. Allocating them one by one would cost the
// collector more than the rows.
const slabBytes = 4 << 10

// text returns a text as a string.
func (d *Decoder) text(text []byte) string {
	if d.slab.Len()+len(text) > d.slab.Cap() {
		d.slab = strings.Builder{}
		d.slab.Grow(max(slabBytes, len(text)))
	}
	n := d.slab.Len()
	d.slab.Write(text)
	return d.slab.String()[n:]
}

// word returns a text as a string, and the same string for equal texts.
func (d *Decoder) word(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	if s, ok := d.words[string(text)]; ok {
		return s
	}
	s := string(text)
	if d.words == nil {
		d.words = map[string]string{}
	}
	if len(d.words) < maxWords {
		d.words[s] = s
	}
	return s
}

func (d *Decoder) levels(r *Row, b []byte) bool {
	if len(b) < 8 {
		return false
	}
	w := Word(b, 0)
	bids, asks, first := int(w&math.MaxUint16), int(w>>16&math.MaxUint16), uint32(w>>32)
	b = b[8:]
	if bids == math.MaxUint16 && asks == math.MaxUint16 {
		if len(b) < 8 {
			return false
		}
		w = Word(b, 0)
		bids, asks = int(w&math.MaxUint32), int(w>>32)
		b = b[8:]
	}
	n := bids + asks
	if n > len(b)/16 || n > 1 && 16*n+4*(n-1) > len(b) {
		return false
	}
	d.bids, d.asks = slices.Grow(d.bids[:0], bids)[:bids], slices.Grow(d.asks[:0], asks)[:asks]
	r.Bids, r.Asks = d.bids, d.asks
	for i := range r.Bids {
		r.Bids[i] = market.Level{Price: market.Price(Word(b, 2*i)), Size: market.Size(Word(b, 2*i+1)), Orders: first}
	}
	b = b[16*bids:]
	for i := range r.Asks {
		r.Asks[i] = market.Level{Price: market.Price(Word(b, 2*i)), Size: market.Size(Word(b, 2*i+1)), Orders: first}
	}
	if n > 1 {
		orders(r.Bids, r.Asks, b[16*asks:])
	}
	return true
}

// orders decodes the numbers of orders of all levels except the first.
func orders(bids, asks []market.Level, b []byte) {
	skip := 1
	for _, side := range [2][]market.Level{bids, asks} {
		for i := range side {
			if skip > 0 {
				skip--
				continue
			}
			side[i].Orders = binary.LittleEndian.Uint32(b)
			b = b[4:]
		}
	}
}

func decodeBar(r *BarRow, b []byte) bool {
	if len(b) < 72 || b[0] >= byte(NumIntervals) {
		return false
	}
	r.Interval = Interval(b[0])
	r.Revised, r.Open = b[1]&barRevised != 0, b[1]&barOpen != 0
	r.Trades = binary.LittleEndian.Uint32(b[4:])
	r.First, r.High = market.Price(Word(b, 1)), market.Price(Word(b, 2))
	r.Low, r.Last = market.Price(Word(b, 3)), market.Price(Word(b, 4))
	r.Volume = market.Sum{Hi: Word(b, 5), Lo: Word(b, 6)}
	r.Value = market.Sum{Hi: Word(b, 7), Lo: Word(b, 8)}
	return true
}

func decodeCounts(c *Counts, b []byte) bool {
	if len(b) < 8*int(NumChannels)+8*int(NumIntervals) {
		return false
	}
	for i := range c.N {
		c.N[i] = Word(b, i)
	}
	b = b[8*len(c.N):]
	for i := range c.Bars {
		c.Bars[i] = Word(b, i)
	}
	return true
}

// decodeBlock decodes the record that begins a block.
func decodeBlock(rec []byte) (b Base, offset int64, ok bool) {
	if len(rec) < BlockSize || rec[1] != 0 || binary.LittleEndian.Uint16(rec[2:]) != BlockSize/8 || string(rec[4:8]) != blockMagic {
		return Base{}, 0, false
	}
	return Base{Word(rec, 1), int64(Word(rec, 2))}, int64(Word(rec, 3)), true
}

// DecodeDefinition decodes a definition: the number and the JSON.
func DecodeDefinition(rec []byte) (number uint32, def []byte, ok bool) {
	at := HeadSize
	if rec[1]&flagLong != 0 {
		at += 8
	}
	if len(rec) < at+4 {
		return 0, nil, false
	}
	n := int(binary.LittleEndian.Uint32(rec[at:]))
	if n > len(rec)-at-4 {
		return 0, nil, false
	}
	return binary.LittleEndian.Uint32(rec[4:]), rec[at+4 : at+4+n], true
}
