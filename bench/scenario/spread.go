package scenario

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ruedahq/rueda/bench/host"
	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/feed/sim"
)

const (
	spreadConns       = 1000
	spreadInstruments = 100
	spreadEach        = 10 // of them that a connection follows
	wildInstruments   = 612
)

// spread measures connections with their own sets on the simulated market, and the cost of a
// wildcard.
func (o *Options) spread(ctx context.Context, r *Report) error {
	conns := o.sizes(spreadConns)[0]
	for _, books := range [2]bool{false, true} {
		if !o.wants(spreadName(conns, books)) {
			continue
		}
		w, err := spreadWork(conns, books)
		if err != nil {
			return err
		}
		if err := o.measure(ctx, r, w); err != nil {
			return err
		}
		if c := r.Cases[len(r.Cases)-1]; !books {
			r.atLeast(w.name+": million deliveries/s", median(c.Rueda, perSecond)/1e6, 4, "%.2f")
		}
	}
	one, wild := wildWorks(conns)
	if !o.wants(one.name, wild.name) {
		return nil
	}
	if err := o.measure(ctx, r, one, wild); err != nil {
		return err
	}
	n := len(r.Cases)
	r.atMost(wild.name+": CPU of that of one instrument (5 % are noise)", ratios(r.Cases[n-1].Rueda, r.Cases[n-2].Rueda, cpu), 1.05, "%.3f")
	return nil
}

func spreadName(conns int, books bool) string {
	if books {
		return fmt.Sprintf("spread with books %d", conns)
	}
	return fmt.Sprintf("spread %d", conns)
}

// spreadWork returns the simulated market: every connection follows ten instruments of a hundred,
// and every instrument has a hundred readers of a thousand.
func spreadWork(conns int, books bool) (*work, error) {
	source, err := sim.New(sim.Config{Seed: 1, Instruments: spreadInstruments})
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, in := range source.Instruments() {
		ids = append(ids, in.ID.String())
	}
	w := &work{name: spreadName(conns, books), conns: conns, host: host.Config{Market: true, Instruments: spreadInstruments}}
	readers := make(map[string]int, len(ids))
	for i := range conns {
		// Steps of different sizes make the overlaps of sets differ.
		var own []string
		step := 1 + i/len(ids)%7
		for k := range spreadEach {
			own = append(own, ids[(i+k*step)%len(ids)])
		}
		for _, id := range own {
			readers[id]++
		}
		message := map[string]any{"action": "subscribe", "trades": own, "quotes": own}
		if books {
			message["order_book"], message["depth"] = own, 5
		}
		text, err := json.Marshal(message)
		if err != nil {
			return nil, err
		}
		w.sets = append(w.sets, load.Set{Subscribe: string(text), Trades: own})
	}
	w.rueda = &pattern.Pattern{Kind: pattern.Market, Window: 64 * conns, Readers: readers}
	return w, nil
}

// wildWorks returns the same messages at the same rate, of one instrument and of 612 in a wildcard.
func wildWorks(conns int) (one, wild *work) {
	rate := pattern.Pattern{Kind: pattern.Rate, Batch: 16, Rate: 1e6 / float64(conns)}
	many := rate
	many.Spread = wildInstruments
	pattern := load.Set{Subscribe: `{"action":"subscribe","trades":["*|BENCH|*"]}`, Trades: []string{"*|BENCH|*"}}
	one = &work{name: fmt.Sprintf("one instrument, 1 M/s, %d", conns), conns: conns, rueda: &rate}
	wild = &work{name: fmt.Sprintf("wildcard of %d, 1 M/s, %d", wildInstruments, conns), conns: conns, rueda: &many,
		host: host.Config{Instruments: wildInstruments}, sets: []load.Set{pattern}}
	return one, wild
}
