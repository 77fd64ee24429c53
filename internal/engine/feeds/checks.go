package feeds

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/market"
)

// Suspect is a way in which a source looks wrong.
type Suspect uint8

// Kinds of Suspect.
const (
	PriceJump    Suspect = iota // a trade is far from the one before
	FutureTime                  // the time of an event is in the future
	SequenceBack                // the source's own sequence number is smaller than the one before
	Stall                       // there are no events, and a market of the source is open
	numSuspects
)

// suspectWords are the kinds as metrics, log and configuration have them.
var suspectWords = [numSuspects]string{"price_jump", "future_time", "sequence_back", "stall"}

// String returns the word of a kind.
func (s Suspect) String() string { return suspectWords[s] }

// Refusable returns the words of the kinds that Checks.Refuse may have.
func Refusable() []string { return slices.Clone(suspectWords[:Stall]) }

// Checks says when a source looks wrong. The zero Checks finds only SequenceBack.
type Checks struct {
	Band   float64       // a trade is a PriceJump if it differs from the one before by more than this part of it; 0: never
	Ahead  time.Duration // how far the time of an event may be after the clock; 0: as far as it likes
	Stall  time.Duration // how long a source may be silent while a market of it is open; 0: for ever
	Refuse []string      // words of Refusable; other events are only counted and logged
}

// Check returns an error for a word that Refuse may not have.
func (c *Checks) Check() error {
	for _, word := range c.Refuse {
		if !slices.Contains(Refusable(), word) {
			return fmt.Errorf("%q cannot be refused: the kinds are %q", word, Refusable())
		}
	}
	return nil
}

// leastSteps is how many steps of its last decimal a price may always change by, because one step
// of a price such as 0.01 is a large part of it.
const leastSteps = 10

// suspectEvery is the shortest time between two log lines of a source about one kind.
const suspectEvery = time.Minute

// checker finds the events of one source that look wrong.
type checker struct {
	cfg    Checks
	refuse [numSuspects]bool

	mu     sync.Mutex
	known  []*checked // by handle; nil: another source has the instrument
	found  [numSuspects]uint64
	logged [numSuspects]time.Time
	// unlogged counts since that line.
	unlogged [numSuspects]uint64
	present  bool // the times of some instrument are the present
}

// checked is what a checker keeps of an instrument.
type checked struct {
	id        market.InstrumentID
	virtual   bool         // event times are not the present
	least     float64      // a smaller change of the price is no jump
	price     market.Price // of the newest trade that was near the one before; 0: none
	jumped    market.Price // of the newest trade, if it was far from that one; 0: it was not
	sequences [numChannels]uint64
}

// Channels in which sources count their events.
const (
	tradeChannel = iota
	quoteChannel
	bookChannel
	statusChannel
	referenceChannel
	numChannels
)

func channelOf(k market.Kind) int {
	switch k {
	case market.KindTrade, market.KindCancel, market.KindCorrect:
		return tradeChannel
	case market.KindQuote:
		return quoteChannel
	case market.KindStatus:
		return statusChannel
	case market.KindReference:
		return referenceChannel
	}
	return bookChannel
}

func newChecker(cfg Checks) *checker {
	c := &checker{cfg: cfg}
	for i, word := range suspectWords {
		c.refuse[i] = slices.Contains(cfg.Refuse, word)
	}
	return c
}

// define begins to check an instrument. A definition restarts its sequence numbers.
func (c *checker) define(h market.Handle, in *market.Instrument) {
	if in.ID.IsPattern() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := int(h) + 1 - len(c.known); n > 0 {
		c.known = append(c.known, make([]*checked, n)...)
	}
	x := &checked{id: in.ID, virtual: in.VirtualClock, least: leastSteps * market.Scale / math.Pow10(in.PriceDecimals)}
	if before := c.known[h]; before != nil {
		x.price, x.jumped = before.price, before.jumped
	}
	c.known[h] = x
	c.present = c.present || !in.VirtualClock
}

// restart forgets all sequence numbers.
func (c *checker) restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.known {
		if x != nil {
			clear(x.sequences[:])
		}
	}
}

// suspicion is an event that looks wrong, or a stall.
type suspicion struct {
	kind   Suspect
	index  int // in the batch
	id     market.InstrumentID
	detail string
	count  uint64 // of its kind since the line before; 0: no line is due
}

// check returns the events of a batch that look wrong and are to be refused or logged.
func (c *checker) check(events []market.Event, now time.Time) (list []suspicion) {
	latest := int64(math.MaxInt64)
	if c.cfg.Ahead > 0 {
		latest = now.Add(c.cfg.Ahead).UnixNano()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range events {
		e := &events[i]
		if int(e.Handle) >= len(c.known) || c.known[e.Handle] == nil {
			continue
		}
		x := c.known[e.Handle]
		kind, before, wrong := c.suspect(x, e, latest)
		if !wrong {
			continue
		}
		if n := c.count(kind, now); n > 0 || c.refuse[kind] {
			list = append(list, suspicion{kind: kind, index: i, id: x.id, detail: detailOf(kind, e, before, now), count: n})
		}
	}
	return list
}

// suspect reports whether an event looks wrong, in which way, and the figure of the event before.
// checker.mu is held.
func (c *checker) suspect(x *checked, e *market.Event, latest int64) (kind Suspect, before int64, wrong bool) {
	switch {
	case x.virtual:
	case e.Time > latest:
		return FutureTime, 0, true
	case e.Kind == market.KindGap:
		clear(x.sequences[:])
	case e.Sequence != 0:
		last := &x.sequences[channelOf(e.Kind)]
		before := *last
		back := e.Sequence < before && e.Kind != market.KindSnapshot
		if !back || !c.refuse[SequenceBack] {
			*last = e.Sequence
		}
		if back {
			return SequenceBack, int64(before), true
		}
	}
	if e.Kind == market.KindTrade && c.cfg.Band > 0 {
		before := x.price
		return PriceJump, int64(before), x.jumps(e.Price, c.cfg.Band)
	}
	return 0, 0, false
}

// jumps reports whether the price of a trade is far from the trade before. A second trade near a
// far one confirms the new price, so that a market that has moved is not refused for good.
func (x *checked) jumps(p market.Price, band float64) bool {
	if x.far(x.price, p, band) && (x.jumped == 0 || x.far(x.jumped, p, band)) {
		x.jumped = p
		return true
	}
	x.price, x.jumped = p, 0
	return false
}

func (x *checked) far(from, to market.Price, band float64) bool {
	change := math.Abs(float64(to) - float64(from))
	return from != 0 && change > band*math.Abs(float64(from)) && change > x.least
}

// detailOf describes an event that looks wrong.
func detailOf(kind Suspect, e *market.Event, before int64, now time.Time) string {
	switch kind {
	case FutureTime:
		return "its time is " + time.Unix(0, e.Time).Sub(now).Round(time.Millisecond).String() + " ahead"
	case SequenceBack:
		return fmt.Sprintf("sequence %d came after %d", e.Sequence, uint64(before))
	}
	return fmt.Sprintf("a trade at %s came after one at %s", e.Price, market.Price(before))
}

// stalled counts a stall.
func (c *checker) stalled(silent time.Duration, now time.Time) suspicion {
	c.mu.Lock()
	defer c.mu.Unlock()
	return suspicion{kind: Stall, detail: "no event for " + silent.Round(time.Second).String(), count: c.count(Stall, now)}
}

// count counts a finding. It returns the count since the last log line if another line is due, and
// otherwise 0. checker.mu is held.
func (c *checker) count(kind Suspect, now time.Time) (n uint64) {
	c.found[kind]++
	c.unlogged[kind]++
	if now.Sub(c.logged[kind]) < suspectEvery {
		return 0
	}
	n, c.unlogged[kind], c.logged[kind] = c.unlogged[kind], 0, now
	return n
}

// counts returns how many events of each kind have been found, by word.
func (c *checker) counts() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]uint64, numSuspects)
	for kind, n := range c.found {
		all[suspectWords[kind]] = n
	}
	return all
}

// live reports whether the times of some instrument are the present, so that silence means
// something.
func (c *checker) live() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.present
}
