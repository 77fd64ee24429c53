package scenario

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ruedahq/rueda/bench/host"
	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/pattern"
)

const (
	delaysRate        = 50_000 // trades per second
	delaysInstruments = 100
)

// historyDelays is the workload of History with delayed data.
const historyDelays = "delays"

// delays measures what delayed data costs. A client gets the trades in real time, and another one
// for each delay gets them later. Gateways without, with one and with three delays alternate.
func (o *Options) delays(ctx context.Context, r *Report) error {
	counts := [...]int{0, 1, 3}
	var cases [len(counts)]*Case
	for i, n := range counts {
		cases[i] = &Case{Name: delaysName(n), Conns: 1 + n, Unit: "trades"}
	}
	r.Cases = append(r.Cases, cases[:]...)
	for i := range o.Runs {
		for k := range counts {
			k = (k + i) % len(counts)
			run, err := o.delaysOnce(ctx, r, counts[k])
			if err != nil {
				return fmt.Errorf("%s: %w", cases[k].Name, err)
			}
			cases[k].Rueda = append(cases[k].Rueda, run)
			o.talk("%s %d: %.2f cores, %s resident  %s", cases[k].Name, i+1, run.Cores, size(float64(run.Resident)), run.Error)
		}
	}
	memory := func(r *Run) float64 { return float64(r.Resident) }
	for _, c := range cases {
		c.Figures = append(c.Figures, Figure{"cores", median(c.Rueda, cores), fmt.Sprintf("%.2f", median(c.Rueda, cores))},
			Figure{"resident memory", median(c.Rueda, memory), size(median(c.Rueda, memory))})
	}
	return nil
}

func delaysName(n int) string {
	return fmt.Sprintf("50 k/s, %s", plural(n, "delay"))
}

// delaysOnce makes one run with n delays of one second and more.
func (o *Options) delaysOnce(ctx context.Context, r *Report, n int) (run *Run, err error) {
	cfg := host.Config{Conns: 1 + n, Instruments: delaysInstruments, Journal: true}
	for i := range n {
		cfg.Delays = append(cfg.Delays, time.Duration(i+1)*time.Second)
	}
	g, err := hostRig(ctx, o, cfg)
	defer func() { err = errors.Join(err, g.close()) }()
	if err != nil {
		return nil, err
	}
	r.Limits = g.limits
	g.tokens = g.tokens[:1]
	for _, d := range cfg.Delays {
		t, err := token(ctx, http.DefaultClient, g.rest, host.DelayedUser(d))
		if err != nil {
			return nil, err
		}
		g.tokens = append(g.tokens, t)
	}
	all := load.Set{Subscribe: `{"action":"subscribe","trades":["*|BENCH|*"]}`, Trades: []string{"*|BENCH|*"}}
	if _, err := g.open(load.Config{Conns: 1 + n, Sets: []load.Set{all}}); err != nil {
		return nil, err
	}
	if err := g.publish(pattern.Pattern{Kind: pattern.Rate, Rate: delaysRate, Batch: 16, Spread: delaysInstruments}); err != nil {
		return nil, err
	}
	if err := wait(ctx, o.Warmup+time.Duration(n)*time.Second); err != nil { // the longest delay has passed
		return nil, err
	}
	if run, err = g.window(ctx, o.Window); err != nil {
		return nil, err
	}
	_, err = g.stop(0)
	if b := (*badRun)(nil); errors.As(err, &b) {
		run.Error, err = b.Error(), nil
	}
	return run, err
}
