package ruedatest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

// script is a feed that publishes the events of the test.
type script struct {
	mu          sync.Mutex
	instruments []market.Instrument
	handles     map[market.InstrumentID]market.Handle
	sink        feed.Sink // nil: the feed does not run
	running     *sync.Cond
}

func (s *script) init() { s.running = sync.NewCond(&s.mu) }

// Run implements feed.Source.
func (s *script) Run(ctx context.Context, sink feed.Sink) error {
	if err := s.begin(sink); err != nil {
		return err
	}
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sink = nil
	return nil
}

// begin defines all instruments in the sink and wakes waiting calls of publish. It publishes an
// empty list, because a feed counts as ready only when it has published.
func (s *script) begin(sink feed.Sink) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handles = map[market.InstrumentID]market.Handle{}
	for i := range s.instruments {
		if err := s.list(sink, s.instruments[i]); err != nil {
			return err
		}
	}
	s.sink = sink
	s.running.Broadcast()
	return sink.Publish(nil)
}

func (s *script) list(sink feed.Sink, in market.Instrument) error {
	h, err := sink.Define(in)
	s.handles[in.ID] = h
	return err
}

// define adds or replaces an instrument. It defines the instrument at once if the feed runs, and
// otherwise at the next start of the feed.
func (s *script) define(in market.Instrument) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.instruments, func(x market.Instrument) bool { return x.ID == in.ID })
	if i >= 0 {
		s.instruments[i] = in
	} else {
		s.instruments = append(s.instruments, in)
	}
	if s.sink == nil {
		return nil
	}
	return s.list(s.sink, in)
}

// publish publishes events of an instrument. It waits while the feed does not run, such as during a
// restart of the gateway.
func (s *script) publish(id market.InstrumentID, events []market.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.sink == nil {
		s.running.Wait()
	}
	h, ok := s.handles[id]
	if !ok {
		return market.ErrUnknownInstrument
	}
	now := time.Now().UnixNano()
	for i := range events {
		events[i].Handle = h
		if events[i].Time == 0 {
			events[i].Time = now
		}
	}
	return s.sink.Publish(events)
}

// Define adds an instrument to the scripted market, or changes its definition. Like all methods
// that publish, it ends the test if it fails.
func (s *Server) Define(in market.Instrument) {
	s.t.Helper()
	if err := s.script.define(in); err != nil {
		s.t.Fatal(err)
	}
}

// Publish publishes events of an instrument in their order. It sets the Handle of each event, and
// its Time if that is 0. While the gateway restarts, Publish waits.
func (s *Server) Publish(instrument string, events ...market.Event) {
	s.t.Helper()
	id, err := market.ParseInstrumentID(instrument)
	if err == nil {
		err = s.script.publish(id, events)
	}
	if err != nil {
		s.t.Fatalf("publish %s: %v", instrument, err)
	}
}

// Trade publishes a trade. price and size are decimal numbers such as 7049.5.
func (s *Server) Trade(instrument, price, size string) {
	s.t.Helper()
	l := s.level(price, size)
	s.Publish(instrument, market.Event{Kind: market.KindTrade, Price: l.Price, Size: l.Size})
}

// Quote publishes a best bid and offer. The instrument must have QuotesFromFeed.
func (s *Server) Quote(instrument, bid, bidSize, ask, askSize string) {
	s.t.Helper()
	s.Publish(instrument, market.Event{Kind: market.KindQuote, Bids: []market.Level{s.level(bid, bidSize)}, Asks: []market.Level{s.level(ask, askSize)}})
}

// Book publishes a complete order book with one level on each side.
func (s *Server) Book(instrument, bid, bidSize, ask, askSize string) {
	s.t.Helper()
	s.Publish(instrument, market.Event{Kind: market.KindSnapshot, Bids: []market.Level{s.level(bid, bidSize)}, Asks: []market.Level{s.level(ask, askSize)}})
}

func (s *Server) level(price, size string) (l market.Level) {
	s.t.Helper()
	var err error
	if l.Price, err = market.ParsePrice(price); err == nil {
		l.Size, err = market.ParseSize(size)
	}
	if err != nil {
		s.t.Fatalf("%s x %s: %v", price, size, err)
	}
	return l
}
