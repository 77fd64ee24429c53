package client

import (
	"errors"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Errors of Book.Apply. After each of them the book is invalid until its next snapshot.
var (
	ErrChain    = errors.New("client: the update does not follow the book")
	ErrChecksum = errors.New("client: the checksum of the book is wrong")
)

// Book is the order book of an instrument, made of its updates. It is valid from a snapshot to the
// first update that does not follow, or whose checksum differs. A book that is not valid shows no
// levels. The zero Book is invalid. A Book is not safe for concurrent use; Client.Book returns a
// copy.
//
// The checksum is over whole units of the decimals of the instrument, which updates do not name. A
// Book finds them with its first checksum.
type Book struct {
	levels   market.Book
	valid    bool
	n        uint64
	depth    int
	known    bool // the decimals
	price    int  // decimals of prices
	size     int
	text     []byte // of a checksum, for reuse
	bid, ask []market.Level
}

// Apply applies an update. It returns ErrChain or ErrChecksum if the book is not valid after it. An
// update of an invalid book that is not a snapshot is ErrInvalidBook.
func (b *Book) Apply(u BookUpdate) error {
	switch {
	case u.Snapshot:
		b.levels.Reset()
		b.depth = u.Depth
	case !b.valid:
		return ErrInvalidBook
	case u.Previous != b.n:
		b.valid = false
		return ErrChain
	}
	for _, l := range u.Bids {
		b.levels.Set(market.Buy, l)
	}
	for _, l := range u.Asks {
		b.levels.Set(market.Sell, l)
	}
	b.n = u.N
	if b.valid = b.matches(u.Checksum, u.Snapshot); !b.valid {
		return ErrChecksum
	}
	return nil
}

// Invalidate makes the book invalid until its next snapshot.
func (b *Book) Invalidate() { b.valid = false }

// matches compares the checksum, and the number of levels with the depth. The decimals may have
// changed with a snapshot.
func (b *Book) matches(checksum uint32, snapshot bool) bool {
	if b.depth > 0 && max(b.levels.Len(market.Buy), b.levels.Len(market.Sell)) > b.depth {
		return false
	}
	n := wire.ChecksumLevels(b.depth)
	b.bid = b.levels.Append(b.bid[:0], market.Buy, n)
	b.ask = b.levels.Append(b.ask[:0], market.Sell, n)
	if len(b.bid)+len(b.ask) == 0 || b.known && b.sum(n, b.price, b.size) == checksum {
		return b.sum(n, b.price, b.size) == checksum
	}
	if b.known && !snapshot {
		return false
	}
	for price := range 9 {
		for size := range 9 {
			if b.sum(n, price, size) == checksum {
				b.known, b.price, b.size = true, price, size
				return true
			}
		}
	}
	return false
}

func (b *Book) sum(n, price, size int) (sum uint32) {
	sum, b.text = wire.Checksum(b.text, b.bid, b.ask, n, price, size)
	return sum
}

// Valid reports whether the book is known.
func (b *Book) Valid() bool { return b.valid }

// N returns the number of the newest update.
func (b *Book) N() uint64 { return b.n }

// Bids returns the best n bids, best first, all of them if n is 0. An invalid book has none.
func (b *Book) Bids(n int) []market.Level { return b.side(market.Buy, n) }

// Asks returns the best n asks, best first, all of them if n is 0. An invalid book has none.
func (b *Book) Asks(n int) []market.Level { return b.side(market.Sell, n) }

func (b *Book) side(s market.Side, n int) []market.Level {
	if !b.valid {
		return nil
	}
	return b.levels.Append(nil, s, n)
}

// Best returns the best bid and ask. A side without orders has the Size 0. ok is false if the book
// is invalid.
func (b *Book) Best() (bid, ask market.Level, ok bool) {
	if !b.valid {
		return bid, ask, false
	}
	bid, _ = b.levels.Best(market.Buy)
	ask, _ = b.levels.Best(market.Sell)
	return bid, ask, true
}

// clone returns a copy that shares nothing with b.
func (b *Book) clone() *Book {
	c := &Book{valid: b.valid, n: b.n, depth: b.depth, known: b.known, price: b.price, size: b.size}
	for _, l := range b.levels.Append(nil, market.Buy, 0) {
		c.levels.Set(market.Buy, l)
	}
	for _, l := range b.levels.Append(nil, market.Sell, 0) {
		c.levels.Set(market.Sell, l)
	}
	return c
}
