package replay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// Config says how a recording is played. The zero Config plays all of it once, as fast
// as it was recorded.
type Config struct {
	Speed    float64      // times as fast as recorded; 0 means 1; negative or +Inf: as fast as the sink takes it
	From     int64        // what was received before this time, Unix ns, is played at once; 0: nothing
	Loop     bool         // begin again at the end; books are then stale until they are whole again
	Symbols  []string     // of a recording of many instruments, those to play: symbols or identifiers; empty: all
	Date     string       // the day of a recording that holds none (NASDAQ ITCH, LOBSTER), as 2006-01-02, in New York
	FromName bool         // take Date, and the symbol of LOBSTER, from the name of the file where they are not given
	Logger   *slog.Logger // nil: none
}

// Source plays one recording. It is a feed.Source.
type Source struct {
	shared
	tape playable
}

// Stats counts what was played.
type Stats = decode.Stats

// shared is what a Source and the recording of its format both see.
type shared struct {
	path   string
	config Config
	known  []market.Instrument // defined so far, in order
	placed map[market.InstrumentID]bool
	read   atomic.Int64 // bytes of the file, this time through it
	total  atomic.Int64

	mu    sync.Mutex
	stats Stats
}

func noLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Instrument is what the recording is of, where it is of one; of many it is the first.
func (s *Source) Instrument() market.Instrument {
	if list := s.tape.instruments(); len(list) > 0 {
		return list[0]
	}
	return market.Instrument{}
}

// Instruments are what the recording is of, as far as is told by its beginning: a
// format that does not list them may come to others later.
func (s *Source) Instruments() []market.Instrument { return s.tape.instruments() }

// Few names the first instruments of a recording, and says how many more there are.
func (s *Source) Few() string {
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

// AppendMarkets appends the definitions of markets that the recording has, but for markets that dst has: their zones and
// hours, which a feed cannot tell.
func (s *Source) AppendMarkets(dst []market.Market) []market.Market {
	r, ok := s.tape.(*records)
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

// Stats is what was played so far, in all runs together.
func (s *Source) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Progress is how many bytes of the file, as it is stored, were read, and how many it
// has. With Loop it begins again with each time through the file.
func (s *Source) Progress() (read, total int64) { return s.read.Load(), s.total.Load() }

// Run implements feed.Source. What stands in the recording before a fault is
// published; the error is then an *Error.
func (s *Source) Run(ctx context.Context, sink feed.Sink) error {
	r := &run{shared: &s.shared, sink: sink, handles: make(map[market.InstrumentID]market.Handle)}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.stats = s.Stats()
		r.stats.Passes++
		if err := s.tape.play(ctx, r); err != nil || !s.config.Loop {
			return err
		}
	}
}

// openInput opens the file, to be played from its beginning.
func (s *shared) openInput() (*input, error) {
	s.read.Store(0)
	return openInput(s.path, &s.read)
}

func (s *shared) filter() decode.Filter { return decode.NewFilter(s.config.Symbols) }

// count brings the counts up to date.
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
	stats   Stats // at the beginning of this time through the file, which is counted
}

// define is the sink's handle of an instrument.
func (r *run) define(in market.Instrument) (market.Handle, error) {
	if h, ok := r.handles[in.ID]; ok {
		return h, nil
	}
	h, err := r.sink.Define(in)
	if err != nil {
		return 0, fmt.Errorf("replay %s: define %s: %w", r.path, in.ID, err)
	}
	r.handles[in.ID] = h
	if !r.placed[in.ID] {
		r.placed[in.ID] = true
		r.known = append(r.known, in)
	}
	return h, nil
}

// refused counts the events that the sink did not take: what it takes is for the
// sink to say, and the others go on. Any other error ends the run.
func (r *run) refused(err error, stats *Stats) error {
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
	stats.Refused += len(errs)
	r.config.Logger.Warn("recorded events refused", "file", r.path, "line", stats.Lines, "count", len(errs), "error", errs[0])
	return nil
}
