package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ruedahq/rueda/bench/bare"
	"github.com/ruedahq/rueda/bench/host"
	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/pairs"
	"github.com/ruedahq/rueda/bench/pattern"
)

const (
	idleConns       = 19_000
	idleInstruments = 100
	idleScrapes     = 50
)

// Idle measures the cost of connections without messages: memory, and the processor time of
// heartbeats and of a scrape of the metrics.
func Idle(ctx context.Context, o Options) (*Report, error) {
	r, err := o.begin("idle")
	if err != nil {
		return nil, err
	}
	conns := o.sizes(idleConns)[0]
	r.Settings = fmt.Sprintf("%s with three subscriptions each; heartbeats over %v", plural(conns, "connection"), o.pings())
	if o.wants(idleName(idlePlain, conns)) {
		if err := o.plain(ctx, r, conns); err != nil {
			return r, err
		}
	}
	if o.wants(idleName(idleTLS, conns)) {
		if err := o.tls(ctx, r, conns); err != nil {
			return r, err
		}
	}
	r.end()
	return r, nil
}

// Workloads of Idle.
const (
	idlePlain = "plain"
	idleTLS   = "tls"
)

func idleKinds() []string { return []string{idlePlain, idleTLS} }

func idleName(kind string, conns int) string { return fmt.Sprintf("%s %d", kind, conns) }

// pings returns how long heartbeats are measured: a whole number of their intervals.
func (o *Options) pings() time.Duration {
	return max(o.Heartbeats, o.Window/o.Heartbeats*o.Heartbeats)
}

// three returns three subscriptions to one of a hundred instruments.
func three() []load.Set {
	var sets []load.Set
	for i := range idleInstruments {
		id := pattern.ID(i).String()
		sets = append(sets, load.Set{Snapshots: 2,
			Subscribe: fmt.Sprintf(`{"action":"subscribe","trades":[%q],"quotes":[%q],"order_book":[%q]}`, id, id, id)})
	}
	return sets
}

func (o *Options) plain(ctx context.Context, r *Report, conns int) error {
	c := &Case{Name: idleName(idlePlain, conns), Conns: conns}
	r.Cases = append(r.Cases, c)
	var memory, ping, pinged, scrape []float64
	for i := range o.Runs {
		rueda, err := o.idleGateway(ctx, r, idlePlain, conns)
		if err != nil {
			return err
		}
		g, err := bareRig(ctx, o, bare.Config{Ping: o.Heartbeats, Snapshots: 2})
		ceiling, err := o.idleRun(ctx, g, err, load.Config{Conns: conns, Sets: three()})
		if err != nil {
			return err
		}
		r.sawForeign(rueda.foreign, ceiling.foreign)
		memory, pinged = append(memory, rueda.each), append(pinged, rueda.pinged)
		ping, scrape = append(ping, part(rueda.cores, ceiling.cores)), append(scrape, rueda.scrape*1000)
		o.talk("plain %d: rueda %.3f KiB a connection (heap %.3f), %d goroutines more; heartbeats %.4f cores, bare %.4f; pings %d and %d; a scrape %.2f ms; foreign %.2f",
			i+1, rueda.each/1024, rueda.heap/1024, rueda.goroutines, rueda.cores, ceiling.cores, rueda.pings, ceiling.pings, rueda.scrape*1000, rueda.foreign)
		c.Figures = append(c.Figures,
			Figure{"resident, empty server", float64(rueda.empty), size(float64(rueda.empty))},
			Figure{"resident a connection", rueda.each, size(rueda.each)},
			Figure{"of it in the heap", rueda.heap, size(rueda.heap)},
			Figure{"goroutines that came with the connections", float64(rueda.goroutines), fmt.Sprint(rueda.goroutines)},
			Figure{"cores for heartbeats", rueda.cores, fmt.Sprintf("%.4f; bare %.4f", rueda.cores, ceiling.cores)},
			Figure{"a scrape of the metrics, CPU ms", rueda.scrape * 1000, fmt.Sprintf("%.2f", rueda.scrape*1000)},
			Figure{"resident a connection of the bare program", ceiling.each, size(ceiling.each)})
	}
	r.Notes = append(r.Notes, fmt.Sprintf("connections of one user: %d, the limit that is not raised; the empty server has logged all users in", defaultPerUser))
	r.atMost(c.Name+": KiB a connection above the empty server", pairs.Median(memory)/1024, 0.7, "%.3f")
	// No ping at all is a failure, not a missing sample.
	r.atLeast(c.Name+": pings of those that were due", max(1e-6, pairs.Median(pinged)), 0.95, "%.3f")
	r.atMost(c.Name+": heartbeats of the bare ping loop", pairs.Median(ping), 1.3, "%.2f")
	r.atMost(c.Name+": CPU ms of a scrape of the metrics", pairs.Median(scrape), 10, "%.2f")
	return nil
}

// rest holds what idle connections cost: memory of each in bytes, and processor time of all.
type rest struct {
	empty      int64
	each, heap float64 // bytes of a connection
	goroutines int
	cores      float64
	foreign    float64
	pings      uint64
	pinged     float64 // share of the due pings that were sent
	scrape     float64 // processor seconds of a scrape of the metrics
}

// afterOpening is how long the work of opening connections takes at most: the gateway writes who
// used which data every ten seconds, and needs memory for it until then.
const afterOpening = 12 * time.Second

// idleRun opens connections to g, measures them, and closes g. If err, the error of the start of g,
// is not nil, it only closes g and returns err.
func (o *Options) idleRun(ctx context.Context, g *rig, err error, cfg load.Config) (out *rest, _ error) {
	defer func() {
		if cerr := g.close(); err == nil {
			err = cerr
		}
	}()
	if err != nil {
		return nil, err
	}
	var before, after host.Memory
	if err := g.server.Ask("memory", nil, &before); err != nil {
		return nil, err
	}
	if _, err := g.open(cfg); err != nil {
		return nil, err
	}
	if err := wait(ctx, afterOpening); err != nil {
		return nil, err
	}
	if err := g.server.Ask("memory", nil, &after); err != nil {
		return nil, err
	}
	n := float64(cfg.Conns)
	out = &rest{
		empty: before.Resident,
		each:  float64(after.Resident-before.Resident) / n, heap: (float64(after.Heap) - float64(before.Heap)) / n,
		goroutines: after.Goroutines - before.Goroutines,
	}
	a, err := g.mark()
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, o.pings()); err != nil {
		return nil, err
	}
	b, err := g.mark()
	if err != nil {
		return nil, err
	}
	run := between(a, b)
	out.cores, out.foreign, out.pings = run.Cores, run.Foreign, b.Pings-a.Pings
	if b.Faults.Any() {
		return nil, &badRun{b.Faults}
	}
	if !g.isBare {
		var s host.Scrapes
		if err := g.server.Ask("scrape", idleScrapes, &s); err != nil {
			return nil, err
		}
		out.scrape = s.CPU
	}
	out.pinged = float64(out.pings) / (n * o.pings().Seconds() / o.Heartbeats.Seconds())
	return out, nil
}

// idleGateway makes a run of a workload with a gateway.
func (o *Options) idleGateway(ctx context.Context, r *Report, kind string, conns int) (out *rest, err error) {
	folder, err := os.MkdirTemp("", "rueda-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	cfg := host.Config{Conns: conns, Instruments: idleInstruments, Ping: o.Heartbeats}
	if kind == idleTLS {
		cfg.Certificate, cfg.Key = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
		if err := writeCertificate(cfg.Certificate, cfg.Key); err != nil {
			return nil, err
		}
	}
	g, err := hostRig(ctx, o, cfg)
	out, err = o.idleRun(ctx, g, err, load.Config{Conns: conns, Sets: three(), Certificate: cfg.Certificate})
	if err != nil {
		return nil, err
	}
	r.Limits = g.limits
	return out, nil
}

func (o *Options) tls(ctx context.Context, r *Report, conns int) error {
	out, err := o.idleGateway(ctx, r, idleTLS, conns)
	if err != nil {
		return err
	}
	r.sawForeign(out.foreign)
	c := &Case{Name: idleName(idleTLS, conns), Conns: conns, Figures: []Figure{
		{"resident, empty server", float64(out.empty), size(float64(out.empty))},
		{"resident a connection", out.each, size(out.each)},
		{"of it in the heap", out.heap, size(out.heap)},
		{"goroutines that came with the connections", float64(out.goroutines), fmt.Sprint(out.goroutines)},
		{"cores for heartbeats", out.cores, fmt.Sprintf("%.4f", out.cores)},
	}}
	r.Cases = append(r.Cases, c)
	r.atMost(c.Name+": KiB a connection above the empty server", out.each/1024, 11, "%.2f")
	return nil
}
