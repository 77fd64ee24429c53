package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/bench/bare"
	"github.com/ruedahq/rueda/internal/bench/load"
	"github.com/ruedahq/rueda/internal/bench/pattern"
)

// Ceiling measures the bare program alone, at everything that the others are compared with.
func Ceiling(ctx context.Context, o Options) (*Report, error) {
	o.fill()
	r := newReport("ceiling", &o)
	var works []*work
	for _, w := range fanouts(o.sizes(1000, 10_000)) {
		if w.rueda.Kind == pattern.Lockstep { // the others have the same ceiling
			works = append(works, &w)
		}
	}
	for _, w := range append(works, o.latencies()...) {
		if !strings.Contains(w.name, o.Only) {
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
	r.Took = time.Since(r.Began).Seconds()
	return r, nil
}

func (o *Options) bareConnect(ctx context.Context, r *Report) error {
	conns := o.sizes(connectConns)[0]
	c := &Case{Name: fmt.Sprintf("connect %d", conns), Conns: conns}
	if !strings.Contains(c.Name, o.Only) {
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

func (o *Options) barePings(ctx context.Context, r *Report) error {
	conns := o.sizes(idleConns)[0]
	c := &Case{Name: fmt.Sprintf("pings %d", conns), Conns: conns}
	if !strings.Contains(c.Name, o.Only) {
		return nil
	}
	r.Cases = append(r.Cases, c)
	g, err := bareRig(ctx, o, bare.Config{Ping: o.Heartbeats, Snapshots: 2})
	out, err := o.idleRun(ctx, g, err, load.Config{Conns: conns, Sets: three()})
	if err != nil {
		return err
	}
	c.Figures = []Figure{
		{"resident a connection", out.each, size(out.each)},
		{"cores for heartbeats", out.cores, fmt.Sprintf("%.4f", out.cores)},
	}
	return nil
}
