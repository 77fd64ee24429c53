package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
)

// profile chooses the faults of a schedule.
type profile struct {
	name     string
	strict   bool
	kills    bool // nodes are killed, and start again
	pauses   bool // nodes are stopped for a while
	cuts     bool // connections end, for long times too
	truncate bool // the stream loses its newest messages, or all
	disks    bool // journals lose rows, and nodes their disks
	oneEpoch bool // nothing is lost, so the epoch must not end
}

// breakage is a deliberate fault of the hosts or of the stream, which the rules must detect.
type breakage uint8

const (
	sound         breakage = iota
	noFence                // the stream appends whatever its newest message is
	earlyNumbers           // a leader numbers before its term row was acknowledged
	blindTrust             // an append without an answer counts as done
	noCensus               // a candidate asks nobody
	noPatience             // registered nodes that do not answer count as not registered
	endlessOffice          // nodes do not learn that a connection has ended
	proudDisk              // nodes that have lost rows state that they have all
	earlyShow              // nodes show rows as soon as they are registered
	sameNumber             // an older disk has the number of the newest registration
)

// world is one schedule.
type world struct {
	profile
	broken breakage
	rng    *rand.Rand
	seed   uint64
	now    time.Duration
	events schedule
	count  int // of events
	stream stream
	lease  cluster.LeaseRead
	faults
	members       map[string]uint64 // number of the registration, by name
	registrations map[string]uint64 // how many there were, by name
	hosts         []*host
	clients       []*client
	quiet         bool // no more faults
	feedEnd       time.Duration

	rules
	trace  []string
	failed error
}

type scheduled struct {
	at    time.Duration
	order int
	do    func()
}

// schedule is a heap of what is scheduled. It does not allocate memory for each item, as those of
// container/heap do: most of the time of a schedule was spent on that.
type schedule []scheduled

func (a *scheduled) before(b *scheduled) bool {
	return a.at < b.at || a.at == b.at && a.order < b.order
}

// push adds an item.
func (s *schedule) push(x scheduled) {
	l := append(*s, x)
	i := len(l) - 1
	for i > 0 && x.before(&l[(i-1)/2]) {
		l[i] = l[(i-1)/2]
		i = (i - 1) / 2
	}
	l[i] = x
	*s = l
}

// pop removes the first item.
func (s *schedule) pop() scheduled {
	l := *s
	first, x := l[0], l[len(l)-1]
	l[len(l)-1] = scheduled{}
	l = l[:len(l)-1]
	for i := 0; len(l) > 0; {
		next := 2*i + 1
		if next+1 < len(l) && l[next+1].before(&l[next]) {
			next++
		}
		if next >= len(l) || x.before(&l[next]) {
			l[i] = x
			break
		}
		l[i] = l[next]
		i = next
	}
	*s = l
	return first
}

const (
	faultTime  = 10 * time.Second // of a schedule, with faults
	healTime   = 12 * time.Second // without faults, until all nodes must agree
	traceEnd   = 60               // lines of a trace
	mostEvents = 1_000_000
)

func newWorld(seed uint64, p profile, broken breakage) *world {
	w := &world{profile: p, broken: broken, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), members: map[string]uint64{}, registrations: map[string]uint64{}, lease: cluster.LeaseRead{Revision: 1}}
	w.rules = newRules()
	w.apart = map[[2]*host]time.Duration{}
	w.stream.first = 1
	for i := range 5 {
		h := &host{w: w, skew: w.rng.Int64N(int64(20 * time.Minute))}
		h.cfg = cluster.Config{
			Cluster: "c", Name: fmt.Sprintf("edge%d", i-2), Shows: i >= 2, Candidate: i < 2, Strict: p.strict, Random: w.rng.Uint64,
			MaxBatch: 600, Lease: 300 * time.Millisecond, Heartbeat: 50 * time.Millisecond, Patience: time.Second, Retire: 3 * time.Second,
		}
		if i < 2 {
			h.cfg.Name = fmt.Sprintf("seq%d", i)
		}
		if p.oneEpoch {
			h.cfg.Patience *= 3 // longer than a node is away that is cut and killed
		}
		if w.rng.IntN(2) == 0 {
			h.cfg.Linger = 2 * time.Millisecond
		}
		w.hosts = append(w.hosts, h)
	}
	if w.chance(5) { // from the first start on
		w.hosts[w.rng.IntN(2)].skew += dayAhead
	}
	for range 3 {
		w.clients = append(w.clients, &client{w: w})
	}
	return w
}

// run runs the schedule. The error is that of the first rule that was broken.
func (w *world) run() error {
	w.feedEnd = faultTime + healTime - 2*time.Second
	for _, h := range w.hosts {
		w.in(w.upTo(100*time.Millisecond), h.start)
	}
	for _, c := range w.clients {
		w.in(w.upTo(time.Second), c.step)
	}
	w.in(time.Second, w.fault)
	w.in(faultTime, w.heal)
	for w.failed == nil && len(w.events) > 0 && w.events[0].at <= faultTime+healTime {
		e := w.events.pop()
		w.now = e.at
		if e.do(); w.count > mostEvents {
			w.fail("the schedule does not end")
		}
	}
	if w.failed == nil {
		w.agree()
	}
	if w.failed != nil {
		return fmt.Errorf("profile %s, seed %d, after %d events: %w\n%s", w.name, w.seed, w.count, w.failed, strings.Join(w.trace, "\n"))
	}
	return nil
}

// in calls do after a time.
func (w *world) in(d time.Duration, do func()) {
	w.events.push(scheduled{w.now + d, w.count, do})
	w.count++
}

func (w *world) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d))) }

func (w *world) chance(percent int) bool { return w.rng.IntN(100) < percent }

func (w *world) fail(format string, args ...any) {
	if w.failed == nil {
		w.failed = fmt.Errorf(format, args...)
		w.note("FAILED: %v", w.failed)
	}
}

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%8.3f ", w.now.Seconds())+fmt.Sprintf(format, args...))
	if len(w.trace) > 2*traceEnd {
		w.trace = append(w.trace[:0], w.trace[len(w.trace)-traceEnd:]...)
	}
}
