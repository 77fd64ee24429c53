package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/bench/pairs"
)

// MaxPairs is the default of the flag --max-runs, for Options.MaxRuns.
const MaxPairs = 25

const (
	comparePairs   = 9
	compareRepeats = 5 // pairs of a workload that are run again because of foreign load
)

// scenario is a workload of Compare.
type scenario struct {
	name    string
	conns   int
	figures []figure
	once    func(context.Context, *Options, *Report) (*Run, error)
}

// figure is what Compare compares, and the value of a run.
type figure struct {
	pairs.Figure
	value func(*Run) float64
}

// rateFigure returns the figure of Run.PerSecond. More is better.
func rateFigure(name string) figure {
	return figure{pairs.Figure{Name: name, Text: rate, More: true}, perSecond}
}

// costFigure returns a figure that is printed with digits after the point. Less is better.
func costFigure(name string, digits int, value func(*Run) float64) figure {
	text := func(v float64) string { return fmt.Sprintf("%.*f", digits, v) }
	return figure{pairs.Figure{Name: name, Text: text}, value}
}

// scenarios returns the workloads of Compare. folder is for their files.
func (o *Options) scenarios(folder string) []scenario {
	costs := costFigure("CPU s/M", 3, cpu)
	speed := []figure{rateFigure("deliveries/s"), costs}
	var list []scenario
	deliver := func(name string, conns int, figures []figure, make func() (*work, error)) {
		list = append(list, scenario{name, conns, figures, func(ctx context.Context, o *Options, r *Report) (*Run, error) {
			w, err := make()
			if err != nil {
				return nil, err
			}
			return o.once(ctx, r, w, false)
		}})
	}
	for _, w := range fanouts(o.sizes(fanoutSizes()...)) {
		deliver("fanout "+w.name, w.conns, speed, func() (*work, error) { return &w, nil })
	}
	conns := o.sizes(spreadConns)[0]
	for _, books := range [2]bool{false, true} {
		deliver("fanout "+spreadName(conns, books), conns, speed, func() (*work, error) { return spreadWork(conns, books) })
	}
	one, wild := wildWorks(conns)
	for _, w := range []*work{one, wild} {
		deliver("fanout "+w.name, w.conns, speed, func() (*work, error) { return w, nil })
	}
	delay := []figure{costFigure("p50 ms", 3, p50), costFigure("p99 ms", 3, p99), costs}
	for _, w := range o.latencies() {
		deliver("latency "+w.name, w.conns, delay, func() (*work, error) { return w, nil })
	}
	conns = o.sizes(resumeConns)[0]
	list = append(list, scenario{resumeName(conns), conns, []figure{rateFigure("rows/s"), costs},
		func(ctx context.Context, o *Options, r *Report) (*Run, error) { return o.comeBack(ctx, r, conns) }})
	c := connectCase(o.sizes(connectConns)[0])
	list = append(list, scenario{c.Name, c.Conns, []figure{rateFigure("connections/s"), costFigure("CPU us each", 1, cpu)},
		func(ctx context.Context, o *Options, r *Report) (*Run, error) { return o.storm(ctx, r, c.Conns, false) }})
	memory := []figure{
		costFigure("KiB a connection", 3, func(r *Run) float64 { return r.Each / (1 << 10) }),
		costFigure("MiB of the empty server", 1, func(r *Run) float64 { return float64(r.Empty) / (1 << 20) }),
		costFigure("cores for heartbeats", 4, cores),
	}
	idle := o.sizes(idleConns)[0]
	for _, kind := range idleKinds() {
		list = append(list, scenario{"idle " + idleName(kind, idle), idle, memory,
			func(ctx context.Context, o *Options, r *Report) (*Run, error) {
				out, err := o.idleGateway(ctx, r, kind, idle)
				if err != nil {
					return nil, err
				}
				return &Run{Seconds: o.pings().Seconds(), Cores: out.cores, Foreign: out.foreign, Empty: out.empty, Each: out.each}, nil
			}})
	}
	s := starts{folder: folder, trades: o.journalTrades()}
	return append(list, scenario{startName(s.trades), 1, []figure{
		costFigure("s to ready", 3, func(r *Run) float64 { return r.Seconds }),
		costFigure("CPU s", 3, func(r *Run) float64 { return r.Cores * r.Seconds }),
	}, s.once})
}

// Compare measures two serving programs, Options.Old and Options.New, with the same load and
// workloads. Their runs come in pairs. Which of them runs first alternates. With an error it also
// returns what it measured, or nil if it did not begin.
func Compare(ctx context.Context, o Options) (_ *Report, err error) {
	r, err := o.begin("compare")
	if err != nil {
		return nil, err
	}
	o.MaxRuns = max(o.Runs, o.MaxRuns)
	r.Settings = fmt.Sprintf("%d to %d pairs of %v after %v; old: %s; new: %s", o.Runs, o.MaxRuns, o.Window, o.Warmup, o.Old[0], o.New[0])
	folder, err := os.MkdirTemp("", "rueda-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	err = o.compareAll(ctx, r, slices.DeleteFunc(o.scenarios(folder), func(s scenario) bool { return !o.wants(s.name) }))
	r.end()
	return r, err
}

// compareAll compares workloads one after another. With an error it sets Report.Incomplete.
func (o *Options) compareAll(ctx context.Context, r *Report, list []scenario) error {
	for i, s := range list {
		o.talk("%s: %d to %d pairs; workload %d of %d", s.name, o.Runs, o.MaxRuns, i+1, len(list))
		if err := o.compare(ctx, r, &s); err != nil {
			err = fmt.Errorf("%s: %w", s.name, err)
			why := err.Error()
			if ctx.Err() != nil { // the error may be of a child that it ended
				why = s.name + ": interrupted"
			}
			r.Incomplete = fmt.Sprintf("%d of %s measured; %s", i, plural(len(list), "workload"), why)
			return err
		}
	}
	return nil
}

// compare runs the pairs of a workload: Options.Runs, and more while an interval is too wide.
func (o *Options) compare(ctx context.Context, r *Report, s *scenario) error {
	c := &Case{Name: s.name, Conns: s.conns}
	r.Cases = append(r.Cases, c)
	var all []*pairs.Comparison
	repeated := 0
	began := time.Now()
	for len(c.Old) < o.Runs || len(c.Old) < o.MaxRuns && bad(c.runs()) == 0 && slices.ContainsFunc(all, (*pairs.Comparison).Wide) {
		n := len(c.Old)
		pair, err := o.pair(ctx, r, s, n%2)
		if err != nil {
			return err
		}
		if busy := max(pair[0].Foreign, pair[1].Foreign); busy > noisy && repeated < min(compareRepeats, o.MaxRuns-o.Runs) {
			repeated++
			o.talk("%s: pair %d is run again: others used %.2f cores", s.name, n+1, busy)
			continue
		}
		c.Old, c.New = append(c.Old, pair[0]), append(c.New, pair[1])
		all = s.compared(c)
		o.report(s, c, all, time.Since(began)/time.Duration(n+1+repeated))
	}
	if repeated > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s: %s run again because others used more than %.1f cores", s.name, plural(repeated, "pair"), noisy))
	}
	r.Comparisons = append(r.Comparisons, all...)
	return nil
}

// compared compares the figures of the pairs of a case. Wrong runs have no values.
func (s *scenario) compared(c *Case) (all []*pairs.Comparison) {
	for _, f := range s.figures {
		list := make([]pairs.Pair, len(c.Old))
		for i := range list {
			a, b := c.Old[i], c.New[i]
			if a.Error == "" && b.Error == "" {
				list[i] = pairs.Pair{Old: f.value(a), New: f.value(b), Noisy: max(a.Foreign, b.Foreign) > noisy}
			}
		}
		all = append(all, pairs.Compare(c.Name, f.Figure, list))
	}
	return all
}

// pair runs both programs. first is the index of the one that runs first: 0 old, 1 new.
func (o *Options) pair(ctx context.Context, r *Report, s *scenario, first int) (pair [2]*Run, err error) {
	for _, side := range [2]int{first, 1 - first} {
		own := *o
		own.Serve = [2][]string{o.Old, o.New}[side]
		pair[side], err = s.once(ctx, &own, r)
		if err = cmp.Or(err, ctx.Err()); err != nil { // a run of a child that was ended is wrong
			return pair, fmt.Errorf("%s: %w", own.Serve[0], err)
		}
	}
	return pair, nil
}

// report reports the newest pair, and the time of those that remain if each takes as long as the
// mean.
func (o *Options) report(s *scenario, c *Case, all []*pairs.Comparison, mean time.Duration) {
	n := len(c.Old)
	a, b := c.Old[n-1], c.New[n-1]
	var text strings.Builder
	for i, f := range s.figures {
		fmt.Fprintf(&text, "%s %s, %s (median ratio %.3f); ", f.Name, f.Text(f.value(a)), f.Text(f.value(b)), all[i].Ratio)
	}
	total, word := o.Runs, ""
	if n >= o.Runs && n < o.MaxRuns && slices.ContainsFunc(all, (*pairs.Comparison).Wide) {
		total, word = o.MaxRuns, "at most "
	}
	left := (mean * time.Duration(max(0, total-n))).Round(time.Second)
	o.talk("%s: pair %d of %s%d: %sforeign %.2f, %.2f; %s%v left  %s%s", s.name, n, word, max(n, total), text.String(), a.Foreign, b.Foreign, word, left, a.Error, b.Error)
}
