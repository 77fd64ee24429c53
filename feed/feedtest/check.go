package feedtest

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/ruedahq/rueda/market"
)

// checker is a feed.Sink that follows every instrument and records violations of the contract.
type checker struct {
	opts   Options
	reject bool // reject every definition

	mu          sync.Mutex
	table       table
	instruments []*instrument // in the order of table.ids
	calls       int
	events      int
	faults      []string
	reached     chan struct{} // closed after opts.Events events
}

// instrument is the state of one instrument.
type instrument struct {
	definition  market.Instrument
	isMarket    bool // stands for a market
	phase       market.Phase
	last        int64 // newest event time
	book        market.Book
	orders      market.OrderBook
	stale       bool
	inGap       bool // stale since a KindGap
	trades      map[string]struct{}
	publishCall int // the Publish call that is using it; 0: none
}

// maxFaults limits the recorded violations: a broken source violates the contract with every event.
const maxFaults = 20

func newChecker(opts Options) *checker {
	return &checker{opts: opts, reached: make(chan struct{})}
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

// Define implements feed.Sink.
func (c *checker) Define(in market.Instrument) (market.Handle, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reject {
		return 0, errors.New("this sink rejects all instruments")
	}
	h, err := c.table.define(in)
	if err != nil {
		c.fault("definition refused: %v", err)
		return 0, err
	}
	i := c.table.index(h)
	if i < len(c.instruments) {
		c.instruments[i].definition = in
		return h, nil
	}
	phase := in.Phase
	if phase == market.NoPhase {
		phase = market.Open
	}
	c.instruments = append(c.instruments, &instrument{
		definition: in,
		isMarket:   wholeMarket(in.ID),
		phase:      phase,
		stale:      !in.StartsEmpty,
		trades:     make(map[string]struct{}),
	})
	return h, nil
}

// Publish implements feed.Sink.
func (c *checker) Publish(events []market.Event) error {
	c.mu.Lock()
	c.calls++
	call := c.calls
	for i := range events {
		in := c.instrument(events[i].Handle)
		if in == nil {
			continue
		}
		if in.publishCall != 0 && in.publishCall != call {
			c.fault("%s: published by two goroutines at the same time", in.definition.ID)
		}
		in.publishCall = call
	}
	c.mu.Unlock()

	// Let another goroutine of the source run, so that overlapping calls are detected.
	runtime.Gosched()

	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for i := range events {
		e := &events[i]
		in := c.instrument(e.Handle)
		if in == nil {
			c.fault("event %d: handle %d was not returned by Define", c.events+i, e.Handle)
			errs = append(errs, &market.Refused{Index: i, Reason: "unknown_handle"})
			continue
		}
		if err := in.apply(e, &c.opts); err != nil {
			c.fault("%s: event %d, %s: %v", in.definition.ID, c.events+i, kindName(e.Kind), err)
			errs = append(errs, &market.Refused{Index: i, ID: in.definition.ID, Reason: "contract", Detail: err.Error()})
		}
		in.publishCall = 0
	}
	before := c.events
	c.events += len(events)
	if before < c.opts.Events && c.events >= c.opts.Events {
		close(c.reached)
	}
	return errors.Join(errs...)
}

func (c *checker) instrument(h market.Handle) *instrument {
	if i := c.table.index(h); i >= 0 {
		return c.instruments[i]
	}
	return nil
}

// finish records violations that show only at the end of a finite source.
func (c *checker) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, in := range c.instruments {
		if in.inGap && !c.opts.StaleBooks {
			c.fault("%s: no snapshot followed a gap", in.definition.ID)
		}
	}
}

// apply applies an event and returns how it violates the contract.
func (in *instrument) apply(e *market.Event, opts *Options) error {
	if in.isMarket && e.Kind != market.KindStatus {
		return errors.New("a market as a whole accepts only status events")
	}
	if e.Time < 0 || e.Receive < 0 {
		return errors.New("time before 1970")
	}
	if e.Time != 0 {
		if e.Time < in.last-int64(opts.TimeSlack) {
			return fmt.Errorf("event time goes back by %d ns", in.last-e.Time)
		}
		in.last = max(in.last, e.Time)
	}
	switch e.Kind {
	case market.KindTrade, market.KindCancel, market.KindCorrect:
		return in.trade(e)
	case market.KindQuote:
		return in.quote(e)
	case market.KindUpdate, market.KindSnapshot:
		return in.levels(e, opts)
	case market.KindOrderAdd, market.KindOrderModify, market.KindOrderDelete, market.KindOrderFill, market.KindOrderReplace:
		return in.order(e)
	case market.KindStatus:
		if e.Phase.String() == "" {
			return fmt.Errorf("phase %d", e.Phase)
		}
		if e.Phase != market.Gap {
			in.phase = e.Phase
		}
		return word(e.Reason)
	case market.KindGap:
		in.stale, in.inGap = true, true
		in.book.Reset()
		in.orders.Reset()
		return word(e.Reason)
	case market.KindReference:
		return in.reference(e)
	}
	return errors.New("unknown kind of event")
}

func (in *instrument) trade(e *market.Event) error {
	if err := in.amount(e.Price, e.Size); err != nil {
		return err
	}
	if e.Kind == market.KindTrade {
		if e.Side > market.Sell {
			return fmt.Errorf("aggressor side %d", e.Side)
		}
		if e.TradeID == "" {
			return nil
		}
		if _, ok := in.trades[e.TradeID]; ok {
			return fmt.Errorf("trade id %q is a duplicate", e.TradeID)
		}
		in.trades[e.TradeID] = struct{}{}
		return nil
	}
	if e.TradeID == "" {
		return errors.New("no trade id")
	}
	if e.Kind == market.KindCorrect {
		return in.amount(e.OldPrice, e.OldSize)
	}
	return nil
}

// amount checks a price and size that are not those of a deletion.
func (in *instrument) amount(p market.Price, z market.Size) error {
	if z <= 0 {
		return fmt.Errorf("size %s is not above 0", z)
	}
	if !p.Exact() || !z.Exact() {
		return fmt.Errorf("price %s or size %s has more than %d digits", p, z, market.MaxDigits)
	}
	if step := in.definition.TickSize(p); step > 0 && p%step != 0 {
		return fmt.Errorf("price %s is not on the tick %s", p, step)
	}
	if lot := in.definition.Lot; lot > 0 && z%lot != 0 {
		return fmt.Errorf("size %s is not a multiple of the lot %s", z, lot)
	}
	return nil
}

// reference checks reference figures, of which 0 means unknown.
func (in *instrument) reference(e *market.Event) error {
	if !e.PreviousClose.Exact() || !e.Settlement.Exact() || !e.OpenInterest.Exact() {
		return fmt.Errorf("previous close %s, settlement price %s or open interest %s is not exact", e.PreviousClose, e.Settlement, e.OpenInterest)
	}
	return nil
}

func (in *instrument) quote(e *market.Event) error {
	// the quote is an indicative price
	indicative := in.phase == market.PreOpen || in.phase == market.Auction
	if !in.definition.QuotesFromFeed && !indicative {
		return errors.New("the definition says that quotes come from the book (QuotesFromFeed)")
	}
	if len(e.Bids) > 1 || len(e.Asks) > 1 {
		return errors.New("more than one level per side")
	}
	for _, side := range [...][]market.Level{e.Bids, e.Asks} {
		for _, l := range side {
			if err := in.amount(l.Price, l.Size); err != nil {
				return err
			}
		}
	}
	if in.phase == market.Open && len(e.Bids) == 1 && len(e.Asks) == 1 && e.Bids[0].Price >= e.Asks[0].Price {
		return fmt.Errorf("bid %s at or above ask %s", e.Bids[0].Price, e.Asks[0].Price)
	}
	return nil
}

func (in *instrument) levels(e *market.Event, opts *Options) error {
	if in.definition.NoBook {
		return errors.New("the definition says that there is no book (NoBook)")
	}
	snapshot := e.Kind == market.KindSnapshot
	if snapshot {
		if err := errors.Join(ordered(market.Buy, e.Bids), ordered(market.Sell, e.Asks)); err != nil {
			return err
		}
		in.book.Reset()
		in.stale, in.inGap = false, false
	} else if len(e.Bids)+len(e.Asks) == 0 {
		return errors.New("no level")
	}
	for side, levels := range map[market.Side][]market.Level{market.Buy: e.Bids, market.Sell: e.Asks} {
		for i, l := range levels {
			if err := in.level(side, l, levels[:i], snapshot, opts); err != nil {
				return err
			}
		}
	}
	if in.phase == market.Open && in.book.Crossed() {
		bid, _ := in.book.Best(market.Buy)
		ask, _ := in.book.Best(market.Sell)
		return fmt.Errorf("book crossed: bid %s, ask %s", bid.Price, ask.Price)
	}
	return nil
}

// level applies one level of a snapshot or update. earlier holds the levels before it.
func (in *instrument) level(side market.Side, l market.Level, earlier []market.Level, snapshot bool, opts *Options) error {
	if l.Size != 0 || snapshot {
		if err := in.amount(l.Price, l.Size); err != nil {
			return err
		}
	}
	if !snapshot {
		for _, x := range earlier {
			if x.Price == l.Price {
				return fmt.Errorf("price %s occurs twice in one update", l.Price)
			}
		}
	}
	if in.stale {
		return nil // the book is unknown
	}
	if _, changed := in.book.Set(side, l); !changed && l.Size == 0 && !opts.UnknownDeletes {
		return fmt.Errorf("deletes a level at %s that does not exist", l.Price)
	}
	return nil
}

// ordered checks that the levels of a snapshot are sorted best first.
func ordered(side market.Side, levels []market.Level) error {
	for i := 1; i < len(levels); i++ {
		a, b := levels[i-1].Price, levels[i].Price
		if a == b || (a < b) == (side == market.Buy) {
			return fmt.Errorf("snapshot goes from %s to %s, which is not best first", a, b)
		}
	}
	return nil
}

func (in *instrument) order(e *market.Event) error {
	if in.stale {
		return nil
	}
	var err error
	switch e.Kind {
	case market.KindOrderAdd:
		if err = in.amount(e.Price, e.Size); err == nil {
			_, err = in.orders.Add(e.OrderID, e.Side, e.Price, e.Size)
		}
	case market.KindOrderModify:
		if err = in.amount(e.Price, e.Size); err == nil {
			_, _, _, err = in.orders.Modify(e.OrderID, e.Price, e.Size)
		}
	case market.KindOrderReplace:
		if err = in.amount(e.Price, e.Size); err == nil {
			_, _, _, err = in.orders.Replace(e.OrderID, e.NewID, e.Price, e.Size)
		}
	case market.KindOrderDelete:
		_, _, err = in.orders.Delete(e.OrderID)
	case market.KindOrderFill:
		_, _, err = in.orders.Fill(e.OrderID, e.Size)
	}
	if err != nil {
		return fmt.Errorf("order %d: %w", e.OrderID, err)
	}
	return nil
}

// word checks that a reason is empty or a lower_snake_case word.
func word(s string) error {
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return fmt.Errorf("reason %q is not a lower_snake_case word", s)
		}
	}
	return nil
}

func kindName(k market.Kind) string {
	names := [...]string{
		market.KindTrade: "trade", market.KindCancel: "cancel", market.KindCorrect: "correction",
		market.KindQuote: "quote", market.KindUpdate: "update", market.KindSnapshot: "snapshot",
		market.KindOrderAdd: "order add", market.KindOrderModify: "order modify",
		market.KindOrderDelete: "order delete", market.KindOrderFill: "order fill",
		market.KindOrderReplace: "order replace",
		market.KindStatus:       "status", market.KindGap: "gap", market.KindReference: "reference",
	}
	if int(k) < len(names) && names[k] != "" {
		return names[k]
	}
	return fmt.Sprintf("kind %d", k)
}
