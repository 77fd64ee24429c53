package sim

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

// Config says what to simulate. The zero Config is the default set of
// instruments in real time, for ever.
type Config struct {
	// Seed decides everything that happens. The same seed and number of
	// instruments give the same events, at the same times after the start.
	Seed uint64

	// Instruments is how many are listed. 0 means the default set, a smaller
	// number its first ones, a larger one made-up symbols behind it.
	// FAKE|SIM|CI is always the first.
	Instruments int

	// Speed is how many seconds pass on the exchange in a second: 0 and 1 mean
	// real time, below 0 or infinite as fast as the sink takes it.
	Speed float64

	// Start is the event time at which the exchange begins; zero means now. With
	// a Start, or a Speed other than real time, instruments are defined with
	// VirtualClock.
	Start time.Time

	// Duration is how long the exchange runs, in its own time; 0 means for ever.
	Duration time.Duration
}

// Source is a simulated exchange, a feed.Source.
type Source struct {
	config   Config
	listings []listing
}

// warmUp is the simulated time before the start in which books fill. After a
// few minutes they have about as many orders as they will ever have.
const warmUp = 5 * time.Minute

// batch is about how many events are published at once where many are due.
const batch = 256

// New makes an exchange. The error says what is wrong with the configuration.
func New(config Config) (*Source, error) {
	switch {
	case config.Instruments < 0:
		return nil, errors.New("configure simulator: instruments must not be negative")
	case math.IsNaN(config.Speed):
		return nil, errors.New("configure simulator: speed must be a number")
	case config.Duration < 0:
		return nil, errors.New("configure simulator: duration must not be negative")
	}
	listings, err := list(config.Instruments)
	if err != nil {
		return nil, fmt.Errorf("configure simulator: %w", err)
	}
	return &Source{config: config, listings: listings}, nil
}

// Instruments is the definitions that Run will make, in order.
func (s *Source) Instruments() []market.Instrument {
	out := make([]market.Instrument, len(s.listings))
	for i := range s.listings {
		out[i] = s.listings[i].definition
		out[i].VirtualClock = s.virtual()
	}
	return out
}

// virtual says whether event times are not those of this machine's clock.
func (s *Source) virtual() bool {
	return (s.config.Speed != 0 && s.config.Speed != 1) || !s.config.Start.IsZero()
}

// Run implements feed.Source. Every call begins the same exchange anew.
func (s *Source) Run(ctx context.Context, sink feed.Sink) error {
	if err := ctx.Err(); err != nil {
		return err // before the work of warming up
	}
	x := newExchange(s.config.Seed, s.listings, -int64(warmUp))
	x.warmUp()
	began := time.Now()
	start := s.config.Start
	if start.IsZero() {
		start = began
	}
	x.start = start.UnixNano()
	if err := s.open(x, sink); err != nil {
		return err
	}
	p := pacer{speed: s.config.Speed, began: began, timer: time.NewTimer(0)}
	defer p.timer.Stop()
	return s.trade(ctx, x, &p, sink)
}

// open defines everything, and publishes that the markets are open and what the
// books hold.
func (s *Source) open(x *exchange, sink feed.Sink) error {
	var markets []string
	for i, in := range s.Instruments() {
		handle, err := sink.Define(in)
		if err != nil {
			return fmt.Errorf("define %s: %w", in.ID, err)
		}
		x.instruments[i].handle = handle
		if len(markets) == 0 || markets[len(markets)-1] != in.ID.Market {
			markets = append(markets, in.ID.Market)
		}
	}
	for _, m := range markets {
		whole := market.InstrumentID{Symbol: market.Any, Market: m, Term: market.Any}
		handle, err := sink.Define(market.Instrument{ID: whole, VirtualClock: s.virtual()})
		if err != nil {
			return fmt.Errorf("define %s: %w", whole, err)
		}
		x.events = append(x.events, market.Event{Kind: market.KindStatus, Handle: handle, Time: x.start, Phase: market.Open})
	}
	for i := range x.instruments {
		x.snapshot(&x.instruments[i])
	}
	return publish(x, sink)
}

// trade runs the exchange until its end or ctx's.
func (s *Source) trade(ctx context.Context, x *exchange, p *pacer, sink feed.Sink) error {
	end := int64(math.MaxInt64)
	if s.config.Duration > 0 {
		end = int64(s.config.Duration)
	}
	for {
		next := min(x.next(), end)
		wait := p.wait(next)
		if wait > 0 || next == end || len(x.events) >= batch {
			if err := publish(x, sink); err != nil {
				return err
			}
			if err := p.sleep(ctx, wait); err != nil {
				return err
			}
		}
		if next == end {
			return nil
		}
		x.step()
	}
}

// publish hands over what happened since the last time.
func publish(x *exchange, sink feed.Sink) error {
	if len(x.events) == 0 {
		return nil
	}
	if err := sink.Publish(x.events); err != nil {
		return fmt.Errorf("publish simulated events: %w", err)
	}
	x.clear()
	return nil
}

// pacer keeps virtual time in step with the clock.
type pacer struct {
	speed float64
	began time.Time
	timer *time.Timer
	now   time.Duration // clock since began, when last read
}

// wait is how long it is until a virtual time; 0 where it is due.
func (p *pacer) wait(at int64) time.Duration {
	if p.speed < 0 || math.IsInf(p.speed, 1) {
		return 0
	}
	due := time.Duration(at)
	if p.speed != 0 && p.speed != 1 {
		due = time.Duration(min(float64(at)/p.speed, math.MaxInt64/2))
	}
	if due <= p.now {
		return 0 // no need to read the clock for each event of a backlog
	}
	p.now = time.Since(p.began)
	return max(0, due-p.now)
}

// sleep waits, or returns ctx's error. It looks at ctx even where wait is 0.
func (p *pacer) sleep(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return ctx.Err()
	}
	p.timer.Reset(wait)
	select {
	case <-p.timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
