package ndjson

import (
	"cmp"
	"slices"

	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// limitedLog counts an event and logs it at most once a minute.
type limitedLog struct {
	count int // since the last log line
	due   time.Time
}

// logEvery is the minimum time between two log lines of a limitedLog.
const logEvery = time.Minute

// add counts an event. It returns how many to log now, or 0 if no log line is due. Source.mu must
// be held.
func (o *limitedLog) add(now time.Time) (count int) {
	o.count++
	if now.Before(o.due) {
		return 0
	}
	count, o.count, o.due = o.count, 0, now.Add(logEvery)
	return count
}

// count counts a rejected line or connection, or a line with unknown members. It returns how many
// the caller should log, with this one as an example: at most once a minute the number since the
// last log line, and otherwise 0.
func (p *producer) count(o *limitedLog, total func(*Stats) *int) int {
	s := p.source
	s.mu.Lock()
	defer s.mu.Unlock()
	*total(&s.stats)++
	return o.add(time.Now())
}

// unknown records that a line has unknown members.
func (p *producer) unknown(l *wire.Line) {
	if l.Unknown != "" {
		if n := p.count(&p.source.unknown, func(s *Stats) *int { return &s.Unknown }); n > 0 {
			p.log.Warn("lines have unknown members", "key", l.Unknown, "count", n)
		}
	}
}

// checkPrices rejects prices below 0 in a market that has none.
func (p *producer) checkPrices(i *instrument, e *market.Event) *wire.Fault {
	if !p.source.config.positive(i.id.Market) || !negative(e) {
		return nil
	}
	if n := p.count(&p.source.negative, func(s *Stats) *int { return &s.Negative }); n > 0 {
		p.log.Warn("lines rejected: prices below 0", "instrument", i.id.String(), "count", n)
	}
	return wire.NewFault(wire.BadField, "prices of market "+i.id.Market+" must not be below 0")
}

// crosses applies an O line to the book of its instrument and reports whether it leaves a complete
// book locked or crossed outside auctions. The book is then incomplete. mu must be held.
func (r *registry) crosses(i *instrument, e *market.Event) bool {
	if e.Kind == market.KindSnapshot {
		i.book = new(market.Book)
	}
	if i.book == nil {
		return false
	}
	setLevels(i.book, market.Buy, e.Bids)
	setLevels(i.book, market.Sell, e.Asks)
	if !i.book.Crossed() || !r.continuous(i) {
		return false
	}
	i.book = nil
	return true
}

// manyLevels is the number of levels above which a side is merged in one pass.
const manyLevels = 64

// setLevels stores levels in a side of a book. Many of them would move the book for each level, so
// they are merged.
func setLevels(b *market.Book, side market.Side, levels []market.Level) {
	if len(levels) <= manyLevels {
		for _, l := range levels {
			b.Set(side, l)
		}
		return
	}
	list := slices.Clone(levels)
	slices.Reverse(list) // so that the last one of each price is kept
	slices.SortStableFunc(list, func(x, y market.Level) int {
		if side == market.Sell {
			x, y = y, x
		}
		return cmp.Compare(x.Price, y.Price)
	})
	list = slices.CompactFunc(list, func(x, y market.Level) bool { return x.Price == y.Price })
	b.Merge(side, list, func(_, _ market.Level) {})
}

// negative reports whether an event has a price below 0.
func negative(e *market.Event) bool {
	for _, side := range [2][]market.Level{e.Bids, e.Asks} {
		for _, l := range side {
			if l.Price < 0 {
				return true
			}
		}
	}
	return e.Price < 0 || e.OldPrice < 0 || e.PreviousClose < 0 || e.Settlement < 0
}

// continuous reports whether an instrument is in continuous trading, as far as its phases are
// known. mu must be held.
func (r *registry) continuous(i *instrument) bool {
	hours := r.source.scheduled(i.id)
	for _, phase := range [...]market.Phase{i.phase, i.venue.phase, hours} {
		switch phase {
		case market.NoPhase, market.Open, market.Quoting:
			continue
		case market.Unknown:
			if hours != market.NoPhase {
				continue // the hours decide
			}
		}
		return false
	}
	return true
}

// positive reports whether a market rejects prices below 0.
func (c *Config) positive(name string) bool {
	for i := range c.Markets {
		if c.Markets[i].ID == name {
			return c.Markets[i].Positive
		}
	}
	return false
}

// scheduled returns the phase of an instrument according to the hours of its market, or NoPhase if
// the market has no hours.
func (s *Source) scheduled(id market.InstrumentID) market.Phase {
	for i := range s.config.Markets {
		m := &s.config.Markets[i]
		if m.ID != id.Market || len(m.Schedule.Sessions) == 0 || m.StatusFromFeed {
			continue
		}
		phase, _, _ := m.Schedule.At(time.Now(), s.zones[m.Timezone], id.Term)
		return phase
	}
	return market.NoPhase
}
