package client

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// reference is the book of a gateway, and makes its updates.
type reference struct {
	book   market.Book
	random *rand.Rand
	n      uint64
	depth  int
	price  int // decimals
	size   int
	last   uint64 // N of the update before
	shown  [2][]market.Level
}

// change changes some levels, so that the book is not crossed, and returns the update.
func (r *reference) change() BookUpdate {
	middle := int64(700_000 + r.random.IntN(40))
	unit := market.Price(1)
	for range 8 - r.price {
		unit *= 10
	}
	lot := market.Size(1)
	for range 8 - r.size {
		lot *= 10
	}
	for range 1 + r.random.IntN(4) {
		away := int64(1 + r.random.IntN(20))
		side, price := market.Buy, market.Price(middle-away)*unit
		if r.random.IntN(2) == 0 {
			side, price = market.Sell, market.Price(middle+away)*unit
		}
		r.book.Set(side, market.Level{Price: price, Size: market.Size(r.random.IntN(5)) * lot, Orders: uint32(r.random.IntN(3))})
		for { // the new level removes what it crosses
			other := market.Buy + market.Sell - side
			best, ok := r.book.Best(other)
			if !ok || side == market.Buy && best.Price > price || side == market.Sell && best.Price < price {
				break
			}
			r.book.Set(other, market.Level{Price: best.Price})
		}
	}
	r.n += 1 + uint64(r.random.IntN(3)) // other depths have the numbers between
	u := BookUpdate{Header: Header{N: r.n}, Previous: r.last}
	for i, side := range []market.Side{market.Buy, market.Sell} {
		now := r.book.Append(nil, side, r.depth)
		levels := difference(r.shown[i], now)
		if r.shown[i] = now; side == market.Buy {
			u.Bids = levels
		} else {
			u.Asks = levels
		}
	}
	u.Checksum = r.checksum()
	r.last = r.n
	return u
}

// difference returns the levels that changed, and those that are gone with Size 0.
func difference(was, now []market.Level) (levels []market.Level) {
	for _, l := range now {
		if !slices.Contains(was, l) {
			levels = append(levels, l)
		}
	}
	for _, l := range was {
		if !slices.ContainsFunc(now, func(x market.Level) bool { return x.Price == l.Price }) {
			levels = append(levels, market.Level{Price: l.Price})
		}
	}
	return levels
}

func (r *reference) checksum() uint32 {
	sum, _ := wire.Checksum(nil, r.shown[0], r.shown[1], wire.ChecksumLevels(r.depth), r.price, r.size)
	return sum
}

// snapshot returns the whole book.
func (r *reference) snapshot() BookUpdate {
	return BookUpdate{Header: Header{N: r.n}, Snapshot: true, Depth: r.depth, Bids: r.shown[0], Asks: r.shown[1], Checksum: r.checksum()}
}

// TestBookModel applies random updates with gaps and wrong checksums. The book is that of the
// gateway, or invalid. It is never crossed.
func TestBookModel(t *testing.T) {
	steps := 10_000
	if os.Getenv("RUEDA_SOAK") != "" {
		steps = 1_000_000
	}
	random := rand.New(rand.NewPCG(7, 11))
	faults, checked := 0, 0
	var r *reference
	var b *Book
	for i := range steps {
		if i%1000 == 0 { // another instrument
			r = &reference{random: random, depth: []int{0, 1, 5, 10, 25}[random.IntN(5)], price: random.IntN(3), size: random.IntN(3)}
			b = &Book{}
		}
		u := r.change()
		var want error
		switch fault := random.IntN(40); {
		case fault == 0: // the update is lost
			faults++
			continue
		case fault == 1 && len(r.shown[0]) > 0: // the size of the best bid is wrong
			best := r.shown[0][0]
			best.Size += market.Scale
			u.Bids = append(slices.Clone(u.Bids), best)
			want = ErrChecksum
			faults++
		case fault == 2:
			u.Checksum++
			want = ErrChecksum
			faults++
		case !b.Valid():
			u = r.snapshot()
		}
		valid := b.Valid()
		err := b.Apply(u)
		if want != nil && valid && err == nil {
			t.Fatalf("step %d: a wrong checksum was accepted", i)
		}
		if (err == nil) != b.Valid() || err != nil && !errors.Is(err, ErrChain) && !errors.Is(err, ErrChecksum) && !errors.Is(err, ErrInvalidBook) {
			t.Fatalf("step %d: %v, and valid is %v", i, err, b.Valid())
		}
		bid, ask, ok := b.Best()
		if !b.Valid() {
			if ok || b.Bids(0) != nil || b.Asks(0) != nil {
				t.Fatalf("step %d: an invalid book shows levels", i)
			}
			continue
		}
		checked++
		if bid.Size > 0 && ask.Size > 0 && bid.Price >= ask.Price || !slices.Equal(b.Bids(0), r.shown[0]) || !slices.Equal(b.Asks(0), r.shown[1]) {
			t.Fatalf("step %d, depth %d:\n got %v %v\nwant %v %v", i, r.depth, b.Bids(0), b.Asks(0), r.shown[0], r.shown[1])
		}
	}
	t.Logf("figure: %d updates, %d faults, %d valid books compared", steps, faults, checked)
	if checked < steps/2 || faults < steps/40 {
		t.Errorf("%d valid books, %d faults", checked, faults)
	}
}

// TestBookVectors checks the checksums of docs/test-vectors.json.
func TestBookVectors(t *testing.T) {
	text, err := os.ReadFile("../docs/test-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct {
		Checksums []struct {
			Name string
			DL   int
			B, A [][]json.Number
			K    uint32
		}
	}
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors.Checksums) == 0 {
		t.Fatal(err)
	}
	levels := func(rows [][]json.Number) (levels []market.Level) {
		for _, row := range rows {
			p, err := market.ParsePrice(string(row[0]))
			if err != nil {
				t.Fatal(err)
			}
			z, err := market.ParseSize(string(row[1]))
			if err != nil {
				t.Fatal(err)
			}
			levels = append(levels, market.Level{Price: p, Size: z})
		}
		return levels
	}
	for _, v := range vectors.Checksums {
		u := BookUpdate{Header: Header{N: 1}, Snapshot: true, Depth: v.DL, Bids: levels(v.B), Asks: levels(v.A), Checksum: v.K}
		if err := new(Book).Apply(u); err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		u.Checksum++
		if err := new(Book).Apply(u); !errors.Is(err, ErrChecksum) {
			t.Errorf("%s with another checksum: %v", v.Name, err)
		}
	}
}

// TestBookDepth checks that a book with more levels than its depth is not valid, although the
// checksum does not cover the level that should be gone.
func TestBookDepth(t *testing.T) {
	level := func(price market.Price) market.Level {
		return market.Level{Price: price * market.Scale, Size: market.Scale}
	}
	sum := func(best market.Level) uint32 {
		k, _ := wire.Checksum(nil, []market.Level{best}, nil, 1, 0, 0)
		return k
	}
	var b Book
	if err := b.Apply(BookUpdate{Header: Header{N: 1}, Snapshot: true, Depth: 1, Bids: []market.Level{level(70)}, Checksum: sum(level(70))}); err != nil {
		t.Fatal(err)
	}
	if err := b.Apply(BookUpdate{Header: Header{N: 2}, Previous: 1, Bids: []market.Level{level(71)}, Checksum: sum(level(71))}); !errors.Is(err, ErrChecksum) || b.Valid() {
		t.Errorf("%v, valid is %v", err, b.Valid())
	}
}
