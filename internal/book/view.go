package book

import (
	"slices"

	"github.com/ruedahq/rueda/market"
)

// View is what the readers of a book were told last: of some depth the levels themselves, of a
// conflated book of all levels what stood before at the prices that changed since. Of a book of all levels
// that tells every change there is nothing to keep. The zero View is of that kind.
type View struct {
	depth int
	seen  Levels
	was   map[place]market.Level
}

type place struct {
	side  market.Side
	price market.Price
}

// Begin makes v a view of a depth, 0 for all levels, as of now.
func (v *View) Begin(b *Book, depth int, conflated bool) {
	*v = View{depth: depth}
	switch {
	case depth > 0:
		v.seen = Levels{make([]market.Level, 0, depth), make([]market.Level, 0, depth)}
		v.seen.Read(b, depth)
	case conflated:
		v.was = make(map[place]market.Level)
	}
}

// Sees says whether a change may show in a view of some depth.
func (v *View) Sees(changes []Change) bool {
	for i := range changes {
		c := &changes[i]
		seen := v.seen.Bids
		if c.Side == market.Sell {
			seen = v.seen.Asks
		}
		if len(seen) < v.depth {
			return true
		}
		worst := seen[len(seen)-1].Price
		if c.Side == market.Buy && c.Now.Price >= worst || c.Side == market.Sell && c.Now.Price <= worst {
			return true
		}
	}
	return false
}

// Note keeps what stood at changed prices when a conflated view was last told.
func (v *View) Note(changes []Change) {
	if v.was == nil {
		return
	}
	for _, c := range changes {
		key := place{c.Side, c.Now.Price}
		if _, ok := v.was[key]; !ok {
			v.was[key] = c.Was
		}
	}
}

// Turn brings the view to what the book is now and makes out what that changes for its readers; top
// is memory to do it in.
func (v *View) Turn(out, top *Levels, b *Book) {
	if v.was == nil {
		top.Read(b, v.depth)
		out.Diff(&v.seen, top)
		if !out.Empty() {
			v.seen.Copy(top)
		}
		return
	}
	out.Bids, out.Asks = out.Bids[:0], out.Asks[:0]
	for key, was := range v.was {
		l, ok := b.Levels().Find(key.side, key.price)
		if !ok {
			l = market.Level{Price: key.price}
		}
		if l != was {
			out.add(key.side, l)
		}
	}
	clear(v.was)
	out.sort()
}

// Renew brings the view to what the book is now, all of which its readers are told.
func (v *View) Renew(b *Book) {
	clear(v.was)
	if v.depth > 0 {
		v.seen.Read(b, v.depth)
	}
}

// Last makes l, which has the present levels of the view, those that its readers were told last.
func (v *View) Last(l *Levels) {
	if v.was == nil {
		l.Copy(&v.seen)
		return
	}
	changed := func(side market.Side) func(market.Level) bool {
		return func(x market.Level) bool {
			_, ok := v.was[place{side, x.Price}]
			return ok
		}
	}
	l.Bids = slices.DeleteFunc(l.Bids, changed(market.Buy))
	l.Asks = slices.DeleteFunc(l.Asks, changed(market.Sell))
	for key, was := range v.was {
		if was.Size != 0 {
			l.add(key.side, was)
		}
	}
	l.sort()
}
