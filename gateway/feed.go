package gateway

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/engine/feeds"
)

// Feed configures a source of market events. Its Run is restarted after a failure, unless the error
// has a method Final() bool that returns true. Each instrument belongs to the first feed that
// defines it. A market may have instruments of several feeds.
type Feed struct {
	Name   string // name in the log
	Source feed.Source
	// Late means that the source may publish nothing for a long time, for example while it waits
	// for a connection. The start of a gateway does not wait for such a feed.
	Late   bool
	Checks FeedChecks
}

// FeedChecks configures when events of a feed look wrong. Such events are logged and counted in
// rueda_feed_suspect_total.
type FeedChecks struct {
	PriceBand float64       // price_jump: a trade differs from the one before by more percent; 0: 50; negative: no check
	MaxAhead  time.Duration // future_time: an event time is later than the clock by more; 0: 5 s; negative: no check
	Stall     time.Duration // stall: no event for so long while a market of the feed trades; 0: 1 minute; negative: no check
	Refuse    []string      // price_jump, future_time or sequence_back: such events are refused; nil: only counted and logged
}

// RefusableEvents returns the words that FeedChecks.Refuse may contain.
func RefusableEvents() []string { return feeds.Refusable() }

// checks returns the checks of the feed, with defaults for zero values. It returns an error for an
// unknown word in Refuse.
func (f *Feed) checks() (feeds.Checks, error) {
	c := feeds.Checks{
		Band:   max(0, cmp.Or(f.Checks.PriceBand, 50)/100),
		Ahead:  max(0, cmp.Or(f.Checks.MaxAhead, 5*time.Second)),
		Stall:  max(0, cmp.Or(f.Checks.Stall, time.Minute)),
		Refuse: f.Checks.Refuse,
	}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("feed %q: %w", f.Name, err)
	}
	return c, nil
}

// supervisors returns the supervisors of the feeds that this process runs now. A node of a cluster
// that is not the sequencer runs none.
func (g *Gateway) supervisors() []*feeds.Supervisor {
	if f := g.feeds.Load(); f != nil {
		return f.Feeds()
	}
	return nil
}
