package market

import (
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Catalog lists instruments and the markets they belong to. Both keep the order in which they were
// first added, and nothing is ever removed. The zero Catalog is empty and ready to use. A Catalog
// is not safe for concurrent use.
type Catalog struct {
	instruments []Instrument
	index       map[InstrumentID]int
	markets     []Market
	marketIndex map[string]int
	near        nearIndex
}

// Add lists an instrument, or replaces the definition of a listed one. It returns the index of the
// instrument, which starts at 0 and never changes. Add also lists a market or a term that is new.
// It returns the error of Instrument.Validate.
func (c *Catalog) Add(in Instrument) (int, error) {
	if err := in.Validate(); err != nil {
		return 0, err
	}
	in.Ticks = slices.Clone(in.Ticks)
	if i, ok := c.index[in.ID]; ok {
		c.instruments[i] = in
		return i, nil
	}
	m, ok := c.marketIndex[in.ID.Market]
	if !ok {
		m = c.putMarket(Market{ID: in.ID.Market})
	}
	c.markets[m].addTerm(Term{Name: in.ID.Term, SettlementDays: in.SettlementDays})
	if c.index == nil {
		c.index = make(map[InstrumentID]int)
	}
	i := len(c.instruments)
	c.instruments = append(c.instruments, in)
	c.index[in.ID] = i
	c.near.add(in.ID, i)
	return i, nil
}

// Len returns the number of listed instruments.
func (c *Catalog) Len() int { return len(c.instruments) }

// At returns the instrument with an index that Add returned. The pointer is valid until the next
// call of Add, and the instrument must not be changed.
func (c *Catalog) At(i int) *Instrument { return &c.instruments[i] }

// Index returns the index of a listed instrument. ok is false if id is not listed.
func (c *Catalog) Index(id InstrumentID) (i int, ok bool) {
	i, ok = c.index[id]
	return i, ok
}

// Lookup returns the definition of a listed instrument. ok is false if id is not listed.
func (c *Catalog) Lookup(id InstrumentID) (in Instrument, ok bool) {
	i, ok := c.index[id]
	if !ok {
		return Instrument{}, false
	}
	return c.instruments[i], true
}

// Match iterates over the instruments that a pattern matches, with their indexes, in listing order.
// An exact identifier matches only itself.
func (c *Catalog) Match(pattern InstrumentID) iter.Seq2[int, *Instrument] {
	return func(yield func(int, *Instrument) bool) {
		if !pattern.IsPattern() {
			if i, ok := c.index[pattern]; ok {
				yield(i, &c.instruments[i])
			}
			return
		}
		for i := range c.instruments {
			if pattern.Matches(c.instruments[i].ID) && !yield(i, &c.instruments[i]) {
				return
			}
		}
	}
}

// PutMarket lists a market or replaces its definition. Terms that are missing from the new
// definition but used by listed instruments are appended to it. PutMarket returns the error of
// Market.Validate.
func (c *Catalog) PutMarket(m Market) error {
	if err := m.Validate(); err != nil {
		return err
	}
	m.Terms = slices.Clone(m.Terms)
	i, ok := c.marketIndex[m.ID]
	if !ok {
		c.putMarket(m)
		return nil
	}
	c.markets[i] = m
	for j := range c.instruments {
		if in := &c.instruments[j]; in.ID.Market == m.ID {
			c.markets[i].addTerm(Term{Name: in.ID.Term, SettlementDays: in.SettlementDays})
		}
	}
	return nil
}

func (c *Catalog) putMarket(m Market) int {
	if c.marketIndex == nil {
		c.marketIndex = make(map[string]int)
	}
	i := len(c.markets)
	c.markets = append(c.markets, m)
	c.marketIndex[m.ID] = i
	return i
}

// Market returns the definition of a listed market. ok is false if id is not listed.
func (c *Catalog) Market(id string) (m Market, ok bool) {
	i, ok := c.marketIndex[id]
	if !ok {
		return Market{}, false
	}
	return c.markets[i], true
}

// Markets returns a copy of the listed markets, in listing order.
func (c *Catalog) Markets() []Market {
	out := slices.Clone(c.markets)
	for i := range out {
		out[i].Terms = slices.Clone(out[i].Terms)
	}
	return out
}

// Suggest returns a listed identifier that the caller may have meant by id. It differs only in
// case, or has the same symbol in another market or term, or has market and term swapped, or is one
// typing error away.
func (c *Catalog) Suggest(id InstrumentID) (InstrumentID, bool) {
	if _, ok := c.index[id]; ok || id.IsPattern() {
		return InstrumentID{}, false
	}
	i, ok := c.near.find(id, c.instruments)
	if !ok {
		return InstrumentID{}, false
	}
	return c.instruments[i].ID, true
}

// addTerm appends a term unless one with its name is listed.
func (m *Market) addTerm(t Term) {
	if !slices.ContainsFunc(m.Terms, func(x Term) bool { return x.Name == t.Name }) {
		m.Terms = append(m.Terms, t)
	}
}

// Validate returns an error that describes everything that is wrong with the definition. It does
// not check that the time zone exists.
func (m *Market) Validate() error {
	var errs []error
	if !validWord(m.ID) {
		errs = append(errs, fmt.Errorf("market %q: id must be 1 to 16 letters, digits, dots, underscores or dashes and begin with a letter or digit", m.ID))
	}
	for i, t := range m.Terms {
		if !validWord(t.Name) {
			errs = append(errs, fmt.Errorf("market %s: term %q: name must be 1 to 16 letters, digits, dots, underscores or dashes and begin with a letter or digit", m.ID, t.Name))
		} else if slices.ContainsFunc(m.Terms[:i], func(x Term) bool { return x.Name == t.Name }) {
			errs = append(errs, fmt.Errorf("market %s: term %s: listed twice", m.ID, t.Name))
		}
		if t.SettlementDays < 0 {
			errs = append(errs, fmt.Errorf("market %s: term %s: settlement days must not be negative", m.ID, t.Name))
		}
	}
	if err := m.Schedule.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("market %s: schedule: %w", m.ID, err))
	}
	return errors.Join(errs...)
}
