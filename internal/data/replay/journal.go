package replay

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// A journal is played as the events that its rows were made of. Rows that a hub derives from other
// events (bars, summaries, quotes from books) are not played, because the receiving hub derives
// them again.

// isJournal reports whether a recording is the folder or a segment of a journal.
func isJournal(h *head) bool {
	if h.folder {
		// the pattern is valid
		days, _ := filepath.Glob(filepath.Join(h.path, "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]"))
		return len(days) > 0
	}
	return len(h.data) >= 8 && (string(h.data[:8]) == "RUEDAJRN" || string(h.data[:8]) == "RUEDAJRZ")
}

// journalSource plays the rows of a journal as a recording.
type journalSource struct {
	*shared
	listed      []market.Instrument
	bytesPerRow float64 // average size of a row on disk
}

func openJournal(s *shared, _ *input) (_ playable, err error) {
	r, err := journal.OpenReader(context.Background(), s.path)
	if err != nil {
		return nil, fmt.Errorf("replay %s: %w", s.path, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	t := &journalSource{shared: s}
	filter := s.filter()
	for n := uint32(1); ; n++ {
		def, ok := r.Instrument(n)
		if !ok {
			break
		}
		if !def.ID.IsPattern() && filter.Matches(def.ID) {
			t.listed = append(t.listed, recorded(def, 0))
		}
	}
	rows, bytes := uint64(0), int64(0)
	for _, d := range r.Days() {
		rows, bytes = rows+d.Rows, bytes+d.Bytes
	}
	t.bytesPerRow = float64(bytes) / float64(max(1, rows))
	s.total.Store(bytes)
	return t, nil
}

// recorded returns a definition as it is listed in a replay, at the time of its first row.
func recorded(def market.Instrument, at int64) market.Instrument {
	def.VirtualClock, def.Listed = true, at
	return def
}

func (t *journalSource) instruments() []market.Instrument { return t.listed }

// play implements playable.
func (t *journalSource) play(ctx context.Context, run *run) (err error) {
	r, err := journal.OpenReader(ctx, t.path)
	if err != nil {
		return fmt.Errorf("replay %s: %w", t.path, err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	p := journalPlayer{run: run, reader: r, bytesPerRow: t.bytesPerRow, pace: newPace(t.config.Speed, t.config.From), handles: make(map[uint32]*journalItem), stats: run.stats}
	defer p.pace.stop()
	defer func() { p.count(p.stats) }() // of rows after the last one that is played
	if run.stats.Passes > 1 {
		if err := p.restart(); err != nil {
			return err
		}
	}
	kinds := journal.Kinds(journal.Trade, journal.Cancel, journal.Correct, journal.Status, journal.Quote,
		journal.BookUpdate, journal.BookState, journal.BookLost, journal.Reference, journal.Gap) | journal.Checkpoints
	for _, epoch := range r.Epochs() {
		p.epoch++
		err := r.Scan(ctx, journal.ScanStart{Epoch: epoch}, nil, kinds, func(row *journal.Row) bool {
			p.err = p.row(ctx, row)
			return p.err == nil
		})
		if err = errors.Join(p.err, err); err != nil {
			return err
		}
	}
	return p.flush(ctx)
}

// journalPlayer plays a journal once.
type journalPlayer struct {
	*run
	reader      *journal.Reader
	bytesPerRow float64
	pace        pace
	handles     map[uint32]*journalItem
	stats       Stats
	events      []market.Event
	levels      []market.Level // of the events
	epoch       int
	newest      int64
	rows        int64
	err         error
}

// journalItem is an instrument of a journal.
type journalItem struct {
	handle         market.Handle
	market         string
	venue          string // the name of a market as a whole; "": an instrument
	selected       bool   // selected by the filter
	quotesFromFeed bool   // its quotes are not derived from its book
	startsEmpty    bool   // its book is empty at listing
	phase          market.Phase
	listedStatus   bool   // its first row is the status of its listing
	epoch          int    // in which its book was last played
	last           uint64 // N of its book's newest row
	unknown        bool   // its book is currently unknown
}

// redundant reports whether a row of a checkpoint need not be played. It must be played if rows
// before it were lost: its status then differs, its book state has a different N than the newest
// row, or the book is no longer known.
func (it *journalItem) redundant(r *journal.Row, epoch int) bool {
	switch r.Kind {
	case journal.BookState:
		return it.epoch == epoch && !it.unknown && r.N == it.last
	case journal.BookLost:
		return it.unknown || it.epoch == 0 && !it.startsEmpty
	case journal.Status:
		return r.Phase.OfFeed() || r.Phase == it.phase
	}
	return true
}

// restart makes the books stale when the journal is played again.
func (p *journalPlayer) restart() error {
	var events []market.Event
	for _, in := range p.known {
		h, err := p.define(in)
		if err != nil {
			return err
		}
		if !in.ID.IsPattern() {
			events = append(events, market.Event{Kind: market.KindGap, Handle: h, Reason: "replay_restarted"})
		}
	}
	return p.countRejected(p.sink.Publish(events), &p.stats)
}

func (p *journalPlayer) item(r *journal.Row) (*journalItem, error) {
	number := r.Instrument
	if it := p.handles[number]; it != nil {
		return it, nil
	}
	def, ok := p.reader.Instrument(number)
	if !ok {
		return nil, fmt.Errorf("replay %s: instrument %d is not defined", p.path, number)
	}
	it := &journalItem{market: def.ID.Market, selected: def.ID.IsPattern() || p.filter().Matches(def.ID), quotesFromFeed: def.QuotesFromFeed || def.NoBook, startsEmpty: def.StartsEmpty}
	if def.ID.IsPattern() {
		it.venue = def.ID.Market
	}
	if it.selected {
		if it.venue == "" { // the status of a market is always an event
			def.Phase = market.Unknown
			if r.Kind == journal.Status && !r.Phase.OfFeed() {
				def.Phase, it.listedStatus = r.Phase, r.N == 1 && !r.Checkpoint
			}
		}
		it.phase = def.Phase
		h, err := p.define(recorded(def, r.Time))
		if err != nil {
			return nil, err
		}
		it.handle = h
	}
	p.handles[number] = it
	return it, nil
}

// journalBatch is the maximum number of events that are published together.
const journalBatch = 256

// row plays one row of the journal.
func (p *journalPlayer) row(ctx context.Context, r *journal.Row) error {
	if r.Kind == journal.Gap {
		p.stats.Count(decode.Incomplete)
		return nil // the N of each book shows whether it lost rows
	}
	it, err := p.item(r)
	if err != nil || !it.selected {
		return err
	}
	if r.Checkpoint && it.redundant(r, p.epoch) {
		return nil
	}
	e, ok := p.event(it, r)
	if p.tally(r, ok); !ok {
		return nil
	}
	if !r.Checkpoint { // rows of checkpoints may have times of another clock
		p.rows++
		p.read.Store(int64(float64(p.rows) * p.bytesPerRow))
		p.newest = max(p.newest, r.At)
		if due := p.pace.until(p.newest); due > 0 {
			if err := p.flush(ctx); err != nil {
				return err
			}
			if err := p.pace.wait(ctx, due); err != nil {
				return err
			}
		}
	}
	p.events = append(p.events, e)
	if len(p.events) >= journalBatch {
		return p.flush(ctx)
	}
	return nil
}

// tally counts a row that is played, or that a hub derives from the played ones.
func (p *journalPlayer) tally(r *journal.Row, played bool) {
	s := &p.stats
	switch r.Kind {
	case journal.Trade, journal.Cancel, journal.Correct:
		s.Trades++
	case journal.Quote:
		s.Quotes++
	case journal.Status:
		s.Statuses++
	case journal.BookState, journal.BookUpdate:
		s.Depth++
		s.Levels += len(r.Bids) + len(r.Asks)
		if r.Kind == journal.BookState {
			s.Snapshots++
		}
	case journal.BookLost:
		s.Gaps++
	}
	switch {
	case r.Checkpoint:
	case played:
		s.Count(decode.Played)
	default:
		s.Count(decode.Repeated)
	}
}

// event returns the event that a row was made of. ok is false if a hub derives the row itself.
func (p *journalPlayer) event(it *journalItem, r *journal.Row) (e market.Event, ok bool) {
	e = market.Event{Handle: it.handle, Time: r.Time, Side: r.Side, Price: r.Price, Size: r.Size, OldPrice: r.OldPrice,
		OldSize: r.OldSize, TradeID: r.ID, Reason: r.Reason, Until: r.Until, Phase: r.Phase}
	e.TradeDetails = r.TradeDetails.Clone()
	switch r.Kind {
	case journal.Trade:
		e.Kind = market.KindTrade
	case journal.Cancel:
		e.Kind = market.KindCancel
	case journal.Correct:
		e.Kind = market.KindCorrect
	case journal.Reference:
		e = market.Event{Kind: market.KindReference, Handle: it.handle, Time: r.Time,
			PreviousClose: r.Price, Settlement: r.OldPrice, OpenInterest: r.Size}
	case journal.Status:
		e.Kind = market.KindStatus
		if r.Phase == market.Gap {
			e.Kind, e.Phase = market.KindGap, market.NoPhase
			p.markUnknown(it)
			return e, !r.Checkpoint
		}
		if r.Checkpoint {
			e.Time = 0 // the time of the status is unknown
		}
		if !r.Phase.OfFeed() {
			it.phase = r.Phase
		}
		implied := it.listedStatus && r.N == 1
		return e, !implied && !r.Phase.OfFeed()
	case journal.Quote:
		e.Kind = market.KindQuote
		e.Bids, e.Asks = p.copyLevels(r.Bids), p.copyLevels(r.Asks)
		// In an auction, a quote is an indicative price and not that of the book.
		return e, it.quotesFromFeed || it.phase == market.PreOpen || it.phase == market.Auction
	case journal.BookState:
		// implied by the listing
		implied := it.startsEmpty && it.epoch == 0 && r.N == 1 && len(r.Bids)+len(r.Asks) == 0
		it.epoch, it.last, it.unknown = p.epoch, r.N, false
		e.Kind = market.KindSnapshot
		e.Bids, e.Asks = p.copyLevels(r.Bids), p.copyLevels(r.Asks)
		return e, !implied
	case journal.BookUpdate:
		if it.epoch != p.epoch || it.unknown {
			return e, false // the checkpoint's book state includes it
		}
		if r.N != it.last+1 {
			e.Kind, e.Reason = market.KindGap, "not_kept"
			it.unknown = true
			return e, true
		}
		e.Kind = market.KindUpdate
		e.Bids, e.Asks = p.copyLevels(r.Bids), p.copyLevels(r.Asks)
		it.last = r.N
	case journal.BookLost:
		e.Kind = market.KindGap
		known := !it.unknown
		it.last, it.unknown = r.N, true
		if r.Checkpoint {
			e.Time = 0 // the time is that of the newest change; the time of the loss is unknown
		}
		return e, known // otherwise the gap that caused it was played
	}
	return e, true
}

// markUnknown records that a gap loses the book of an instrument, or all books of a market.
func (p *journalPlayer) markUnknown(it *journalItem) {
	it.unknown = true
	if it.venue == "" {
		return
	}
	for _, x := range p.handles {
		x.unknown = x.unknown || x.market == it.venue
	}
}

// copyLevels copies levels of the reader, which are valid until the next row.
func (p *journalPlayer) copyLevels(list []market.Level) []market.Level {
	if len(list) == 0 {
		return nil
	}
	n := len(p.levels)
	p.levels = append(p.levels, list...)
	return p.levels[n:len(p.levels):len(p.levels)]
}

// flush publishes the collected events.
func (p *journalPlayer) flush(ctx context.Context) error {
	if len(p.events) == 0 {
		return ctx.Err()
	}
	err := p.countRejected(p.sink.Publish(p.events), &p.stats)
	p.count(p.stats)
	p.events, p.levels = p.events[:0], p.levels[:0]
	if err == nil {
		err = ctx.Err()
	}
	return err
}
