package replay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// binance is a capture of Binance messages of one symbol.
type binance struct {
	*shared
	futures    bool
	instrument market.Instrument
	trades     bool     // the beginning of the file has messages of the stream trade
	depths     bool     // and of the stream depth
	resumed    *splicer // of the recording before this one; nil: none
	ended      *splicer // at the end of this one
}

func openBinance(s *shared, in *input) (playable, error) {
	c := &binance{shared: s}
	c.preview(in)
	if err := c.sniff(newLines(in)); err != nil {
		return nil, err
	}
	return c, nil
}

// preview finds out which streams the beginning of the file has. Of a pipe it sees what was read to
// detect the format.
func (s *binance) preview(in *input) {
	data := in.data()
	if s.stream == nil {
		data, _, _ = in.peek(previewSize) // damage is found when it is played
	}
	var f fields
	for line := range bytes.Lines(data) {
		if f.read(trimEnd(line)) == nil {
			k, _ := f.kind()
			s.trades = s.trades || k == trade && f.size > 0
			s.depths = s.depths || k == depth
		}
		if s.trades && s.depths {
			return
		}
	}
}

func (s *binance) instruments() []market.Instrument { return []market.Instrument{s.instrument} }

// play implements playable.
func (s *binance) play(ctx context.Context, run *run) (err error) {
	handle, err := run.define(s.instrument)
	if err != nil {
		return err
	}
	file, err := s.openInput()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	in := newLines(file)
	p := player{source: s, run: run, handle: handle, pace: newPace(s.config.Speed, s.config.From), stats: run.stats}
	p.book.futures = s.futures
	if s.resumed != nil {
		p.book, s.resumed = *s.resumed, nil
	}
	defer func() { s.ended = &p.book }()
	defer p.pace.stop()
	if p.stats.Passes > 1 {
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

// player plays a capture once.
type player struct {
	source *binance
	run    *run
	handle market.Handle
	pace   pace
	book   splicer
	fields fields
	newest int64 // receive time of the previous line
	// Trades are those of the stream trade, as soon as the file has one.
	trades     bool
	aggregates bool   // an aggTrade was played
	aggregated uint64 // its newest trade
	batch      []market.Event
	levels     []market.Level // of the batch
	stats      Stats
}

// Limits of a batch. A batch is published when it reaches one of them, or when the next line is not
// due yet.
const (
	maxBatch       = 256
	maxBatchLevels = 1 << 14
)

// line plays the next line. It returns io.EOF at the end.
func (p *player) line(ctx context.Context, in *lines) error {
	path := p.source.path
	line, err := in.next()
	if errors.Is(err, io.EOF) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	if err != nil {
		return in.fault(path, 0, err)
	}
	k, err := p.source.read(&p.fields, line)
	if err == nil && p.fields.receive < p.newest {
		p.note(decode.Late, "a line was received %v before the line before it", time.Duration(p.newest-p.fields.receive))
		p.stats.Count(decode.Late)
		return nil
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
	skipped, err := p.message(k)
	if err != nil {
		return in.fault(path, 0, err)
	}
	p.stats.Count(skipped)
	if len(p.batch) >= maxBatch || len(p.levels) >= maxBatchLevels {
		return p.flush(ctx)
	}
	return nil
}

// note notes why the current line is not played, if it is the first one for this reason.
func (p *player) note(r decode.Reason, format string, args ...any) {
	if p.stats.Skipped[r] > 0 {
		return
	}
	p.source.note(Note{Reason: r.String(), Detail: fmt.Sprintf(format, args...)}, p.stats.Lines+1)
}

// message converts a message to events, or returns why it is not played.
func (p *player) message(k kind) (skipped decode.Reason, err error) {
	f := &p.fields
	e := market.Event{Time: f.eventTime(), Receive: f.receive, Sequence: f.last}
	switch k {
	case trade, aggregate:
		if f.size == 0 {
			return decode.NoEffect, nil // a futures message that is not a trade
		}
		if !p.newTrade(k) {
			return decode.Repeated, nil
		}
		p.stats.Trades++
		e.Kind, e.Price, e.Size, e.Side = market.KindTrade, f.price, f.size, market.Buy
		if f.maker {
			e.Side = market.Sell
		}
		e.Sequence, e.TradeID = f.tradeID, fmt.Sprint(f.tradeID)
		if k == trade && p.aggregates {
			e.Sequence, p.aggregates = 0, false // it does not follow the ids of aggTrade
		}
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
			return 0, err
		}
		return p.follow(&diff{f.first, f.last, f.previous, e}), nil
	case snapshot:
		e.Kind, e.Bids, e.Asks = market.KindSnapshot, f.bids, f.asks
		return p.snapshot(e)
	case partial:
		if p.source.depths || p.stats.Depth > 0 {
			return decode.Repeated, nil
		}
		p.note(decode.Unsupported, "partial books (depth5, depth10, depth20) are not played")
		return decode.Unsupported, nil
	case unknown:
		p.note(decode.Unsupported, "messages of the stream %q are not played", f.name())
		return decode.Unsupported, nil
	default:
		return decode.OtherType, nil
	}
	return decode.Played, nil
}

// newTrade reports whether a trade or aggTrade is to be played. The stream aggTrade has the same
// trades as the stream trade.
func (p *player) newTrade(k kind) bool {
	switch {
	case k == trade:
		p.trades = true
		return !p.aggregates || p.fields.tradeID > p.aggregated
	case p.trades || p.source.trades:
		return false
	}
	p.aggregates, p.aggregated = true, p.fields.latest
	return true
}

// side returns the levels of one side of a quote, none if it is empty.
func (p *player) side(l market.Level) []market.Level {
	if l.Size == 0 {
		return nil
	}
	return p.copyLevels([]market.Level{l})
}

func (p *player) snapshot(e market.Event) (skipped decode.Reason, err error) {
	if err := errors.Join(bestFirst(e.Bids, market.Buy), bestFirst(e.Asks, market.Sell)); err != nil {
		return 0, err
	}
	for _, side := range [...][]market.Level{e.Bids, e.Asks} {
		for _, l := range side {
			if l.Size == 0 {
				return 0, errors.New("snapshot with an empty level")
			}
		}
	}
	held, use := p.book.snapshot(e.Sequence)
	if !use {
		return decode.Repeated, nil
	}
	p.stats.Snapshots++
	p.stats.Skipped[decode.UnknownBook] -= len(held)
	p.stats.Lines -= len(held) // they are counted again
	e.Bids, e.Asks = p.copyLevels(e.Bids), p.copyLevels(e.Asks)
	p.add(e)
	for i := range held {
		p.stats.Count(p.follow(&held[i]))
	}
	return decode.Played, nil
}

// follow applies, drops or holds a depth message, or reports a gap. It returns why the message is
// not played.
func (p *player) follow(d *diff) decode.Reason {
	switch p.book.follow(d) {
	case apply:
		e := d.event
		if len(e.Bids)+len(e.Asks) > 0 {
			e.Bids, e.Asks = p.copyLevels(e.Bids), p.copyLevels(e.Asks)
			p.add(e)
		}
	case drop:
		return decode.Repeated
	case hold:
		return decode.UnknownBook
	case gap:
		p.stats.Gaps++
		p.source.config.Logger.Warn("gap in recorded depth", "file", p.source.path, "line", p.stats.Lines, "instrument", p.source.instrument.ID.String(), "sequence", d.last)
		p.add(market.Event{Kind: market.KindGap, Time: d.event.Time, Receive: d.event.Receive, Sequence: d.last, Reason: "sequence_gap"})
		return decode.UnknownBook
	}
	return decode.Played
}

// copyLevels copies levels to a buffer that stays valid until the batch is published.
func (p *player) copyLevels(levels []market.Level) []market.Level {
	n := len(p.levels)
	p.levels = append(p.levels, levels...)
	return p.levels[n:len(p.levels):len(p.levels)]
}

func (p *player) add(e market.Event) {
	e.Handle = p.handle
	p.batch = append(p.batch, e)
}

// flush publishes the batch and updates the counters.
func (p *player) flush(ctx context.Context) error {
	var err error
	if n := len(p.batch); n > 0 {
		p.run.last = cmp.Or(p.batch[n-1].Time, p.batch[n-1].Receive)
		err = p.run.countRejected(p.run.sink.Publish(p.batch), &p.stats)
		clear(p.batch)
		p.batch, p.levels = p.batch[:0], p.levels[:0]
	}
	p.source.count(p.stats)
	if err == nil {
		err = ctx.Err()
	}
	return err
}
