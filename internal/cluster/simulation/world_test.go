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
)

// world is one schedule.
type world struct {
	profile
	broken            breakage
	rng               *rand.Rand
	seed              uint64
	now               time.Duration
	events            schedule
	count             int // of events
	stream            stream
	lease             cluster.LeaseRead
	leaseStalledUntil time.Duration     // writes of the lease come late or are lost until then
	members           map[string]uint64 // number of the registration, by name
	registrations     uint64
	hosts             []*host
	clients           []*client
	quiet             bool // no more faults
	feedEnd           time.Duration

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
	w := &world{profile: p, broken: broken, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), members: map[string]uint64{}, lease: cluster.LeaseRead{Revision: 1}}
	w.rules = newRules()
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

// fault injects a fault, and the next one later.
func (w *world) fault() {
	if w.quiet {
		return
	}
	w.in(w.upTo(1200*time.Millisecond), w.fault)
	h := w.hosts[w.rng.IntN(len(w.hosts))]
	switch w.rng.IntN(9) {
	case 8:
		if w.pauses {
			w.leaseStalledUntil = w.now + w.pauseTime()
			w.note("writes of the lease stall until %v", w.leaseStalledUntil)
		}
	case 7:
		if w.kills { // an upgrade begins with this
			w.note("%s resigns", h.cfg.Name)
			h.receive(cluster.Resigned{})
		}
	case 0:
		if w.kills {
			h.kill(w.downTime(), false)
		}
	case 1:
		if w.pauses {
			h.pause(w.pauseTime())
		}
	case 2:
		if w.cuts {
			w.note("%s is cut from the stream", h.cfg.Name)
			h.cut(w.downTime())
		}
	case 3:
		if w.truncate {
			w.loseMessages()
		}
	case 4:
		if w.disks {
			h.kill(w.downTime(), true)
		}
	case 5:
		if w.kills && w.chance(30) { // all at once
			for _, h := range w.hosts {
				h.kill(w.upTo(400*time.Millisecond), w.disks && w.chance(20))
			}
		}
	case 6:
		if w.disks && w.truncate && w.chance(30) { // a power failure of all machines
			for _, h := range w.hosts {
				h.kill(w.upTo(400*time.Millisecond), true)
			}
			w.loseMessages()
		}
	}
}

// downTime returns how long a node is away: mostly for less than the patience of a census.
func (w *world) downTime() time.Duration {
	if w.oneEpoch && w.strict || w.chance(70) {
		return w.upTo(400 * time.Millisecond)
	}
	return w.upTo(5 * time.Second)
}

func (w *world) pauseTime() time.Duration {
	if w.oneEpoch && w.strict {
		return w.upTo(400 * time.Millisecond)
	}
	return w.upTo(2 * time.Second)
}

// loseMessages removes the newest messages of the stream, or all. All connections end.
func (w *world) loseMessages() {
	s := &w.stream
	switch w.rng.IntN(6) {
	case 0:
		w.note("the stream is made again")
		s.list, s.first = nil, 1
	case 1:
		w.note("the stream is emptied at %d", s.last())
		s.first, s.list = s.last()+1, nil
	default:
		n := min(w.rng.IntN(12), len(s.list))
		s.list = s.list[:len(s.list)-n]
		w.note("the stream loses %d messages and ends at %d", n, s.last())
	}
	s.lost++
	s.term = 0
	if w.chance(30) {
		w.lease = cluster.LeaseRead{Revision: max(1, w.lease.Revision-w.rng.Uint64N(3))}
	}
	for _, h := range w.hosts {
		h.cut(w.upTo(300 * time.Millisecond))
	}
}

// heal ends all faults.
func (w *world) heal() {
	w.note("no more faults")
	w.quiet, w.leaseStalledUntil = true, 0
	for _, h := range w.hosts {
		h.resume()
	}
}
