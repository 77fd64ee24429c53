package scenario

import (
	"context"
	"fmt"

	"github.com/ruedahq/rueda/bench/bare"
	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/pattern"
)

// Ceiling measures the bare program alone in all its workloads.
func Ceiling(ctx context.Context, o Options) (*Report, error) {
	r, err := o.begin("ceiling")
	if err != nil {
		return nil, err
	}
	for _, w := range o.ceilings() {
		if !o.wants(w.name) {
			continue
		}
		w.rueda = nil
		if err := o.measure(ctx, r, w); err != nil {
			return r, err
		}
	}
	if err := o.bareConnect(ctx, r); err != nil {
		return r, err
	}
	if err := o.barePings(ctx, r); err != nil {
		return r, err
	}
	r.end()
	return r, nil
}

// ceilings returns the workloads of deliveries with their own ceiling.
func (o *Options) ceilings() []*work {
	var works []*work
	for _, w := range fanouts(o.sizes(fanoutSizes()...)) {
		if w.rueda.Kind == pattern.Lockstep { // the others have the same ceiling
			works = append(works, &w)
		}
	}
	return append(works, o.latencies()...)
}

func (o *Options) bareConnect(ctx context.Context, r *Report) error {
	conns := o.sizes(connectConns)[0]
	c := connectCase(conns)
	if !o.wants(c.Name) {
		return nil
	}
	r.Cases = append(r.Cases, c)
	for range o.Runs {
		run, err := o.storm(ctx, r, conns, true)
		if err != nil {
			return err
		}
		c.Ceiling = append(c.Ceiling, run)
	}
	return nil
}

func pingsName(conns int) string { return fmt.Sprintf("pings %d", conns) }

func (o *Options) barePings(ctx context.Context, r *Report) error {
	conns := o.sizes(idleConns)[0]
	c := &Case{Name: pingsName(conns), Conns: conns}
	if !o.wants(c.Name) {
		return nil
	}
	r.Cases = append(r.Cases, c)
	g, err := bareRig(ctx, o, bare.Config{Ping: o.Heartbeats, Snapshots: 2})
	out, err := o.idleRun(ctx, g, err, load.Config{Conns: conns, Sets: three()})
	if err != nil {
		return err
	}
	r.sawForeign(out.foreign)
	c.Figures = []Figure{
		{"resident a connection", out.each, size(out.each)},
		{"cores for heartbeats", out.cores, fmt.Sprintf("%.4f", out.cores)},
	}
	return nil
}
