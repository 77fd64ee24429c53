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

// work is a workload of deliveries.
type work struct {
	name    string
	conns   int
	ceiling *pattern.Pattern // nil: no ceiling
	rueda   *pattern.Pattern
	host    host.Config
	sets    []load.Set // nil: the trades of the first instrument
	sample  int
}

// oneTopic returns the subscription to the trades of one instrument.
func oneTopic() []load.Set {
	id := pattern.ID(0).String()
	return []load.Set{{Subscribe: fmt.Sprintf(`{"action":"subscribe","trades":[%q]}`, id), Trades: []string{id}, Topic: id}}
}

// atOnce is a flush interval without waiting.
const atOnce = -time.Nanosecond

// fanouts returns the workloads of "fanout" with one topic.
func fanouts(conns []int) []work {
	var list []work
	for _, n := range conns {
		list = append(list,
			work{
				name: fmt.Sprintf("singles %d", n), conns: n, host: host.Config{Flush: atOnce, PerTurn: 1},
				ceiling: &pattern.Pattern{Kind: pattern.Lockstep, Batch: 1},
				rueda:   &pattern.Pattern{Kind: pattern.Lockstep, Batch: 1, Ahead: 8},
			},
			work{
				name: fmt.Sprintf("batch16 %d", n), conns: n, host: host.Config{Flush: atOnce, PerTurn: 16},
				ceiling: &pattern.Pattern{Kind: pattern.Lockstep, Batch: 16},
				rueda:   &pattern.Pattern{Kind: pattern.Lockstep, Batch: 16, Ahead: 4},
			},
			// The threads of the bare program are independent, and so are the shards while the
			// publisher is ahead of them. In step, both must keep pace.
			work{
				name: fmt.Sprintf("in step singles %d", n), conns: n, host: host.Config{Flush: atOnce},
				ceiling: &pattern.Pattern{Kind: pattern.Lockstep, Batch: 1, InStep: true},
				rueda:   &pattern.Pattern{Kind: pattern.Lockstep, Batch: 1},
			},
			work{
				name: fmt.Sprintf("in step batch16 %d", n), conns: n, host: host.Config{Flush: atOnce},
				ceiling: &pattern.Pattern{Kind: pattern.Lockstep, Batch: 16, InStep: true},
				rueda:   &pattern.Pattern{Kind: pattern.Lockstep, Batch: 16},
			},
			work{
				name: fmt.Sprintf("burst16 %d", n), conns: n,
				ceiling: &pattern.Pattern{Kind: pattern.Lockstep, Batch: 16},
				rueda:   &pattern.Pattern{Kind: pattern.Window, Batch: 16, Window: 256},
			},
			work{
				name: fmt.Sprintf("trickle %d", n), conns: n,
				ceiling: &pattern.Pattern{Kind: pattern.Lockstep, Batch: 16},
				rueda:   &pattern.Pattern{Kind: pattern.Window, Batch: 1, Window: 256},
			})
	}
	return list
}

func (o *Options) sizes(otherwise ...int) []int {
	if o.Conns > 0 {
		return []int{o.Conns}
	}
	return otherwise
}

// fanoutSizes are the numbers of connections of "fanout".
func fanoutSizes() []int { return []int{1000, 10_000} }

// Fanout measures deliveries per second at full speed.
func Fanout(ctx context.Context, o Options) (*Report, error) {
	r, err := o.begin("fanout")
	if err != nil {
		return nil, err
	}
	for _, w := range fanouts(o.sizes(fanoutSizes()...)) {
		if !o.wants(w.name) {
			continue
		}
		if err := o.measure(ctx, r, &w); err != nil {
			return r, err
		}
		r.judgeFanout(&w)
	}
	if err := o.spread(ctx, r); err != nil {
		return r, err
	}
	r.end()
	return r, nil
}

func (r *Report) judgeFanout(w *work) {
	c := r.Cases[len(r.Cases)-1]
	r.atLeast(w.name+": of the ceiling", ratios(c.Rueda, c.Ceiling, perSecond), 0.90, "%.3f")
	batched := w.rueda.Batch > 1 || w.rueda.Kind == pattern.Window
	switch {
	case w.conns == 1000 && !batched:
		r.atMost(w.name+": server CPU s/M", median(c.Rueda, cpu), 2.6, "%.3f")
	case w.conns == 1000 && w.rueda.Batch > 1:
		r.atMost(w.name+": server CPU s/M", median(c.Rueda, cpu), 0.20, "%.3f")
	case w.conns == 10_000 && w.rueda.Kind == pattern.Window:
		r.atLeast(w.name+": million deliveries/s", median(c.Rueda, perSecond)/1e6, 5, "%.2f")
	}
}

// measure makes the runs of workloads: pairs of ceiling and Rueda in alternating order. Several
// workloads alternate too.
func (o *Options) measure(ctx context.Context, r *Report, works ...*work) error {
	cases := make([]*Case, len(works))
	for i, w := range works {
		cases[i] = &Case{Name: w.name, Conns: w.conns}
	}
	r.Cases = append(r.Cases, cases...)
	for i := range o.Runs {
		for k := range 2 * len(works) {
			if i%2 == 1 {
				k = 2*len(works) - 1 - k
			}
			w, c, isBare := works[k/2], cases[k/2], k%2 == 0
			if isBare && w.ceiling == nil || !isBare && w.rueda == nil {
				continue
			}
			run, err := o.once(ctx, r, w, isBare)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			name := "rueda"
			if isBare {
				name = "ceiling"
				c.Ceiling = append(c.Ceiling, run)
			} else {
				c.Rueda = append(c.Rueda, run)
			}
			o.talk("%-16s %d %-7s %10s/s  %.3f s/M  p50 %.2f p99 %.2f ms  %.1f msgs/read  foreign %.2f  %s",
				w.name, i+1, name, rate(run.PerSecond), run.CPU, run.P50, run.P99, run.PerRead, run.Foreign, run.Error)
		}
	}
	return nil
}

// once makes one run. Wrong messages are reported in the Run.
func (o *Options) once(ctx context.Context, r *Report, w *work, isBare bool) (run *Run, err error) {
	var g *rig
	p := w.rueda
	if isBare {
		p = w.ceiling
		g, err = bareRig(ctx, o, bare.Config{})
	} else {
		cfg := w.host
		cfg.Conns = w.conns
		g, err = hostRig(ctx, o, cfg)
	}
	defer func() { err = errors.Join(err, g.close()) }()
	if err != nil {
		return nil, err
	}
	if !isBare {
		r.Limits = g.limits
	}
	cfg := load.Config{Conns: w.conns, Sets: w.sets, Sample: w.sample}
	if cfg.Sets == nil || isBare {
		cfg.Sets, cfg.Frontier = oneTopic(), true
	}
	if _, err := g.open(cfg); err != nil {
		return nil, err
	}
	if err := g.publish(*p); err != nil {
		return nil, err
	}
	if err := wait(ctx, o.Warmup); err != nil {
		return nil, err
	}
	if run, err = g.window(ctx, o.Window); err != nil {
		return nil, err
	}
	_, err = g.stop(0)
	if b := (*badRun)(nil); errors.As(err, &b) {
		run.Error, err = b.Error(), nil
	}
	if err == nil && run.Deliveries == 0 {
		run.Error = "nothing was delivered"
	}
	return run, err
}
