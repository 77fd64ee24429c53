package scenario

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/bench/bare"
	"github.com/ruedahq/rueda/bench/host"
	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/pattern"
)

const connectConns = 15_000

// Connect measures how many clients per second get from nothing to their first quote: connect,
// upgrade, auth_token with a known token, subscribe, snapshot. The bare program accepts and sends
// as many fixed messages.
func Connect(ctx context.Context, o Options) (*Report, error) {
	r, err := o.begin("connect")
	if err != nil {
		return nil, err
	}
	c := connectCase(o.sizes(connectConns)[0])
	conns := c.Conns
	r.Settings = fmt.Sprintf("%s of %s", plural(o.Runs, "run"), plural(conns, "connection"))
	r.Cases = append(r.Cases, c)
	for i := range o.Runs {
		for k := range 2 {
			isBare := (i+k)%2 == 0
			run, err := o.storm(ctx, r, conns, isBare)
			if err != nil {
				return r, err
			}
			name := "rueda"
			if isBare {
				name = "ceiling"
				c.Ceiling = append(c.Ceiling, run)
			} else {
				c.Rueda = append(c.Rueda, run)
			}
			o.talk("%s %d %-7s %.0f connections/s, server %.1f us each, load %.1f us each", c.Name, i+1, name, run.PerSecond, run.CPU, run.LoadCPU)
		}
	}
	r.Notes = append(r.Notes, "s/M are processor seconds for a million connections, which is microseconds for one")
	r.atLeast(c.Name+": of accept-and-answer", ratios(c.Rueda, c.Ceiling, perSecond), 0.75, "%.3f")
	r.end()
	return r, nil
}

// connectCase returns a case that counts connections instead of deliveries.
func connectCase(conns int) *Case {
	return &Case{Name: fmt.Sprintf("connect %d", conns), Conns: conns, Unit: "connections"}
}

// storm makes one run of Connect.
func (o *Options) storm(ctx context.Context, r *Report, conns int, isBare bool) (run *Run, err error) {
	var g *rig
	if isBare {
		g, err = bareRig(ctx, o, bare.Config{Snapshots: 1})
	} else {
		g, err = hostRig(ctx, o, host.Config{Conns: conns})
	}
	defer func() { err = errors.Join(err, g.close()) }()
	if err != nil {
		return nil, err
	}
	id := pattern.ID(0).String()
	cfg := load.Config{Conns: conns, Opening: 256, Sets: []load.Set{{Snapshots: 1,
		Subscribe: fmt.Sprintf(`{"action":"subscribe","trades":[%q],"quotes":[%q]}`, id, id)}}}
	if !isBare {
		// Use each token once, so that the gateway knows it.
		r.Limits = g.limits
		first := cfg
		first.Conns = len(g.tokens)
		if _, err := g.open(first); err != nil {
			return nil, err
		}
		if err := g.load.Close(); err != nil {
			return nil, err
		}
		if g.load, err = g.start(ctx, RoleLoad); err != nil {
			return nil, err
		}
	}
	if err := wait(ctx, 500*time.Millisecond); err != nil {
		return nil, err
	}
	opened, err := g.open(cfg)
	if err != nil {
		return nil, err
	}
	n := float64(conns)
	run = &Run{
		Seconds: opened.Seconds, Deliveries: uint64(conns), PerSecond: n / opened.Seconds,
		CPU: opened.Servers[0] / n * 1e6, Cores: opened.Servers[0] / opened.Seconds, LoadCPU: opened.Self / n * 1e6,
		Foreign: max(0, (opened.Busy-opened.Servers[0]-opened.Self)/opened.Seconds),
	}
	return run, nil
}
