package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/bench/host"
	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/proc"
)

const (
	resumeConns  = 1000
	resumeTrades = 5000 // missed by each client
	resumeRate   = 100  // trades per second meanwhile
)

// Resume measures a storm of clients that reconnect after some time and resume while the market
// continues.
func Resume(ctx context.Context, o Options) (*Report, error) {
	r, err := o.begin("resume")
	if err != nil {
		return nil, err
	}
	conns := o.sizes(resumeConns)[0]
	r.Settings = fmt.Sprintf("%s of %s who missed %d trades each", plural(o.Runs, "run"), plural(conns, "client"), resumeTrades)
	c := &Case{Name: resumeName(conns), Conns: conns}
	r.Cases = append(r.Cases, c)
	for i := range o.Runs {
		run, err := o.comeBack(ctx, r, conns)
		if err != nil {
			return r, err
		}
		c.Rueda = append(c.Rueda, run)
		o.talk("%s %d: %s replayed rows/s, all there after %.2f s, %.3f s/M  %s", c.Name, i+1, rate(run.PerSecond), run.Seconds, run.CPU, run.Error)
	}
	r.holds(c.Name+": every trade once and in order, replay and live", !r.Wrong(), fmt.Sprintf("%d missed and all that came meanwhile", resumeTrades))
	r.end()
	return r, nil
}

func resumeName(conns int) string { return fmt.Sprintf("resume %d", conns) }

// comeBack makes one run.
func (o *Options) comeBack(ctx context.Context, r *Report, conns int) (run *Run, err error) {
	g, err := hostRig(ctx, o, host.Config{Conns: conns})
	defer func() { err = errors.Join(err, g.close()) }()
	if err != nil {
		return nil, err
	}
	r.Limits = g.limits
	// All clients have the first trade.
	first, err := g.open(load.Config{Conns: conns, Sets: oneTopic(), Frontier: true})
	if err != nil {
		return nil, err
	}
	seen, err := g.publishOnce(1)
	if err != nil {
		return nil, err
	}
	if err := g.load.Close(); err != nil {
		return nil, err
	}
	if g.load, err = g.start(ctx, RoleLoad); err != nil {
		return nil, err
	}
	// Published while no client is connected.
	if err := g.server.Ask("publish", pattern.Pattern{Kind: pattern.Once, Batch: resumeTrades}, nil); err != nil {
		return nil, err
	}
	if err := g.server.Ask("stop", nil, nil); err != nil {
		return nil, err
	}
	if err := g.publish(pattern.Pattern{Kind: pattern.Rate, Rate: resumeRate}); err != nil {
		return nil, err
	}
	id := pattern.ID(0).String()
	began := time.Now()
	a, err := g.cpu()
	if err != nil {
		return nil, err
	}
	busy, err := proc.Busy()
	if err != nil {
		return nil, err
	}
	if _, err := g.open(load.Config{Conns: conns, Sets: []load.Set{{Trades: []string{id},
		Subscribe: fmt.Sprintf(`{"action":"subscribe","trades":[%q],"resume":{"epoch":%q,"trades":{%q:%d}}}`, id, first.Epoch, id, seen.Last[id])}}}); err != nil {
		return nil, err
	}
	_, err = g.stopFrom(seen.Last)
	took := time.Since(began).Seconds()
	bad := (*badRun)(nil)
	if err != nil && !errors.As(err, &bad) {
		return nil, err
	}
	m, err := g.mark()
	if err != nil {
		return nil, err
	}
	run = &Run{Seconds: took, Foreign: max(0, (m.Busy-busy-(m.Servers[0]-a)-m.Self)/took), Deliveries: m.Deliveries, PerSecond: float64(m.Deliveries) / took,
		CPU: (m.Servers[0] - a) / float64(max(1, m.Deliveries)) * 1e6, Cores: (m.Servers[0] - a) / took, LoadCPU: m.Self / float64(max(1, m.Deliveries)) * 1e6}
	switch {
	case bad != nil:
		run.Error = bad.Error()
	case m.Deliveries < uint64(conns)*resumeTrades:
		run.Error = fmt.Sprintf("%d messages came of at least %d", m.Deliveries, conns*resumeTrades)
	}
	return run, nil
}
