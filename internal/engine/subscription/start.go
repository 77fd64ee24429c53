package subscription

import (
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription/sent"
	"github.com/ruedahq/rueda/internal/engine/subscription/startpoint"
)

// A Start is a time to replay from.
type Start = startpoint.Start

// A Search is what a Subscribe waits for: the rows of a Start, or data at a delay.
type Search = startpoint.Search

// findPoints finds where the replay begins in each sequence of a list of items. It returns false if
// the request is refused, or if a goroutine of the hub searches.
func (t *taking) findPoints(items []hub.Item) bool {
	items, _ = t.accept(items) // rejected items cost nothing
	t.shard.hub.Prepare(items)
	r := startpoint.Find(t.shard.hub, startpoint.Request{
		Items: items, Start: t.o.Start, Today: t.o.Today, Search: t.o.Search, Found: t.o.Found,
	})
	t.points, t.out.Fault, t.out.Search = r, r.Fault, r.Search
	t.out.Work.Looked, t.out.Work.Read = r.Looked, r.Read
	return r.Fault == nil && r.Search == nil
}

// replayFrom makes a new item begin with the rows after its points.
func (t *taking) replayFrom(it *item) {
	h := t.shard.hub
	c := catchUp{it: it, out: t.out, at: h.Reached(it.tier().Delay), fresh: true}
	covered := h.Covered(it.item())
	t.out.Work.Looked += len(covered)
	for in := range c.pieces(covered) {
		if n, pos, ok := t.points.Point(in, it.channel()); ok {
			c.behind(in, sent.To{N: n, HasN: true, Exact: true, Pos: pos})
		}
	}
	c.replay(t.wait.batch)
}
