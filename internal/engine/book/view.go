package book

import (
	"slices"

	"github.com/ruedahq/rueda/market"
)

// View stores what the readers of a book were sent last: the levels of a limited depth or, for a
// conflated book of all levels, the previous levels at the prices that have changed since. A view
// of all levels that is sent at every change stores nothing; the zero View is of that kind.
type View struct {
	depth int
	seen  Levels
	was   map[levelKey]market.Level
}

type levelKey struct {
	side  market.Side
	price market.Price
}

// Begin sets v to a view of a depth (0 for all levels) of the current book.
func (v *View) Begin(b *Book, depth int, conflated bool) {
	*v = View{depth: depth}
	switch {
	case depth > 0:
		v.seen = Levels{make([]market.Level, 0, depth), make([]market.Level, 0, depth)}
		v.seen.Read(b, depth)
	case conflated:
		v.was = make(map[levelKey]market.Level)
	}
}

// Sees reports whether changes may affect a view of limited depth.
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

// Record stores the previous levels at changed prices in a conflated view of all levels.
func (v *View) Record(changes []Change) {
	if v.was == nil {
		return
	}
	for _, c := range changes {
		key := levelKey{c.Side, c.Now.Price}
		if _, ok := v.was[key]; !ok {
			v.was[key] = c.Was
		}
	}
}

// Advance moves the view to the current book and sets out to the changes for its readers. top is
// scratch memory.
func (v *View) Advance(out, top *Levels, b *Book) {
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

// Reset moves the view to the current book, all of which is sent to its readers.
func (v *View) Reset(b *Book) {
	clear(v.was)
	if v.depth > 0 {
		v.seen.Read(b, v.depth)
	}
}

// Last changes l, which holds the current levels of the view, to the levels that its readers were
// sent last.
func (v *View) Last(l *Levels) {
	if v.was == nil {
		l.Copy(&v.seen)
		return
	}
	changed := func(side market.Side) func(market.Level) bool {
		return func(x market.Level) bool {
			_, ok := v.was[levelKey{side, x.Price}]
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
