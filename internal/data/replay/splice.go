package replay

import (
	"cmp"
	"errors"
	"slices"

	"github.com/ruedahq/rueda/market"
)

// splicer connects depth messages to a snapshot and to each other.
type splicer struct {
	futures bool
	state   spliceState
	last    uint64 // update id of the snapshot, or of the newest applied message
	held    []diff // since the gap, or the beginning
	levels  int    // in held
}

type spliceState uint8

const (
	waiting  spliceState = iota // for a snapshot
	spanning                    // for the first message after it
	chained
)

// diff is a depth message.
type diff struct {
	first, last, previous uint64
	event                 market.Event
}

// Limits of the messages that wait for a snapshot. Some recordings have no snapshot.
const (
	maxHeld       = 2000
	maxHeldLevels = 200_000
)

// treatment decides the treatment of a depth message.
type treatment uint8

const (
	apply treatment = iota
	drop            // the book has its changes
	hold            // until there is a snapshot
	gap             // it does not follow the previous one: the book is lost, and the message is also held
)

// follow decides about a depth message. It copies messages that it holds.
func (p *splicer) follow(d *diff) treatment {
	switch {
	case p.state == waiting:
		p.hold(d)
		return hold
	case p.state == spanning && p.precedes(d, p.last), p.state == chained && d.last <= p.last:
		return drop
	case p.state == spanning && p.spans(d, p.last), p.state == chained && p.chains(d):
		p.state, p.last = chained, d.last
		return apply
	}
	p.state = waiting
	p.hold(d)
	return gap
}

// snapshot reports whether to use the snapshot with this id. If use is true, the caller then calls
// follow for each of the held messages.
func (p *splicer) snapshot(id uint64) (held []diff, use bool) {
	switch p.state {
	case chained:
		return nil, false
	case spanning:
		if id < p.last {
			return nil, false
		}
	case waiting:
		i := slices.IndexFunc(p.held, func(d diff) bool { return !p.precedes(&d, id) })
		if i >= 0 && !p.spans(&p.held[i], id) {
			return nil, false // messages are missing between it and the held ones
		}
	}
	held, p.held, p.levels = p.held, nil, 0
	p.state, p.last = spanning, id
	return held, true
}

// precedes reports whether d ended before snapshot id.
func (p *splicer) precedes(d *diff, id uint64) bool {
	if p.futures {
		return d.last < id
	}
	return d.last <= id
}

// spans reports whether d is the first message to apply to snapshot id.
func (p *splicer) spans(d *diff, id uint64) bool {
	if !p.futures {
		id++
	}
	return d.first <= id && id <= d.last
}

func (p *splicer) chains(d *diff) bool {
	if p.futures {
		return d.previous == p.last
	}
	return d.first == p.last+1
}

// hold holds a copy of a message. If there are too many, it drops the older half; a snapshot is
// then too old for the rest, which snapshot detects.
func (p *splicer) hold(d *diff) {
	c := *d
	c.event.Bids, c.event.Asks = slices.Clone(c.event.Bids), slices.Clone(c.event.Asks)
	p.held = append(p.held, c)
	p.levels += len(c.event.Bids) + len(c.event.Asks)
	for len(p.held) > maxHeld || p.levels > maxHeldLevels {
		half := (len(p.held) + 1) / 2
		for i := range p.held[:half] {
			p.levels -= len(p.held[i].event.Bids) + len(p.held[i].event.Asks)
		}
		p.held = slices.Delete(p.held, 0, half)
	}
}

var errPriceTwice = errors.New("a price twice on one side")

// bestFirst sorts the levels of a side best first. They come in either order.
func bestFirst(levels []market.Level, side market.Side) error {
	compare := func(a, b market.Level) int { return cmp.Compare(a.Price, b.Price) }
	if side == market.Buy {
		compare = func(a, b market.Level) int { return cmp.Compare(b.Price, a.Price) }
	}
	if n := len(levels); n > 1 && compare(levels[0], levels[n-1]) > 0 {
		slices.Reverse(levels)
	}
	if !slices.IsSortedFunc(levels, compare) {
		slices.SortFunc(levels, compare)
	}
	for i := 1; i < len(levels); i++ {
		if levels[i].Price == levels[i-1].Price {
			return errPriceTwice
		}
	}
	return nil
}
