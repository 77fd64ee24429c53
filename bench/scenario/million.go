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
	millionConns   = 1_000_000
	millionPerUser = 100
	millionPing    = 300 * time.Second
	millionOpening = 3    // pairs that open connections at the same time
	descriptors    = 2000 // file descriptors of a process that are not connections
)

// Million opens a million authenticated and subscribed connections to as many gateways as the limit
// of descriptors requires, and sends one message to all.
func Million(ctx context.Context, o Options) (_ *Report, err error) {
	r, err := o.begin("million")
	if err != nil {
		return nil, err
	}
	total := o.sizes(millionConns)[0]
	files, err := proc.RaiseFiles()
	if err != nil {
		return r, err
	}
	each := min(18_000, files-descriptors)
	if o.PerProcess > 0 {
		each = min(each, o.PerProcess)
	}
	pairs := (total + each - 1) / each
	r.Settings = fmt.Sprintf("%s, %s and %s of at most %d",
		plural(total, "connection"), plural(pairs, "gateway"), plural(pairs, "load program"), each)
	usedBefore, slabBefore, err := proc.MachineMemory()
	if err != nil {
		return r, err
	}
	m := &million{opts: &o}
	defer func() {
		for _, g := range m.rigs {
			err = errors.Join(err, g.close())
		}
	}()
	began := time.Now()
	if err := m.open(ctx, total, each); err != nil {
		return r, err
	}
	opened := time.Since(began).Seconds()
	r.Limits = m.rigs[0].limits
	used, slab, err := proc.MachineMemory()
	if err != nil {
		return r, err
	}
	servers, loads, err := m.resident()
	if err != nil {
		return r, err
	}
	c := &Case{Name: millionName(total), Conns: total}
	r.Cases = append(r.Cases, c)
	n := float64(total)
	c.Figures = []Figure{
		{"opened, authenticated, subscribed in", opened, fmt.Sprintf("%s, %.0f a second", span(opened*1e3), n/opened)},
		{"resident, all gateways", float64(servers), fmt.Sprintf("%s, %s a connection, %s in it", size(float64(servers)), size(float64(servers)/n), plural(pairs, "process"))},
		{"resident, all load programs", float64(loads), size(float64(loads))},
		{"kernel objects (slab), both ends", float64(slab - slabBefore), fmt.Sprintf("%s, %s a socket", size(float64(slab-slabBefore)), size(float64(slab-slabBefore)/n/2))},
		{"memory of the machine, in all", float64(used - usedBefore), size(float64(used - usedBefore))},
	}
	if err := m.broadcast(ctx, r, c, total); err != nil {
		return r, err
	}
	r.end()
	return r, nil
}

func millionName(total int) string { return fmt.Sprintf("million (%d)", total) }

// million has the gateways and loads of a measurement with a million connections.
type million struct {
	opts *Options
	rigs []*rig
}

// open starts pairs and opens their connections, a few pairs at a time.
func (m *million) open(ctx context.Context, total, each int) error {
	done, waiting := 0, 0
	settle := func(until int) error {
		for ; len(m.rigs)-waiting < len(m.rigs) && waiting > until; waiting-- {
			g := m.rigs[len(m.rigs)-waiting]
			var o load.Opened
			if err := g.load.Answer("open", &o); err != nil {
				return err
			}
			done += o.Conns
			m.opts.talk("%d of %d connections", done, total)
		}
		return nil
	}
	for left := total; left > 0; {
		conns := min(each, left)
		left -= conns
		g, err := hostRig(ctx, m.opts, host.Config{Conns: conns, Ping: millionPing, PerUser: millionPerUser})
		if g != nil {
			m.rigs = append(m.rigs, g)
		}
		if err != nil {
			return err
		}
		cfg := g.withAddress(load.Config{Conns: conns, Sets: oneTopic(), Sources: 32, Sample: 1})
		if err := g.load.Send("open", cfg); err != nil {
			return err
		}
		waiting++
		if err := settle(millionOpening - 1); err != nil {
			return err
		}
	}
	return settle(0)
}

// resident returns the memory of all gateways and of all load programs.
func (m *million) resident() (servers, loads int64, err error) {
	for _, g := range m.rigs {
		var s host.Memory
		if err := g.server.Ask("memory", nil, &s); err != nil {
			return 0, 0, err
		}
		l, _, err := proc.Memory(g.load.Pid())
		if err != nil {
			return 0, 0, err
		}
		servers, loads = servers+s.Resident, loads+l
	}
	return servers, loads, nil
}

// broadcast makes every gateway publish one trade at the same time.
func (m *million) broadcast(ctx context.Context, r *Report, c *Case, total int) error {
	before := make([]*load.Mark, len(m.rigs))
	for i, g := range m.rigs {
		var err error
		if before[i], err = g.mark(); err != nil {
			return err
		}
	}
	began := time.Now()
	for _, g := range m.rigs {
		if err := g.server.Send("publish", pattern.Pattern{Kind: pattern.Once, Batch: 1}); err != nil {
			return err
		}
		if err := g.server.Send("stop", nil); err != nil {
			return err
		}
		// A trade is number 1 of its instrument.
		if err := g.load.Send("finish", load.Finish{Last: map[string]uint32{pattern.ID(0).String(): 1}, Seconds: 120}); err != nil {
			return err
		}
	}
	got, all, cpu, conns := uint64(0), &load.Latency{}, 0.0, 0
	for i, g := range m.rigs {
		var f load.Finished
		if err := errors.Join(g.server.Answer("publish", nil), g.server.Answer("stop", nil), g.load.Answer("finish", &f)); err != nil {
			return err
		}
		mark, err := g.mark()
		if err != nil {
			return err
		}
		if !f.Complete {
			r.Notes = append(r.Notes, (&badRun{f.Faults}).Error())
		}
		got += mark.Deliveries - before[i].Deliveries
		cpu += mark.Servers[0] - before[i].Servers[0]
		conns += mark.Conns
		all.Merge(mark.Latency)
	}
	run := &Run{Seconds: time.Since(began).Seconds(), Deliveries: got, CPU: cpu / float64(max(1, got)) * 1e6}
	run.setLatency(all)
	run.PerSecond = part(float64(got), run.Max/1e3)
	c.Figures = append(c.Figures,
		Figure{"one broadcast, last received after", run.Max / 1e3, fmt.Sprintf("%s; p50 %s, p99 %s", span(run.Max), span(run.P50), span(run.P99))},
		Figure{"server CPU s/M of the broadcast", run.CPU, fmt.Sprintf("%.2f", run.CPU)})
	r.holds(c.Name+": open, authenticated and subscribed", conns == total, fmt.Sprintf("%d of %d", conns, total))
	r.holds(c.Name+": one broadcast reaches all of them", got == uint64(total) && len(r.Notes) == 0, fmt.Sprintf("%d of %d", got, total))
	return nil
}
