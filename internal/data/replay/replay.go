package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// Config configures how a recording is played. The zero Config plays it once, at its recorded
// speed.
type Config struct {
	// multiple of the recorded speed; 0 means 1; negative or +Inf: as fast as the sink accepts
	Speed   float64
	From    int64    // events received before this time (Unix ns) are played at once; 0: none
	Loop    bool     // start again at the end; books are then stale until their next snapshot
	Symbols []string // symbols or identifiers to play; empty: all
	// play each change of an order of Databento MBO as an event of its own, for statistics; a
	// stream of them would show books that never existed
	Orders bool
	// day of a recording that has none (NASDAQ ITCH, LOBSTER), as 2006-01-02, in New York
	Date string
	// take Date, and the symbol of LOBSTER, from the file name if they are not set
	FromName bool
	// read from here, once, instead of from the file; the path is then only a name. Open reads up to
	// 64 KiB, after decompression, or 8 MiB of a capture of Binance that names its symbol late, and
	// the recording cannot be looped.
	Input  io.Reader
	Logger *slog.Logger // nil: no logging
}

// Source plays one recording, or several in turn. It implements feed.Source.
type Source struct {
	shared
	playable playable
	next     []*Source // played after this one
}

// Then makes s play another recording after its own, in the same stream. The books of captures of
// Binance continue if the messages do. Other books are stale until their next snapshot. If a
// recording is damaged, all its instruments have a gap (recording_damaged), and the next one is
// played. Call Then before Run.
func (s *Source) Then(next *Source) { s.next = append(s.next, next) }

// Stats counts what was played.
type Stats = decode.Stats

// shared is the state that a Source shares with its playable.
type shared struct {
	path    string
	config  Config
	stream  *onceReader         // nil: a file or folder
	known   []market.Instrument // defined so far, in order
	defined map[market.InstrumentID]bool
	read    atomic.Int64 // bytes of the file in this pass
	total   atomic.Int64
	packed  bool // the file is compressed

	mu    sync.Mutex
	stats Stats
	notes []Note
}

// Note describes something in a recording that was not played, the first of its reason.
type Note = decode.Note

// UnusedError is the error of Run for a recording of which nothing could be played.
type UnusedError struct {
	File    string
	Records int
	Skipped decode.Skipped // why, by reason
}

func (e *UnusedError) Error() string {
	if e.Records == 0 {
		return fmt.Sprintf("replay %s: it has no records", e.File)
	}
	return fmt.Sprintf("replay %s: none of its %d records could be played: %s", e.File, e.Records, e.Skipped.String())
}

// Final returns true: playing it again will fail again.
func (e *UnusedError) Final() bool { return true }

func noLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Instrument returns the first instrument of the recording.
func (s *Source) Instrument() market.Instrument {
	if list := s.playable.instruments(); len(list) > 0 {
		return list[0]
	}
	return market.Instrument{}
}

// Instruments returns the instruments of the recording that its beginning names. A format without a
// list of instruments may name others later.
func (s *Source) Instruments() []market.Instrument { return s.playable.instruments() }

// Summary returns the identifiers of the first instruments of the recording, and the number of
// others.
func (s *Source) Summary() string {
	const most = 4
	list := s.Instruments()
	var names []string
	for i := range list[:min(most, len(list))] {
		names = append(names, list[i].ID.String())
	}
	text := strings.Join(names, ", ")
	if len(list) > most {
		text += fmt.Sprintf(" and %d more", len(list)-most)
	}
	return text
}

// AppendMarkets appends the markets that the recording defines and dst does not have, with their
// time zones and hours, which a feed cannot publish.
func (s *Source) AppendMarkets(dst []market.Market) []market.Market {
	r, ok := s.playable.(*records)
	if !ok {
		return dst
	}
	for _, m := range r.markets {
		if !slices.ContainsFunc(dst, func(x market.Market) bool { return x.ID == m.ID }) {
			dst = append(dst, m)
		}
	}
	return dst
}

// Stats returns the counters of all runs together.
func (s *Source) Stats() Stats {
	all := s.counted()
	for _, x := range s.next {
		all.Add(x.counted())
	}
	return all
}

// Notes returns what was not played and why, the first of each reason of each recording.
func (s *Source) Notes() []Note {
	var all []Note
	for _, x := range append([]*Source{s}, s.next...) {
		x.mu.Lock()
		all = append(all, x.notes...)
		x.mu.Unlock()
	}
	return all
}

// note logs and stores a note, found after a number of lines.
func (s *shared) note(n Note, lines int) {
	s.config.Logger.Warn("recording not played in full", "file", s.path, "line", lines, "reason", n.Reason, "error", n.Detail)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.notes, func(x Note) bool { return x.Reason == n.Reason }) {
		s.notes = append(s.notes, n)
	}
}

// counted returns the counters of this recording.
func (s *shared) counted() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Progress returns how many bytes of the files, as stored, were read, and their size. With Loop it
// starts again in each pass.
func (s *Source) Progress() (read, total int64) {
	read, total = s.read.Load(), s.total.Load()
	for _, x := range s.next {
		read, total = read+x.read.Load(), total+x.total.Load()
	}
	return read, total
}

// Run implements feed.Source. If a recording is damaged, it publishes what comes before the damage
// and the recordings after it, and returns an *Error at the end. It returns an *UnusedError for a
// recording of which nothing could be played. Several errors are joined.
func (s *Source) Run(ctx context.Context, sink feed.Sink) error {
	runs := []*run{{shared: &s.shared, sink: sink, handles: make(map[market.InstrumentID]market.Handle)}}
	for _, x := range s.next {
		runs = append(runs, &run{shared: &x.shared, sink: sink, handles: make(map[market.InstrumentID]market.Handle)})
	}
	for {
		err := s.pass(ctx, runs)
		s.logSkipped(err)
		if err != nil || !s.config.Loop {
			return err
		}
	}
}

// pass plays all recordings once. It returns the damage of all of them.
func (s *Source) pass(ctx context.Context, runs []*run) (damage error) {
	damaged := false // the one before
	for i, r := range runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		x, passes := s, s.counted().Passes+1
		if i > 0 {
			x, passes = s.next[i-1], 1 // its beginning is not a restart
			before := s.playable
			if i > 1 {
				before = s.next[i-2].playable
			}
			if err := runs[i-1].handOver(before, x.playable, damaged); err != nil {
				return err
			}
		}
		before := x.counted()
		r.stats = before
		r.stats.Passes = passes
		err := x.playable.play(ctx, r)
		var bad *Error
		if bad, damaged = errors.AsType[*Error](err); err != nil && (!damaged || ctx.Err() != nil) {
			return err
		}
		if damaged {
			if bad.File == x.path && !x.packed {
				bad.Rest = max(0, x.total.Load()-bad.Offset)
			}
			x.countDamage()
			if i+1 < len(runs) {
				s.config.Logger.Error("recording damaged; the next one is played", "file", x.path, "error", err)
			}
		}
		damage = errors.Join(damage, err, x.unused(before))
	}
	return damage
}

// unused returns an error if no record was played since a state of the counters.
func (s *shared) unused(before Stats) error {
	now := s.counted()
	if now.Used > before.Used {
		return nil
	}
	for i := range now.Skipped {
		now.Skipped[i] -= before.Skipped[i]
	}
	return &UnusedError{s.path, now.Lines - before.Lines, now.Skipped}
}

// countDamage counts a recording that was not played to its end.
func (s *shared) countDamage() {
	s.mu.Lock()
	s.stats.Damaged++
	s.mu.Unlock()
}

// handOver ends a recording that another one follows. damaged means that its end is missing.
func (r *run) handOver(before, next playable, damaged bool) error {
	reason := "next_recording"
	if damaged {
		reason = "recording_damaged"
	}
	if b, ok := before.(*binance); ok && !damaged {
		if n, ok := next.(*binance); ok && n.instrument.ID == b.instrument.ID {
			n.resumed = b.ended
			return nil
		}
	}
	var events []market.Event
	for _, in := range r.known {
		if in.ID.IsPattern() || in.NoBook && !damaged {
			continue
		}
		h := r.handles[in.ID]
		events = append(events, market.Event{Kind: market.KindGap, Handle: h, Time: r.last, Reason: reason})
		if in.StartsEmpty {
			events = append(events, market.Event{Kind: market.KindSnapshot, Handle: h, Time: r.last})
		}
	}
	if len(events) == 0 {
		return nil
	}
	if err := r.sink.Publish(events); err != nil {
		return fmt.Errorf("replay %s: publish: %w", r.path, err)
	}
	return nil
}

// logSkipped logs the records that were not played, after the first pass.
func (s *Source) logSkipped(err error) {
	stats := s.Stats()
	if stats.Passes > 1 || errors.Is(err, context.Canceled) {
		return
	}
	level := slog.LevelInfo
	if stats.ManyLost() {
		level = slog.LevelWarn
	}
	s.config.Logger.Log(context.Background(), level, "recording played", "file", s.path, "lines", stats.Lines, "used", stats.Used, "skipped", stats.Skipped.String())
}

// openInput opens the file from its beginning.
func (s *shared) openInput() (in *input, err error) {
	s.read.Store(0)
	if s.stream == nil {
		in, err = openInput(s.path, &s.read)
	} else if err = s.stream.open(); err != nil {
		return nil, fmt.Errorf("replay %s: %w", s.path, err)
	} else {
		in, err = newInput(s.path, s.stream, &s.read)
	}
	if err == nil {
		s.packed = in.packed != ""
	}
	return in, err
}

func (s *shared) filter() decode.Filter { return decode.NewFilter(s.config.Symbols) }

// count stores the counters.
func (s *shared) count(stats Stats) {
	s.mu.Lock()
	s.stats = stats
	s.mu.Unlock()
}

// run is one call of Run.
type run struct {
	*shared
	sink    feed.Sink
	handles map[market.InstrumentID]market.Handle
	stats   Stats // at the beginning of this pass, including it
	last    int64 // time of the newest event
}

// define returns the sink's handle of an instrument.
func (r *run) define(in market.Instrument) (market.Handle, error) {
	if h, ok := r.handles[in.ID]; ok {
		return h, nil
	}
	h, err := r.sink.Define(in)
	if err != nil {
		return 0, fmt.Errorf("replay %s: define %s: %w", r.path, in.ID, err)
	}
	r.handles[in.ID] = h
	if !r.defined[in.ID] {
		r.defined[in.ID] = true
		r.known = append(r.known, in)
	}
	return h, nil
}

// countRejected counts the events that the sink rejected; the others are played. Any other error
// ends the run.
func (r *run) countRejected(err error, stats *Stats) error {
	if err == nil {
		return nil
	}
	errs := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		errs = joined.Unwrap()
	}
	for _, e := range errs {
		if _, ok := errors.AsType[*market.Refused](e); !ok {
			return fmt.Errorf("replay %s: publish: %w", r.path, err)
		}
	}
	stats.Rejected += len(errs)
	r.config.Logger.Warn("recorded events rejected", "file", r.path, "line", stats.Lines, "count", len(errs), "error", errs[0])
	return nil
}
