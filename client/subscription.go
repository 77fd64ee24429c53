package client

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// AllLevels is the depth of whole books.
const AllLevels = -1

// Set is a set of subscriptions. An identifier is SYMBOL|MARKET|TERM, and * may stand for a whole
// part. Identifiers of Bars have an interval as a fourth part: GGAL|BYMA|24hs|5m. A pattern in
// Books stands for the matching instruments that are listed when the client connects or subscribes,
// because the gateway sends books of single instruments only.
type Set struct {
	Trades, Quotes, Books, Status, Summary, Bars []string

	// Depth is how many levels Books have on each side: 1, 5, 10, 25 or AllLevels; 0: 5.
	Depth int
	// Conflate is the interval in which the newest state of Quotes and Books is sent: 100 ms,
	// 250 ms or 1 s; 0: every change.
	Conflate time.Duration
}

// item is one subscription.
type item = stream.Series

// options are the options of an item.
type options struct {
	depth    int // as on the wire
	conflate string
}

// items checks a set and returns its items.
func (s *Set) items() (map[item]options, error) {
	all := map[item]options{}
	o := options{depth: cmp.Or(s.Depth, 5)}
	if s.Depth == AllLevels {
		o.depth = 0
	}
	switch s.Conflate {
	case 0:
	case 100 * time.Millisecond:
		o.conflate = "100ms"
	case 250 * time.Millisecond:
		o.conflate = "250ms"
	case time.Second:
		o.conflate = "1s"
	default:
		return nil, fmt.Errorf("client: conflation is %v: must be 100 ms, 250 ms or 1 s", s.Conflate)
	}
	if !slices.Contains([]int{0, 1, 5, 10, 25}, o.depth) {
		return nil, fmt.Errorf("client: depth is %d: must be 1, 5, 10, 25 or AllLevels", s.Depth)
	}
	for channel, ids := range [...][]string{
		wire.Trades: s.Trades, wire.Quotes: s.Quotes, wire.OrderBook: s.Books, wire.Status: s.Status, wire.Summary: s.Summary, wire.Bars: s.Bars,
	} {
		for _, id := range ids {
			i, err := newItem(wire.Channel(channel), id)
			if err != nil {
				return nil, err
			}
			all[i] = options{}
			switch i.Channel {
			case wire.OrderBook:
				all[i] = o
			case wire.Quotes:
				all[i] = options{conflate: o.conflate}
			}
		}
	}
	return all, nil
}

// newItem parses an identifier of a channel. The error names what is wrong with it.
func newItem(c wire.Channel, id string) (item, error) {
	i, err := parseItem(c, id)
	if err != nil {
		list := c.String()
		if c == wire.OrderBook {
			list = "books"
		}
		return item{}, fmt.Errorf("client: %q in %s: %w", id, list, err)
	}
	return i, nil
}

func parseItem(c wire.Channel, id string) (item, error) {
	parts := strings.Split(id, "|")
	switch {
	case c == wire.Bars && len(parts) == 3:
		return item{}, fmt.Errorf("it has no interval: write %s|1m", id)
	case c == wire.Bars && len(parts) != 4:
		return item{}, errors.New("not of the form SYMBOL|MARKET|TERM|INTERVAL")
	case c != wire.Bars && len(parts) != 3:
		return item{}, market.ErrBadInstrument
	}
	var p [3]string
	for i, name := range [...]string{"symbol", "market", "term"} {
		alone := [3]string{market.Any, market.Any, market.Any}
		p[i], alone[i] = parts[i], parts[i]
		if _, err := market.ParsePattern(strings.Join(alone[:], "|")); err != nil {
			return item{}, fmt.Errorf("%q is not a %s", parts[i], name)
		}
	}
	if c == wire.Bars {
		interval, ok := market.ParseInterval(parts[3])
		if !ok {
			return item{}, fmt.Errorf("%s is not one of %s", parts[3], intervals())
		}
		c = wire.BarsOf(interval)
	}
	return item{Channel: c, Instrument: market.InstrumentID{Symbol: p[0], Market: p[1], Term: p[2]}}, nil
}

// intervals returns the names of all intervals, separated by commas.
func intervals() string {
	var words []string
	for i := range market.NumIntervals {
		words = append(words, i.String())
	}
	return strings.Join(words, ", ")
}

// Subscribe adds to the set of subscriptions, and replaces the options of those that it has. The
// stream follows as soon as it is connected. An error changes nothing.
func (c *Client) Subscribe(s Set) error {
	items, err := s.items()
	if err != nil {
		return err
	}
	c.mu.Lock()
	for i, o := range items {
		c.desired[i] = o
		if i.Channel == wire.OrderBook {
			c.asked[i] = true
		}
	}
	c.mu.Unlock()
	signal(c.wake)
	return nil
}

// Unsubscribe removes from the set exactly these identifiers. Events that the gateway has already
// sent may still come.
func (c *Client) Unsubscribe(s Set) error {
	items, err := s.items()
	if err != nil {
		return err
	}
	c.mu.Lock()
	for i := range items {
		delete(c.desired, i)
	}
	c.mu.Unlock()
	signal(c.wake)
	return nil
}

// Subscriptions returns the set, sorted, without its options.
func (c *Client) Subscriptions() (s Set) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lists := [...]*[]string{&s.Trades, &s.Quotes, &s.Books, &s.Status, &s.Summary, &s.Bars}
	for i := range c.desired {
		to := lists[min(i.Channel, wire.Bars)]
		*to = append(*to, string(i.Channel.Append(nil, i.Instrument)))
	}
	for _, list := range lists {
		slices.Sort(*list)
	}
	return s
}

// Book returns a copy of the book of an instrument to which the set subscribes, as new as what the
// client has received. The error is ErrInvalidBook if the book is not known at present, and
// another one if the book has never been in the set.
func (c *Client) Book(instrument string) (*Book, error) {
	i, err := newItem(wire.OrderBook, instrument)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if b := c.books[i]; b != nil && b.valid {
		return b.clone(), nil
	}
	for asked := range c.asked {
		if asked == i || asked.Instrument.IsPattern() && asked.Instrument.Matches(i.Instrument) {
			return nil, ErrInvalidBook
		}
	}
	return nil, fmt.Errorf("client: %q is not in the set of books: subscribe to it first", instrument)
}
