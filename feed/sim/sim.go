package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

// Clock selects the clock of the exchange.
type Clock uint8

// Clocks.
const (
	Real    Clock = iota // that of the machine; all markets are always open
	Virtual              // its own: trading days follow each other without nights
)

// ParseClock parses the word real or virtual.
func ParseClock(s string) (Clock, error) {
	switch s {
	case "real":
		return Real, nil
	case "virtual":
		return Virtual, nil
	}
	return 0, fmt.Errorf("%q is not a clock: real or virtual", s)
}

// Config configures a simulated exchange. The zero Config lists the default set of instruments, in
// real time, always open, without end.
type Config struct {
	// Seed determines all events. The same seed, number of instruments and, with a virtual clock,
	// first day and calendar give the same events.
	Seed uint64

	// Instruments is the number of instruments. 0 means 67, or with a virtual clock all 401: 200
	// symbols in two terms. A smaller number selects the first ones, a larger one adds invented
	// symbols. FAKE|SIM|CI is always the first.
	Instruments int

	// Clock is Real or Virtual. With Real, all markets are always open. With Virtual, the market
	// BYMA has the hours of Calendar: a day lasts from before its first session to after its last,
	// and the next day follows. Nights, weekends and holidays take no time: event times jump to
	// midnight and to the next day, also after the last day. Market SIM is always open.
	Clock Clock

	// Calendar defines the hours with a virtual clock; nil means DefaultCalendar.
	Calendar *Calendar

	// Days is the number of trading days with a virtual clock; 0 means no end.
	Days int

	// Speed is the number of seconds that pass on the exchange per second. 0 and 1 mean real time;
	// a negative or infinite speed publishes as fast as the sink accepts.
	Speed float64

	// Start is the event time at which the exchange begins; zero means now. With a virtual clock it
	// is five minutes before the first session of the first trading day on or after the date of
	// Start, in the calendar's time zone. With a Start, a virtual clock, or a Speed other than real
	// time, instruments are defined with VirtualClock.
	Start time.Time

	// FirstTradeID is the first trade id of each instrument. 0 means 1, or after ResumeAfter one
	// above all earlier ids.
	FirstTradeID uint64

	// Duration is how long the exchange runs, in its own time without nights; 0 means without end.
	Duration time.Duration
}

// Source is a simulated exchange. It implements feed.Source.
type Source struct {
	config   Config
	calendar Calendar
	listings []listing

	mu   sync.Mutex
	runs map[*run]struct{} // active calls of Run
}

// warmUp is the simulated time before the start during which books fill. After a few minutes the
// number of orders is stable.
const warmUp = 5 * time.Minute

// batch is the approximate number of events published at once if many are due.
const batch = 256

var errNoDay = errors.New("the calendar has no trading day within a year")

// New returns an exchange, or an error that describes what is wrong with the configuration.
func New(config Config) (*Source, error) {
	s := &Source{config: config, runs: map[*run]struct{}{}}
	switch {
	case config.Instruments < 0:
		return nil, errors.New("configure simulator: instruments must not be negative")
	case math.IsNaN(config.Speed):
		return nil, errors.New("configure simulator: speed must be a number")
	case config.Duration < 0:
		return nil, errors.New("configure simulator: duration must not be negative")
	case config.Days < 0:
		return nil, errors.New("configure simulator: days must not be negative")
	case config.Clock > Virtual:
		return nil, errors.New("configure simulator: clock must be Real or Virtual")
	case config.Clock == Real && (config.Calendar != nil || config.Days != 0):
		return nil, errors.New("configure simulator: calendar and days need the virtual clock")
	}
	n := config.Instruments
	if n == 0 {
		n = defaultSet
	}
	if config.Clock == Virtual {
		if config.Instruments == 0 {
			n = fullSet
		}
		s.calendar = DefaultCalendar()
		if config.Calendar != nil {
			s.calendar = *config.Calendar
		}
		if err := s.calendar.Validate(); err != nil {
			return nil, fmt.Errorf("configure simulator: %w", err)
		}
	}
	var err error
	if s.listings, err = list(n); err != nil {
		return nil, fmt.Errorf("configure simulator: %w", err)
	}
	for i := range s.listings {
		in := &s.listings[i].definition
		in.VirtualClock = s.virtual()
		if config.Clock == Virtual && in.ID.Market == venueBYMA {
			in.Phase = market.Closed
		}
	}
	return s, nil
}

// Instruments returns the definitions that Run will make, in order.
func (s *Source) Instruments() []market.Instrument {
	out := make([]market.Instrument, len(s.listings))
	for i := range s.listings {
		out[i] = s.listings[i].definition
	}
	return out
}

// ErrTimeReversed is returned if an exchange would begin before the end of what it should follow.
var ErrTimeReversed = errors.New("market time would go back")

// maxSetBack is how far the machine's clock may have been set back in the meantime.
const maxSetBack = time.Minute

// ResumeAfter makes the exchange follow what was published up to a time, so that market time does
// not go back and trade ids do not repeat. Without Config.Start a virtual clock begins with the
// first trading day that begins at that time or later, and a real clock with a Speed begins no
// earlier than that time. If the exchange would begin earlier (at Config.Start, or now in real
// time), ResumeAfter returns ErrTimeReversed, wrapped. The zero time means that nothing was
// published, and has no effect. Call ResumeAfter before Run.
func (s *Source) ResumeAfter(after time.Time) error {
	if after.IsZero() {
		return nil
	}
	begin := s.config.Start
	switch {
	case s.config.Clock == Virtual:
		d, err := s.firstDay(after)
		if err != nil {
			return fmt.Errorf("resume simulated day: %w", err)
		}
		begin, s.config.Start = time.Unix(0, d.begins()), d.date
	case begin.IsZero():
		begin = time.Now()
		switch ahead := after.Sub(begin); {
		case ahead > 0 && s.virtual():
			begin, s.config.Start = after, after
		case ahead > 0 && ahead < maxSetBack:
			begin = after
		}
	}
	if begin.Before(after) {
		return fmt.Errorf("%w: from %s to %s", ErrTimeReversed, after.UTC().Format(time.RFC3339), begin.UTC().Format(time.RFC3339))
	}
	// No instrument trades a thousand times a second for long.
	s.config.FirstTradeID = max(s.config.FirstTradeID, uint64(max(1, begin.UnixMilli())))
	return nil
}

// firstDay returns the day of Config.Start, or else the first trading day that begins at a time or
// after it.
func (s *Source) firstDay(after time.Time) (*day, error) {
	if from := s.config.Start; !from.IsZero() {
		return newDay(s.config.Seed, s.calendar, from, s.config.Days)
	}
	d, err := newDay(s.config.Seed, s.calendar, after, s.config.Days)
	for err == nil && d.begins() < after.UnixNano() {
		next, ok := s.calendar.tradingDay(d.date.AddDate(0, 0, 1), terms()...)
		if !ok {
			return nil, errNoDay
		}
		d.date = midnight(next, d.loc)
	}
	return d, err
}

// virtual reports whether event times differ from this machine's clock.
func (s *Source) virtual() bool {
	return s.config.Clock == Virtual || (s.config.Speed != 0 && s.config.Speed != 1) || !s.config.Start.IsZero()
}

// run is an active call of Run.
type run struct {
	x           *exchange
	sink        feed.Sink
	clock       clock
	wake        chan struct{} // holds a value when faults or a speed are pending
	lastTradeID uint64        // trade ids of each instrument start above it

	mu      sync.Mutex // also held while x acts, so that Trigger can read its state
	pending []request  // faults to be injected
	listed  int        // instruments listed while the exchange runs, or about to be
	speed   float64    // requested by Speed; 0: none
	virtual bool       // event times are not those of the machine
}

// Run implements feed.Source. Every call starts the same exchange from the beginning.
func (s *Source) Run(ctx context.Context, sink feed.Sink) error {
	if err := ctx.Err(); err != nil {
		return err // before the work of warming up
	}
	hours, err := s.hours()
	if err != nil {
		return err
	}
	r := &run{
		x:    newExchange(s.config.Seed, s.listings, -int64(warmUp), hours),
		sink: sink,
		wake: make(chan struct{}, 1),

		virtual: s.virtual(),
	}
	r.x.warmUp()
	r.lastTradeID = max(1, s.config.FirstTradeID) - 1
	for i := range r.x.instruments {
		r.x.instruments[i].trades += r.lastTradeID
	}
	began := time.Now()
	r.x.start = s.config.Start.UnixNano()
	if s.config.Start.IsZero() {
		r.x.start = began.UnixNano()
	}
	if hours != nil {
		r.x.start = hours.begins() - r.x.now // as in beginDay
	}
	if err := r.open(); err != nil {
		return err
	}
	r.clock = clock{speed: s.config.Speed, began: began, timer: time.NewTimer(0)}
	defer r.clock.timer.Stop()
	s.mu.Lock()
	s.runs[r] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.runs, r)
		s.mu.Unlock()
	}()
	end := never
	if s.config.Duration > 0 {
		end = int64(s.config.Duration)
	}
	return r.loop(ctx, end)
}

// hours returns the first day of the market that has hours, nil if there is none.
func (s *Source) hours() (*day, error) {
	if s.config.Clock != Virtual {
		return nil, nil
	}
	from := s.config.Start
	if from.IsZero() {
		from = time.Now()
	}
	d, err := newDay(s.config.Seed, s.calendar, from, s.config.Days)
	if err != nil {
		return nil, fmt.Errorf("begin simulated day: %w", err)
	}
	return d, nil
}

// open defines all instruments and publishes the open markets and the books.
func (r *run) open() error {
	x := r.x
	for i := range x.instruments {
		in := &x.instruments[i]
		definition := in.listing.definition
		definition.Listed = x.unix(x.now)
		var err error
		if in.handle, err = r.sink.Define(definition); err != nil {
			return fmt.Errorf("define %s: %w", definition.ID, err)
		}
		if _, ok := x.markets[definition.ID.Market]; ok {
			continue
		}
		whole := market.InstrumentID{Symbol: market.Any, Market: definition.ID.Market, Term: market.Any}
		handle, err := r.sink.Define(market.Instrument{ID: whole, VirtualClock: definition.VirtualClock})
		if err != nil {
			return fmt.Errorf("define %s: %w", whole, err)
		}
		x.markets[definition.ID.Market] = handle
	}
	if x.day != nil {
		x.beginDay()
	}
	for _, m := range [...]string{venueSIM, venueBYMA} {
		if _, ok := x.markets[m]; ok && (x.day == nil || m != venueBYMA) {
			x.marketStatus(m, market.Open, "", 0)
		}
	}
	for i := range x.instruments {
		if in := &x.instruments[i]; !x.keepsHours(in) {
			x.reference(in, 0)
			x.snapshot(in)
		}
	}
	return r.publish()
}

// loop runs the exchange until its end or the end of ctx.
func (r *run) loop(ctx context.Context, end int64) error {
	x, c := r.x, &r.clock
	for {
		next := min(x.next(), end)
		wait := c.wait(next)
		if x.ended {
			wait = 0
		}
		if wait > 0 || next == end || len(x.events) >= batch || x.ended {
			if err := r.publish(); err != nil {
				return err
			}
			woken, err := c.sleep(ctx, wait, r.wake)
			if err != nil {
				return err
			}
			if woken {
				if err := r.inject(c.virtual(), next); err != nil {
					return err
				}
				continue
			}
		}
		if next == end || x.ended {
			return nil
		}
		r.step()
	}
}

// step performs the next action.
func (r *run) step() {
	r.mu.Lock()
	r.x.step()
	r.mu.Unlock()
}

// publish publishes the events since the last call.
func (r *run) publish() error {
	if len(r.x.events) == 0 {
		return nil
	}
	if err := r.sink.Publish(r.x.events); err != nil {
		return fmt.Errorf("publish simulated events: %w", err)
	}
	r.x.clear()
	return nil
}
