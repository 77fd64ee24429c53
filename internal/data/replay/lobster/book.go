package lobster

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// row is a line of the order book file together with the previous line. Most lines change one of
// twenty levels, so text that did not change is not parsed again.
type row struct {
	text     []byte
	starts   []int // of each pair of levels in text
	pairs    []levels
	previous []levels // pairs of the previous line that have changed
	from     int      // first pair that differs from the previous line
	to       int      // end of the pairs that differ
	started  bool     // a book was played
}

// levels is one pair of levels. A side of size 0 is empty.
type levels struct{ ask, bid market.Level }

// noPrice is the price of an empty level; for bids it is negative.
const noPrice = 9_999_999_999

var (
	errLevels  = errors.New("not a line of ask price,ask size,bid price,bid size for each level")
	errOrdered = errors.New("levels that are not best first")
)

// read parses a line.
func (r *row) read(line []byte) error {
	if r.text == nil {
		return r.all(line)
	}
	same := common(r.text, line)
	if same == len(line) && same == len(r.text) {
		r.from, r.to = 0, 0
		return nil
	}
	k := 0
	for k+1 < len(r.starts) && r.starts[k+1] <= same {
		k++
	}
	// Parse pairs over those of the previous line until the rest of both lines is equal.
	at, columns := r.starts[k], len(r.pairs)
	for r.from = k; ; k++ {
		if k == columns {
			return surplus(line, at, columns)
		}
		old := len(r.text)
		if k+1 < columns {
			old = r.starts[k+1] - 1
		}
		r.previous[k], r.starts[k] = r.pairs[k], at
		var err error
		if at, err = r.pairs[k].read(line, at); err != nil {
			return err
		}
		if bytes.Equal(line[at:], r.text[old:]) {
			r.shift(k+1, at-old)
			break
		}
		if at == len(line) {
			return fmt.Errorf("%d columns, and %d in the line before", 4*(k+1), 4*columns)
		}
		if line[at] != ',' {
			return errLevels
		}
		at++
	}
	r.to = k + 1
	if len(line) != len(r.text) {
		r.text = append(r.text[:same], line[same:]...)
	} else {
		copy(r.text[same:at], line[same:at])
	}
	return r.ordered()
}

// all parses the first line.
func (r *row) all(line []byte) error {
	for at := 0; ; at++ {
		r.starts = append(r.starts, at)
		var l levels
		var err error
		if at, err = l.read(line, at); err != nil {
			return err
		}
		r.pairs = append(r.pairs, l)
		if at == len(line) {
			break
		}
		if line[at] != ',' {
			return errLevels
		}
	}
	r.to, r.previous = len(r.pairs), make([]levels, len(r.pairs))
	r.text = append(r.text, line...)
	return r.ordered()
}

// surplus returns the error for a line that has more pairs than the previous one.
func surplus(line []byte, at, columns int) (err error) {
	n := columns + 1
	for l := (levels{}); ; n++ {
		if at, err = l.read(line, at); err != nil {
			return err
		}
		if at == len(line) {
			return fmt.Errorf("%d columns, and %d in the line before", 4*n, 4*columns)
		}
		if line[at] != ',' {
			return errLevels
		}
		at++
	}
}

// shift moves the starts of the pairs from an index on.
func (r *row) shift(from, by int) {
	if by == 0 {
		return
	}
	for i := range r.starts[from:] {
		r.starts[from+i] += by
	}
}

// common returns the length of the common prefix of two texts. The position of the difference is
// unpredictable, so few branches make it faster.
func common(a, b []byte) int {
	n, i := min(len(a), len(b)), 0
	for i+32 <= n {
		x, y := (*[32]byte)(a[i:]), (*[32]byte)(b[i:])
		if (binary.LittleEndian.Uint64(x[0:])^binary.LittleEndian.Uint64(y[0:]))|
			(binary.LittleEndian.Uint64(x[8:])^binary.LittleEndian.Uint64(y[8:]))|
			(binary.LittleEndian.Uint64(x[16:])^binary.LittleEndian.Uint64(y[16:]))|
			(binary.LittleEndian.Uint64(x[24:])^binary.LittleEndian.Uint64(y[24:])) != 0 {
			break
		}
		i += 32
	}
	for i+8 <= n {
		if d := binary.LittleEndian.Uint64(a[i:]) ^ binary.LittleEndian.Uint64(b[i:]); d != 0 {
			return i + bits.TrailingZeros64(d)/8
		}
		i += 8
	}
	for i < n && a[i] == b[i] {
		i++
	}
	return i
}

// read parses a pair at an offset and returns its end.
func (l *levels) read(line []byte, at int) (end int, err error) {
	var v [4]int64
	for i := range v {
		if i > 0 {
			if at >= len(line) || line[at] != ',' {
				return at, errLevels
			}
			at++
		}
		var ok bool
		if v[i], at, ok = integer(line, at); !ok {
			return at, errLevels
		}
	}
	if l.ask, err = level(v[0], v[1]); err == nil {
		l.bid, err = level(v[2], v[3])
	}
	return at, err
}

func level(price, size int64) (l market.Level, err error) {
	if size == 0 || price == noPrice || price == -noPrice {
		return market.Level{}, nil
	}
	const unit = market.Scale / 10_000
	if price < 0 || price > math.MaxInt64/unit || size < 0 || size > math.MaxUint32 {
		return market.Level{}, errRange
	}
	return market.Level{Price: market.Price(price * unit), Size: market.Size(size) * market.Scale}, nil
}

// ordered checks the order of the levels that changed and of their neighbours.
func (r *row) ordered() error {
	from := r.from
	for from > 0 && (from == r.from || r.pairs[from].ask.Size == 0 || r.pairs[from].bid.Size == 0) {
		from--
	}
	ask, bid := market.Price(math.MinInt64), market.Price(math.MaxInt64)
	for i := from; i < len(r.pairs); i++ {
		p := &r.pairs[i]
		if p.ask.Size > 0 {
			if p.ask.Price <= ask {
				return errOrdered
			}
			ask = p.ask.Price
		}
		if p.bid.Size > 0 {
			if p.bid.Price >= bid {
				return errOrdered
			}
			bid = p.bid.Price
		}
		if i >= r.to && p.ask.Size > 0 && p.bid.Size > 0 {
			break
		}
	}
	return nil
}

// book plays the book after a line.
func (d *Decoder) book(t int64, b *decode.Batch) {
	r := &d.row
	if r.started && r.from >= r.to {
		return
	}
	b.Stats.Depth++
	kind, was, now := market.KindUpdate, r.previous, r.pairs
	if r.started {
		was, now = was[r.from:r.to], now[r.from:r.to]
	} else {
		r.started = true
		b.Stats.Snapshots++
		kind, was = market.KindSnapshot, nil
	}
	bids, asks := diffBids(was, now, b), diffAsks(was, now, b)
	if bids+asks == 0 && kind == market.KindUpdate {
		return
	}
	b.Stats.Levels += bids + asks
	e := b.Add(kind, d.handle)
	e.Time, e.Bids, e.Asks = t, b.LastLevels(bids, asks), b.LastLevels(asks, 0)
}

// diffBids appends the levels that turn the bids of some pairs into those of others, best first. It
// returns the number of levels.
func diffBids(was, now []levels, b *decode.Batch) (n int) {
	i := 0
	for j := range now {
		l := now[j].bid
		if l.Size == 0 {
			continue
		}
		for ; i < len(was) && (was[i].bid.Size == 0 || was[i].bid.Price > l.Price); i++ {
			n += removed(was[i].bid, b)
		}
		if i < len(was) && was[i].bid.Price == l.Price {
			if i++; was[i-1].bid == l {
				continue
			}
		}
		b.AppendLevel(l)
		n++
	}
	for ; i < len(was); i++ {
		n += removed(was[i].bid, b)
	}
	return n
}

// diffAsks is diffBids for the other side.
func diffAsks(was, now []levels, b *decode.Batch) (n int) {
	i := 0
	for j := range now {
		l := now[j].ask
		if l.Size == 0 {
			continue
		}
		for ; i < len(was) && (was[i].ask.Size == 0 || was[i].ask.Price < l.Price); i++ {
			n += removed(was[i].ask, b)
		}
		if i < len(was) && was[i].ask.Price == l.Price {
			if i++; was[i-1].ask == l {
				continue
			}
		}
		b.AppendLevel(l)
		n++
	}
	for ; i < len(was); i++ {
		n += removed(was[i].ask, b)
	}
	return n
}

// removed appends the deletion of a level, if there was one.
func removed(l market.Level, b *decode.Batch) int {
	if l.Size == 0 {
		return 0
	}
	b.AppendLevel(market.Level{Price: l.Price})
	return 1
}
