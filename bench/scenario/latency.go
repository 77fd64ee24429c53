package scenario

import (
	"context"
	"fmt"

	"github.com/ruedahq/rueda/bench/pattern"
)

// latencyConns is the number of connections of workloads with many.
const latencyConns = 1000

// Latency measures the time from an event of the feed to the receipt of its message, at rates that
// use half of the machine.
func Latency(ctx context.Context, o Options) (*Report, error) {
	r, err := o.begin("latency")
	if err != nil {
		return nil, err
	}
	works := o.latencies()
	big, small, burst := works[0], works[1], works[2]
	if o.wants(big.name) {
		if err := o.measure(ctx, r, big); err != nil {
			return r, err
		}
		c := r.Cases[len(r.Cases)-1]
		r.atMost(big.name+": p50 of the ceiling's", ratios(c.Rueda, c.Ceiling, p50), 1.1, "%.3f")
		r.atMost(big.name+": p99 of the ceiling's", ratios(c.Rueda, c.Ceiling, p99), 1.2, "%.3f")
	}
	if o.wants(small.name) {
		if err := o.measure(ctx, r, small); err != nil {
			return r, err
		}
		c := r.Cases[len(r.Cases)-1]
		r.atMost(small.name+": p99 ms", median(c.Rueda, p99), 0.38, "%.3f")
	}
	if o.wants(burst.name) {
		if err := o.measure(ctx, r, burst); err != nil {
			return r, err
		}
	}
	r.end()
	return r, nil
}

// latencies returns the workloads: single messages to many, groups to a few, bursts to many.
func (o *Options) latencies() []*work {
	conns := o.sizes(latencyConns)[0]
	one := 100_000 / float64(conns) // messages per second for 100,000 deliveries
	paced := func(name string, conns int, p pattern.Pattern) *work {
		return &work{name: name, conns: conns, ceiling: &p, rueda: &p, sample: 3}
	}
	return []*work{
		paced(fmt.Sprintf("100 k/s to %d", conns), conns, pattern.Pattern{Kind: pattern.Rate, Rate: one}),
		paced("160 k/s to 20", 20, pattern.Pattern{Kind: pattern.Rate, Rate: 8000, Batch: 4}),
		paced(fmt.Sprintf("96 k/s to %d by 16", conns), conns, pattern.Pattern{Kind: pattern.Rate, Rate: 0.96 * one, Batch: 16}),
	}
}
