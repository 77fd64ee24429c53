package ndjson

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// oddity is something that is logged once a minute however often it comes.
type oddity struct {
	count int // since it was last logged
	due   time.Time
}

// logEvery is how often one kind of oddity is logged.
const logEvery = time.Minute

// note counts an oddity and says whether it is to be logged, and of how many lines. Source.mu is held.
func (o *oddity) note(now time.Time) (count int, due bool) {
	o.count++
	if now.Before(o.due) {
		return 0, false
	}
	count, o.count, o.due = o.count, 0, now.Add(logEvery)
	return count, true
}

// odd counts a line that was refused, or had members without meaning, and logs it now and then.
func (p *producer) odd(o *oddity, total func(*Stats) *int, message string, example slog.Attr) {
	s := p.source
	s.mu.Lock()
	*total(&s.stats)++
	count, due := o.note(time.Now())
	s.mu.Unlock()
	if due {
		p.log.Warn(message, "count", count, example)
	}
}

// unknown notes that a line has members without meaning.
func (p *producer) unknown(l *wire.Line) {
	if l.Unknown != "" {
		p.odd(&p.source.unknown, func(s *Stats) *int { return &s.Unknown }, "lines have unknown members", slog.String("key", l.Unknown))
	}
}

// judge refuses what no market gives: prices below 0 where it has none, and books that are crossed
// outside of auctions. A book that is refused is stale until the next whole one.
func (p *producer) judge(i *instrument, e *market.Event) *wire.Fault {
	if p.source.config.positive(i.id.Market) && negative(e) {
		p.odd(&p.source.negative, func(s *Stats) *int { return &s.Negative }, "lines refused: prices below 0", slog.String("instrument", i.id.String()))
		if e.Kind == market.KindUpdate || e.Kind == market.KindSnapshot {
			p.stale(i, "bad_line")
		}
		return wire.NewFault(wire.BadField, "prices of market "+i.id.Market+" are not below 0")
	}
	b := p.shapes[i]
	switch e.Kind {
	case market.KindSnapshot:
		b = new(market.Book)
		p.shapes[i] = b
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
	p.odd(&p.source.crossed, func(s *Stats) *int { return &s.Crossed }, "lines refused: books crossed outside of an auction", slog.String("instrument", i.id.String()))
	p.stale(i, "crossed_book")
	return wire.NewFault(wire.BadField, fmt.Sprintf("the book of %s is crossed, and there is no auction", i.id))
}

// negative says whether any price of an event is below 0.
func negative(e *market.Event) bool {
	for _, side := range [2][]market.Level{e.Bids, e.Asks} {
		for _, l := range side {
			if l.Price < 0 {
				return true
			}
		}
	}
	return e.Price < 0 || e.OldPrice < 0
}

// continuous says whether an instrument is in continuous trading, by all that is known of it.
func (p *producer) continuous(i *instrument) bool {
	for _, phase := range [...]market.Phase{market.Phase(i.phase.Load()), market.Phase(i.venue.phase.Load()), p.source.config.planned(i.id)} {
		if phase != market.NoPhase && phase != market.Open && phase != market.Quoting {
			return false
		}
	}
	return true
}

// positive says whether a market forbids prices below 0.
func (c *Config) positive(name string) bool {
	for i := range c.Markets {
		if c.Markets[i].ID == name {
			return c.Markets[i].Positive
		}
	}
	return false
}

// planned is the phase of an instrument by its market's hours; NoPhase where it has none.
func (c *Config) planned(id market.InstrumentID) market.Phase {
	for i := range c.Markets {
		m := &c.Markets[i]
		if m.ID != id.Market || len(m.Schedule.Sessions) == 0 || m.FeedTold {
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
