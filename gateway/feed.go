package gateway

import (
	"cmp"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/engine/feeds"
)

// Feed is a source of market events. It is restarted after its Run fails, unless the error has a
// method Final() bool that returns true. An instrument has one feed, the first that defines it. A
// market may have several.
type Feed struct {
	Name   string // name in the log
	Source feed.Source
	// Late means that the source may publish nothing for a long time, such as one that waits for a
	// connection. A gateway does not wait for it at the start.
	Late   bool
	Checks FeedChecks
}

// FeedChecks says when a feed looks wrong. That is counted in rueda_feed_suspect_total and logged.
type FeedChecks struct {
	PriceBand float64       // price_jump: a trade differs from the one before by more percent; 0: 50; negative: no check
	MaxAhead  time.Duration // future_time: an event time is later than the clock by more; 0: 5 s; negative: no check
	Stall     time.Duration // stall: no event for so long while a market of the feed trades; 0: 1 minute; negative: no check
	Refuse    []string      // price_jump, future_time or sequence_back: such events are refused; nil: only counted and logged
}

// RefusableEvents returns the words that FeedChecks.Refuse may have.
func RefusableEvents() []string { return feeds.Refusable() }

// checks returns the checks with their defaults.
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

// supervisors returns the feeds that this process runs now.
func (g *Gateway) supervisors() []*feeds.Supervisor {
	if f := g.feeds.Load(); f != nil {
		return f.Feeds()
	}
	return nil
}
