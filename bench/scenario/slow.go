package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/bench/host"
	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/pairs"
	"github.com/ruedahq/rueda/bench/pattern"
	"github.com/ruedahq/rueda/bench/proc"
)

const (
	slowBuffer = 16 << 10 // SO_RCVBUF of slow readers
	maxWaiting = 1 << 20  // limit of pending bytes of a client: the default, set explicitly
	maxPending = 64 << 10 // limit of pending bytes in the buffer of its socket
	slack      = 16 << 20 // normal variation of a collected heap
	slowRuns   = 7        // default pairs of windows
	slowConns  = 1000     // connections of the workload with slow readers
)

// Workloads of Slow.
const (
	slowStopped = "stopped"
	slowTenth   = "tenth"
)

// Slow measures the effect of slow readers on the server and on other clients.
func Slow(ctx context.Context, o Options) (*Report, error) {
	r, err := o.begin("slow")
	if err != nil {
		return nil, err
	}
	if o.wants(slowStopped) {
		if err := o.stopped(ctx, r); err != nil {
			return r, err
		}
	}
	if o.wants(slowTenth) {
		if err := o.tenth(ctx, r); err != nil {
			return r, err
		}
	}
	r.end()
	return r, nil
}

// slowRun is the result of a run: a window without slow readers, before, and one with them, after.
type slowRun struct {
	before, after *Run
	grown         int64 // bytes resident: peak of the second window minus that of the first
	ends          map[string]int
	age           *load.Latency
	bad           string
}

// stopped makes one reader of twenty stop, with eight thousand trades per second.
func (o *Options) stopped(ctx context.Context, r *Report) error {
	conns := 20
	c := &Case{Name: "one of 20 stops", Conns: conns}
	r.Cases = append(r.Cases, c)
	var ratio, grown []float64
	ends := map[string]int{}
	for i := range o.Runs {
		s, err := o.slowOnce(ctx, r, slowWork{
			host: host.Config{Conns: conns, MaxWaiting: maxWaiting},
			load: load.Config{Conns: conns, Sets: oneTopic(), Sample: 3, Slow: 1, SlowBuffer: slowBuffer},
			p:    pattern.Pattern{Kind: pattern.Rate, Rate: 8000, Batch: 4},
		})
		if err != nil {
			return err
		}
		grown = append(grown, float64(s.grown))
		if s.before.Samples > 0 && s.after.Samples > 0 {
			ratio = append(ratio, part(s.after.P99, s.before.P99))
		}
		add(ends, s.ends)
		s.after.Error = s.bad
		c.Rueda = append(c.Rueda, s.before, s.after)
		o.talk("%s %d: p99 of the others %.3f ms, then %.3f; grown by %s; %s %s", c.Name, i+1, s.before.P99, s.after.P99, size(float64(s.grown)), describeEnds(s.ends), s.bad)
	}
	c.Figures = append(c.Figures, Figure{"resident memory grown", pairs.Median(grown), size(pairs.Median(grown))}, Figure{"how it ended", float64(len(ends)), describeEnds(ends)})
	r.atMost(c.Name+": p99 of the others, of before", pairs.Median(ratio), 1.25, "%.3f")
	r.atMost(c.Name+": resident memory grown, MiB (bound: what may wait, and slack of the heap)", max(0.01, slices.Max(grown)/(1<<20)), (maxWaiting+maxPending+slack)/float64(1<<20), "%.1f")
	return nil
}

// tenth makes 50 readers of 1,000 read a tenth of the data: half of them only quotes, the others
// trades too.
func (o *Options) tenth(ctx context.Context, r *Report) error {
	conns, instruments := o.sizes(slowConns)[0], 10
	slow := max(2, conns/20)
	var ids []string
	for i := range instruments {
		ids = append(ids, pattern.ID(i).String())
	}
	quotes, err := json.Marshal(map[string]any{"action": "subscribe", "quotes": ids})
	if err != nil {
		return err
	}
	both, err := json.Marshal(map[string]any{"action": "subscribe", "quotes": ids, "trades": ids})
	if err != nil {
		return err
	}
	c := &Case{Name: fmt.Sprintf("%d of %d at a tenth", slow, conns), Conns: conns}
	r.Cases = append(r.Cases, c)
	runs := (o.Runs + 2) / 3 // each takes long
	ends, age := map[string]int{}, &load.Latency{}
	var ratio, grown []float64
	for i := range runs {
		s, err := o.slowOnce(ctx, r, slowWork{
			host: host.Config{Conns: conns, Instruments: instruments, MaxWaiting: maxWaiting},
			load: load.Config{Conns: conns, Slow: slow, SlowBuffer: slowBuffer, Sets: []load.Set{{Subscribe: string(quotes)}, {Subscribe: string(both), Trades: ids}}},
			p:    pattern.Pattern{Kind: pattern.Rate, Rate: 400 * 1000 / float64(max(conns, 1000)), Batch: 8, Spread: instruments, Quotes: true},
			part: 0.1, lasts: o.SlowFor,
		})
		if err != nil {
			return err
		}
		grown = append(grown, float64(s.grown))
		if s.before.Samples > 0 && s.after.Samples > 0 {
			ratio = append(ratio, part(s.after.P99, s.before.P99))
		}
		add(ends, s.ends)
		age.Merge(s.age)
		s.after.Error = s.bad
		c.Rueda = append(c.Rueda, s.before, s.after)
		o.talk("%s %d: p99 of the others %.3f ms, then %.3f; grown by %s; %s; %s %s",
			c.Name, i+1, s.before.P99, s.after.P99, size(float64(s.grown)), ages(s.age), describeEnds(s.ends), s.bad)
	}
	oldest := c.Name + ": age of the oldest quote when the kernel took it, s"
	if age.Count() == 0 {
		r.unmeasured(oldest, "no quotes in the window")
	} else {
		c.Figures = append(c.Figures,
			Figure{"age of quotes when the kernel took them, p50", float64(age.At(0.5)), fmt.Sprintf("%.3f s of %d", float64(age.At(0.5))/1e9, age.Count())},
			Figure{"age of quotes when the kernel took them, p99", float64(age.At(0.99)), fmt.Sprintf("%.3f s", float64(age.At(0.99))/1e9)})
		r.atMost(oldest, max(1e-9, float64(age.Max())/1e9), 5, "%.2f")
	}
	c.Figures = append(c.Figures, Figure{"resident memory grown", pairs.Median(grown), size(pairs.Median(grown))})
	if len(ratio) > 0 {
		c.Figures = append(c.Figures, Figure{"p99 of the others, of before", pairs.Median(ratio), fmt.Sprintf("%.3f", pairs.Median(ratio))})
	}
	c.Figures = append(c.Figures, Figure{"how they ended", float64(len(ends)), describeEnds(ends)})
	r.atMost(c.Name+": resident memory grown, MiB (bound: what may wait, and slack of the heap)", max(0.01, slices.Max(grown)/(1<<20)),
		(float64(slow)*(maxWaiting+maxPending)+slack)/(1<<20), "%.1f")
	only := true
	for why := range ends {
		// A socket that does not accept a close frame within two seconds is reset.
		only = only && (strings.Contains(why, "4507") || strings.Contains(why, "reset by peer"))
	}
	r.holds(c.Name+": trades are complete, or the connection is cut off (4507, or reset)", only, describeEnds(ends))
	return nil
}

// ages formats the ages of quotes.
func ages(age *load.Latency) string {
	if age.Count() == 0 {
		return "no quotes came to those at a tenth"
	}
	return fmt.Sprintf("quotes at most %.2f s old, of %d", float64(age.Max())/1e9, age.Count())
}

func add(to, from map[string]int) {
	for k, n := range from {
		to[k] += n
	}
}

func describeEnds(ends map[string]int) string {
	if len(ends) == 0 {
		return "nobody was cut off"
	}
	var list []string
	for _, k := range slices.Sorted(maps.Keys(ends)) {
		list = append(list, fmt.Sprintf("%d x %s", ends[k], k))
	}
	return strings.Join(list, "; ")
}

// slowWork is a run with slow readers.
type slowWork struct {
	host  host.Config
	load  load.Config
	p     pattern.Pattern
	part  float64       // share of the data that they read
	lasts time.Duration // window with slow readers; 0: as long as without them
}

// slowOnce makes one run: a window without and one with slow readers. At the end, all connections
// must have everything or be cut off.
func (o *Options) slowOnce(ctx context.Context, r *Report, w slowWork) (s *slowRun, err error) {
	g, err := hostRig(ctx, o, w.host)
	defer func() { err = errors.Join(err, g.close()) }()
	if err != nil {
		return nil, err
	}
	r.Limits = g.limits
	if _, err := g.open(w.load); err != nil {
		return nil, err
	}
	if err := g.publish(w.p); err != nil {
		return nil, err
	}
	if err := wait(ctx, o.Warmup); err != nil {
		return nil, err
	}
	s = &slowRun{}
	var calm, strained int64
	if s.before, _, calm, err = g.watched(ctx, o.Window); err != nil {
		return nil, err
	}
	if err := g.load.Ask("throttle", load.Throttle{Conns: w.load.Slow, Part: w.part}, nil); err != nil {
		return nil, err
	}
	lasts := w.lasts
	if lasts == 0 {
		lasts = o.Window
	}
	var m *load.Mark
	if s.after, m, strained, err = g.watched(ctx, lasts); err != nil {
		return nil, err
	}
	s.grown, s.age = strained-calm, m.SlowAge
	if err := g.load.Ask("throttle", load.Throttle{Part: -1}, nil); err != nil {
		return nil, err
	}
	if _, err := g.stop(0); err != nil {
		if b := (*badRun)(nil); !errors.As(err, &b) {
			return nil, err
		}
		s.bad = err.Error()
	}
	if m, err = g.mark(); err != nil {
		return nil, err
	}
	s.ends = m.SlowEnds
	return s, nil
}

// watched makes a window in which the server's memory is measured.
func (r *rig) watched(ctx context.Context, d time.Duration) (run *Run, last *load.Mark, peak int64, err error) {
	a, err := r.mark()
	if err != nil {
		return nil, nil, 0, err
	}
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := wait(ctx, 50*time.Millisecond); err != nil {
			return nil, nil, 0, err
		}
		now, _, err := proc.Memory(r.server.Pid())
		if err != nil {
			return nil, nil, 0, err
		}
		peak = max(peak, now)
	}
	if last, err = r.mark(); err != nil {
		return nil, nil, 0, err
	}
	run = between(a, last)
	run.Resident = peak
	return run, last, peak, nil
}
