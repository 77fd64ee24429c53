package session

import (
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/wire"
)

// When the log of a cluster begins another epoch, all sessions remove their subscriptions, and
// messages wait. The hub begins the epoch, and sessions then announce it and subscribe again.

// leaveEpoch removes the subscriptions, and keeps them for the next epoch.
func leaveEpoch(s *Session) {
	items, c := slices.Collect(s.sub.All), s.pendingCheck()
	searches := c != nil && c.start != nil
	if len(items) == 0 && !searches {
		return // what it subscribes waits for the epoch
	}
	over := s.sub.Await([]hub.Item{{}}, s.postFound())
	if over == nil {
		return // no epoch ends any more
	}
	o := s.ext()
	if o.moving != nil {
		o.moving.Stop()
		o.moving = nil
	}
	if o.left = append(o.left, items...); len(items) > 0 {
		var buf [8]Use
		before := s.env.uses(&s.sub, buf[:0])
		s.sub.Unsubscribe(items)
		s.countUses(before)
	}
	switch {
	case searches: // it has found rows of the epoch that ends
		c.start.search.Stop()
		c.start.search, c.start.stale = over, true
	case c == nil:
		o.check = &check{started: true, start: &start{search: over}}
	default: // a token is being checked
		c.over = over
	}
}

// joinEpoch announces the epoch, and subscribes again. If delayed data must be loaded first, it
// waits for a search.
func joinEpoch(s *Session, now time.Time, found *subscription.Search) {
	o := s.ext()
	var buf [8]Use
	before := s.env.uses(&s.sub, buf[:0])
	out := s.sub.Subscribe(o.left, subscription.Options{Found: s.postFound(), Search: found})
	if out.Search != nil {
		o.check = &check{started: true, start: &start{search: out.Search}}
		return
	}
	o.left = nil
	s.countUses(before)
	ack := wire.Subscription{Msg: "Epoch", Epoch: out.Epoch, Position: out.Position}
	for _, r := range out.Rejected {
		ack.Removed = append(ack.Removed, wire.Rejection{Channel: r.Item.Channel.String(), Instrument: identifier(r.Item), Reason: r.Reason})
	}
	s.acknowledge(&ack)
	s.reviewRights(now)
}
