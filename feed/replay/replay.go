package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"sync"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

// Config says how a recording is played. The zero Config plays it once, as fast
// as it was recorded.
type Config struct {
	Speed  float64      // times as fast as recorded; 0 means 1; negative or +Inf: as fast as the sink takes it
	Loop   bool         // begin again at the end; the book is then stale until the snapshot
	Logger *slog.Logger // nil: none
}

// Source plays one recording. It is a feed.Source.
type Source struct {
	path       string
	config     Config
	futures    bool
	instrument market.Instrument

	mu    sync.Mutex
	stats Stats
}

// Stats counts what was played. Depth counts every depth message, also those
// that were not applied; Levels what they held.
type Stats struct {
	Lines     int
	Trades    int
	Quotes    int
	Depth     int
	Levels    int
	Snapshots int // that the book was built on
	Gaps      int // of depth, between messages that should follow one another
	Unused    int // depth messages that ended before the snapshot or wait for one
	Other     int // messages of other streams, snapshots without use, trades of size 0
	Refused   int // events that the sink did not take
	Passes    int // how often the recording was begun
}

// Open looks at a recording, tells what instrument it is of and makes a Source
// of it. The file is opened again by each Run. The error says so where it is
// none of the recordings that are known, and is an *Error where one is damaged.
func Open(path string, config Config) (*Source, error) {
	if math.IsNaN(config.Speed) {
		return nil, errors.New("open recording: speed is not a number")
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Source{path: path, config: config}
	if err := s.sniff(); err != nil {
		return nil, err
	}
	return s, nil
}

// Instrument is what the recording is of.
func (s *Source) Instrument() market.Instrument { return s.instrument }

// Stats is what was played so far, in all runs together.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Run implements feed.Source. What stands in the recording before a fault is
// published; the error is then an *Error.
func (s *Source) Run(ctx context.Context, sink feed.Sink) error {
	handle, err := sink.Define(s.instrument)
	if err != nil {
		return fmt.Errorf("replay %s: define %s: %w", s.path, s.instrument.ID, err)
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.play(ctx, sink, handle); err != nil || !s.config.Loop {
			return err
		}
	}
}

// play plays the recording once.
func (s *Source) play(ctx context.Context, sink feed.Sink, handle market.Handle) (err error) {
	in, err := openLines(s.path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.close()) }()
	p := player{source: s, sink: sink, handle: handle, pace: newPace(s.config.Speed)}
	p.book.futures = s.futures
	defer p.pace.stop()
	s.mu.Lock()
	p.stats = s.stats
	s.mu.Unlock()
	if p.stats.Passes++; p.stats.Passes > 1 {
		p.add(market.Event{Kind: market.KindGap, Reason: "replay_restarted"})
	}
	for err == nil {
		err = p.line(ctx, in)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if last := p.flush(ctx); err == nil {
		err = last
	}
	return err
}

// player is one pass through a recording.
type player struct {
	source *Source
	sink   feed.Sink
	handle market.Handle
	pace   pace
	book   splicer
	fields fields
	newest int64 // receive time of the line before
	batch  []market.Event
	levels []market.Level // of the batch
	stats  Stats
}

// A batch is published when the next line is not yet due or it has become this long.
const (
	maxBatch       = 256
	maxBatchLevels = 1 << 14
)

// line plays the next line; io.EOF at the end.
func (p *player) line(ctx context.Context, in *lines) error {
	path := p.source.path
	line, err := in.next()
	if errors.Is(err, io.EOF) {
		return err
	}
	if err != nil {
		return in.fault(path, 0, err)
	}
	k, err := p.source.read(&p.fields, line)
	if err == nil && p.fields.receive < p.newest {
		err = &scanError{0, fmt.Sprintf("received %d ns before the line before it", p.newest-p.fields.receive)}
	}
	if err != nil {
		at := 0
		if bad, ok := errors.AsType[*scanError](err); ok {
			at = bad.at
		}
		return in.fault(path, at, err)
	}
	p.newest = p.fields.receive
	if due := p.pace.until(p.newest); due > 0 {
		if err := p.flush(ctx); err != nil {
			return err
		}
		if err := p.pace.wait(ctx, due); err != nil {
			return err
		}
	}
	p.stats.Lines++
	if err := p.message(k); err != nil {
		return in.fault(path, 0, err)
	}
	if len(p.batch) >= maxBatch || len(p.levels) >= maxBatchLevels {
		return p.flush(ctx)
	}
	return nil
}

// message turns a message into events.
func (p *player) message(k kind) error {
	f := &p.fields
	e := market.Event{Time: f.eventTime(), Receive: f.receive, Sequence: f.last}
	switch k {
	case trade:
		if f.size == 0 {
			p.stats.Other++ // a futures trade that was none
			return nil
		}
		p.stats.Trades++
		e.Kind, e.Price, e.Size, e.Side = market.KindTrade, f.price, f.size, market.Buy
		if f.maker {
			e.Side = market.Sell
		}
		e.Sequence, e.TradeID = f.tradeID, fmt.Sprint(f.tradeID)
		p.add(e)
	case quote:
		p.stats.Quotes++
		e.Kind = market.KindQuote
		e.Bids, e.Asks = p.side(f.bid), p.side(f.ask)
		p.add(e)
	case depth:
		p.stats.Depth++
		p.stats.Levels += len(f.bids) + len(f.asks)
		e.Kind, e.Bids, e.Asks = market.KindUpdate, f.bids, f.asks
		if err := errors.Join(bestFirst(f.bids, market.Buy), bestFirst(f.asks, market.Sell)); err != nil {
			return err
		}
		p.follow(&diff{f.first, f.last, f.previous, e})
	case snapshot:
		e.Kind, e.Bids, e.Asks = market.KindSnapshot, f.bids, f.asks
		return p.snapshot(e)
	default:
		p.stats.Other++
	}
	return nil
}

// side is the levels of one side of a quote, none where it is empty.
func (p *player) side(l market.Level) []market.Level {
	if l.Size == 0 {
		return nil
	}
	return p.keep([]market.Level{l})
}

func (p *player) snapshot(e market.Event) error {
	if err := errors.Join(bestFirst(e.Bids, market.Buy), bestFirst(e.Asks, market.Sell)); err != nil {
		return err
	}
	for _, side := range [...][]market.Level{e.Bids, e.Asks} {
		for _, l := range side {
			if l.Size == 0 {
				return errors.New("snapshot with an empty level")
			}
		}
	}
	held, use := p.book.snapshot(e.Sequence)
	if !use {
		p.stats.Other++
		return nil
	}
	p.stats.Snapshots++
	p.stats.Unused -= len(held)
	e.Bids, e.Asks = p.keep(e.Bids), p.keep(e.Asks)
	p.add(e)
	for i := range held {
		p.follow(&held[i])
	}
	return nil
}

// follow applies a depth message, or does with it what else is to be done.
func (p *player) follow(d *diff) {
	switch p.book.follow(d) {
	case apply:
		e := d.event
		if len(e.Bids)+len(e.Asks) > 0 {
			e.Bids, e.Asks = p.keep(e.Bids), p.keep(e.Asks)
			p.add(e)
		}
	case drop, hold:
		p.stats.Unused++
	case gap:
		p.stats.Gaps++
		p.stats.Unused++
		p.source.config.Logger.Warn("gap in recorded depth", "file", p.source.path, "line", p.stats.Lines, "instrument", p.source.instrument.ID.String(), "sequence", d.last)
		p.add(market.Event{Kind: market.KindGap, Time: d.event.Time, Receive: d.event.Receive, Sequence: d.last, Reason: "sequence_gap"})
	}
}

// keep copies levels to where they stay until the batch is published.
func (p *player) keep(levels []market.Level) []market.Level {
	n := len(p.levels)
	p.levels = append(p.levels, levels...)
	return p.levels[n:len(p.levels):len(p.levels)]
}

func (p *player) add(e market.Event) {
	e.Handle = p.handle
	p.batch = append(p.batch, e)
}

// flush publishes the batch and brings the counts up to date.
func (p *player) flush(ctx context.Context) error {
	var err error
	if len(p.batch) > 0 {
		err = p.refused(p.sink.Publish(p.batch))
		clear(p.batch)
		p.batch, p.levels = p.batch[:0], p.levels[:0]
	}
	p.source.mu.Lock()
	p.source.stats = p.stats
	p.source.mu.Unlock()
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// refused counts the events that the sink did not take: what it takes is for the
// sink to say, and the others go on. Any other error ends the run.
func (p *player) refused(err error) error {
	if err == nil {
		return nil
	}
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	for _, e := range errs {
		if _, ok := errors.AsType[*market.Refused](e); !ok {
			return fmt.Errorf("replay %s: publish: %w", p.source.path, err)
		}
	}
	p.stats.Refused += len(errs)
	p.source.config.Logger.Warn("recorded events refused", "file", p.source.path, "line", p.stats.Lines, "count", len(errs), "error", errs[0])
	return nil
}
