package ndjson

import (
	"fmt"
	"log/slog"
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

// add counts an event. If due is true, a log line with count is due. Source.mu must be held.
func (o *limitedLog) add(now time.Time) (count int, due bool) {
	o.count++
	if now.Before(o.due) {
		return 0, false
	}
	count, o.count, o.due = o.count, 0, now.Add(logEvery)
	return count, true
}

// countAndLog counts a rejected line, or one with unknown members, and logs it at most once a
// minute.
func (p *producer) countAndLog(o *limitedLog, total func(*Stats) *int, message string, example slog.Attr) {
	s := p.source
	s.mu.Lock()
	*total(&s.stats)++
	count, due := o.add(time.Now())
	s.mu.Unlock()
	if due {
		p.log.Warn(message, "count", count, example)
	}
}

// unknown records that a line has unknown members.
func (p *producer) unknown(l *wire.Line) {
	if l.Unknown != "" {
		p.countAndLog(&p.source.unknown, func(s *Stats) *int { return &s.Unknown }, "lines have unknown members", slog.String("key", l.Unknown))
	}
}

// validate rejects events that cannot occur in the market: negative prices if the market has none,
// and crossed books outside auctions. A rejected book is stale until the next complete one.
func (p *producer) validate(i *instrument, e *market.Event) *wire.Fault {
	if p.source.config.positive(i.id.Market) && negative(e) {
		p.countAndLog(&p.source.negative, func(s *Stats) *int { return &s.Negative }, "lines rejected: prices below 0", slog.String("instrument", i.id.String()))
		if e.Kind == market.KindUpdate || e.Kind == market.KindSnapshot {
			p.markStale(i, "bad_line")
		}
		return wire.NewFault(wire.BadField, "prices of market "+i.id.Market+" must not be below 0")
	}
	b := p.bookCopies[i]
	switch e.Kind {
	case market.KindSnapshot:
		b = new(market.Book)
		p.bookCopies[i] = b
	case market.KindUpdate:
		if b == nil {
			return nil
		}
	default:
		return nil
	}
	for _, l := range e.Bids {
		b.Set(market.Buy, l)
	}
	for _, l := range e.Asks {
		b.Set(market.Sell, l)
	}
	if !b.Crossed() || !p.continuous(i) {
		return nil
	}
	p.countAndLog(&p.source.crossed, func(s *Stats) *int { return &s.Crossed }, "lines rejected: books crossed outside an auction", slog.String("instrument", i.id.String()))
	p.markStale(i, "crossed_book")
	return wire.NewFault(wire.BadField, fmt.Sprintf("the book of %s is crossed outside an auction", i.id))
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
// known.
func (p *producer) continuous(i *instrument) bool {
	for _, phase := range [...]market.Phase{market.Phase(i.phase.Load()), market.Phase(i.venue.phase.Load()), p.source.config.scheduled(i.id)} {
		if phase != market.NoPhase && phase != market.Open && phase != market.Quoting {
			return false
		}
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
func (c *Config) scheduled(id market.InstrumentID) market.Phase {
	for i := range c.Markets {
		m := &c.Markets[i]
		if m.ID != id.Market || len(m.Schedule.Sessions) == 0 || m.StatusFromFeed {
			continue
		}
		zone, err := time.LoadLocation(m.Timezone)
		if err != nil {
			return market.NoPhase
		}
		phase, _, _ := m.Schedule.At(time.Now(), zone, id.Term)
		return phase
	}
	return market.NoPhase
}
