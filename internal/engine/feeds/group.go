package feeds

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

// Feed is a source of a Group.
type Feed struct {
	Name   string
	Source feed.Source
	Late   bool // it may publish nothing for a long time, so Await does not wait for it
	Checks Checks
}

// GroupConfig configures a Group.
type GroupConfig struct {
	Markets     []market.Market     // with their hours
	Instruments []market.Instrument // listed from the start
	Feeds       []Feed
	Phase       func(market string) market.Phase // the last status of a market; see NewRegistry
	Numbers     feed.Resumer                     // stores the numbers of sources; nil: they are not stored
	Logger      *slog.Logger
}

// Group has the feeds of a gateway, and the hours of its markets.
type Group struct {
	cfg      GroupConfig
	sink     feed.Sink
	schedule *Schedule // nil: no market has hours
	registry *Registry
	feeds    []*Supervisor
}

// NewGroup returns a Group whose events go to sink, and lists the markets with hours and the
// instruments there. The error names what cannot be listed.
func NewGroup(cfg GroupConfig, sink feed.Sink) (*Group, error) {
	g := &Group{cfg: cfg, sink: sink, registry: NewRegistry(cfg.Phase)}
	var err error
	if g.schedule, err = NewSchedule(cfg.Markets, sink, cfg.Logger); err != nil {
		return nil, err
	}
	if g.schedule != nil {
		g.sink = g.schedule
	}
	if err := g.List(cfg.Instruments); err != nil {
		return nil, err
	}
	for _, f := range cfg.Feeds {
		s := NewSupervisor(f.Name, f.Source, g.sink, f.Checks, g.registry, cfg.Logger)
		s.numbers = cfg.Numbers
		g.feeds = append(g.feeds, s)
	}
	return g, nil
}

// List lists instruments, or replaces their definitions. The error names the first one that is not
// valid.
func (g *Group) List(list []market.Instrument) error {
	for _, in := range list {
		if _, err := g.sink.Define(in); err != nil {
			return fmt.Errorf("list an instrument: %w", err)
		}
	}
	return nil
}

// SetHours replaces the hours of a market that has hours.
func (g *Group) SetHours(id string, hours market.Schedule) { g.schedule.SetHours(id, hours) }

// Feeds returns the feeds.
func (g *Group) Feeds() []*Supervisor { return g.feeds }

// Live reports whether there are no feeds, or a market has a source that is up.
func (g *Group) Live() bool { return len(g.feeds) == 0 || g.registry.Live() }

// Names returns the names of the feeds.
func (g *Group) Names() (list []string) {
	for _, f := range g.feeds {
		list = append(list, f.Name())
	}
	return list
}

// Run runs the feeds and the hours until ctx ends. It returns nil.
func (g *Group) Run(ctx context.Context) error {
	var all sync.WaitGroup
	for _, f := range g.feeds {
		all.Go(func() { _ = f.Run(ctx) }) // it logs its errors, and returns nil
	}
	if g.schedule != nil {
		all.Go(func() { _ = g.schedule.Run(ctx) }) // it returns nil
	}
	all.Wait()
	return nil
}

// Await waits until every feed that is not late has published its first events, or until a time has
// passed. It returns the names of those that have not.
func (g *Group) Await(ctx context.Context, patience time.Duration) (silent string) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var names []string
	for i, f := range g.feeds {
		if g.cfg.Feeds[i].Late {
			continue
		}
		select {
		case <-f.Started():
			continue
		case <-ctx.Done():
		}
		select {
		case <-f.Started():
		default:
			names = append(names, f.Name())
		}
	}
	return strings.Join(names, ", ")
}
