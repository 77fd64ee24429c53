package hub

import (
	"context"
	"runtime"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/internal/engine/steplock"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// The tests of this package use the hub as subscribers do. The functions of this file give them
// what they watch and cause inside the hub.

const (
	RelieveReaders  = relieveReaders
	RelieveRecent   = relieveRecent
	RelieveSessions = relieveSessions
	PlainDepth      = plainDepth
	ReplayRestarted = replayRestarted
	ExitPanic       = steplock.ExitPanic
)

// Mu returns the hub's lock.
func (h *core) Mu() Lock { return Lock{&h.mu} }

// Lock is the hub's lock, whose watchers learn which function takes it.
type Lock struct{ *steplock.Mutex }

// Watcher observes the holds of a lock. Its methods are called while the lock is held.
type Watcher interface {
	Locked(function string) // the function that took the lock
	Unlocking(visited int)
}

// Watch calls w for each hold of the lock; nil: nobody watches.
func (l Lock) Watch(w Watcher) {
	if w == nil {
		l.Mutex.Watch(nil)
		return
	}
	l.Mutex.Watch(named{w})
}

// named is a Watcher as the lock calls it.
type named struct{ Watcher }

func (w named) Locked() { w.Watcher.Locked(lockedBy()) }

// lockedBy returns the name of the function that takes the lock.
func lockedBy() string {
	const engine = "github.com/ruedahq/rueda/internal/engine/"
	var pcs [12]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		switch name := strings.TrimPrefix(f.Function, engine); {
		case strings.HasPrefix(name, "steplock."):
		case name == "hub.(*publisher).stepPublishing", name == "hub.(*Port).Lock", name == "hub.(*Port).Step":
		default:
			return f.Function
		}
		if !more {
			return f.Function
		}
	}
}

// Journal returns the journal of the hub.
func (h *core) Journal() *journal.Journal { return h.cfg.Journal }

// RecentBytes returns the setting of that name.
func (h *core) RecentBytes() int64 { return h.cfg.RecentBytes }

// At returns the instrument of a handle.
func (d *directory) At(hd market.Handle) *Instrument { return d.handles[hd] }

// Lookup returns a listed instrument.
func (d *directory) Lookup(id market.InstrumentID) *Instrument { return d.lookup(id) }

// Numbered returns the instruments by their number in the journal.
func (d *directory) Numbered() []*Instrument { return d.numbered }

// Listed returns the listed instruments.
func (d *directory) Listed() []*Instrument { return d.groups.All() }

// Later returns the same instrument in each replica.
func (in *Instrument) Later() []*Instrument { return in.later }

// Shared returns what all instruments share.
func (h *publisher) Shared() *state.Shared { return &h.shared }

// Newest returns the position of the newest row.
func (h *publisher) Newest() uint64 { return h.position }

// SetCommitting makes commits wait for the committer, which the test plays.
func (h *publisher) SetCommitting(on bool) { h.running = on }

// Kicked returns the channel that wakes the committer.
func (h *publisher) Kicked() <-chan struct{} { return h.kicked }

// CommitOnce commits what was published until now.
func (h *publisher) CommitOnce() { h.commitOnce() }

// CommitHere commits what was published, if the committer does not run.
func (h *publisher) CommitHere() { h.commit() }

// StartCommits starts the committer, and returns the function that ends it.
func (h *publisher) StartCommits(ctx context.Context) (stop func()) { return h.startCommits(ctx) }

// CommitAwaited reports whether somebody waits for a commit.
func (h *publisher) CommitAwaited() bool { return h.advanced != nil }

// StallCommit begins a slow commit and returns the function that ends it.
func (h *publisher) StallCommit() (end func()) {
	h.mu.Lock()
	b := h.beginCommit()
	h.writing = true
	h.mu.Unlock()
	return func() {
		if b != nil {
			h.cfg.Journal.Write(b)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.writing = false
		if b != nil {
			h.cfg.Journal.Done(b)
		}
		h.endCommit()
	}
}

// ShowAll ends a change that may have appended rows.
func (h *publisher) ShowAll() { h.published() }

// ApplyEvent applies one event.
func (h *sequencer) ApplyEvent(e *market.Event, now int64) { h.apply(e, now) }

// SendDue sends what is due.
func (h *sequencer) SendDue(now int64) (wait time.Duration) { return h.sendDue(now) }

// SendBars sends the bars that have ended.
func (h *sequencer) SendBars(now int64) { h.sendBars(now) }

// CheckpointOf makes the checkpoint of an instrument.
func (h *Hub) CheckpointOf(number uint32, emit func(*journal.Row)) { h.checkpoint(number, emit) }

// CountTrade moves the clock of an instrument to a time, counts a trade and sends the summary.
func (h *Hub) CountTrade(in *Instrument, n uint64, at int64) {
	in.Clock.Advance(at, h.sendBar(at))
	in.Dated(at, at)
	in.CountTrade(bars.Trade{N: n, ID: h.shared.TradeID("1234567"), At: at, Price: market.Price(n % 1000), Size: market.Scale}, at, &h.shared, h.sendBar(at))
	h.sendSummary(in, n, state.Stamp{Time: at, Latency: -1}, at)
}

// Memory has the counts of the hub's memory.
type Memory struct {
	Rings, Covers, Followers, Own, Used int64
	Topics                              int64 // number of topics
	TopicBytes                          int64 // of topics and their instruments
	Listed                              int   // number of rings with messages
	Level                               int32
}

// Memory returns the counts of the hub's memory.
func (h *publisher) Memory() Memory {
	m := &h.memory
	return Memory{
		Rings: m.rings, Covers: m.covers, Followers: m.followers, Own: m.own.Load(), Used: h.used(), Topics: int64(len(h.topics)),
		TopicBytes: topicBytes*int64(len(h.topics)) + coverBytes*m.covers, Listed: len(m.listed), Level: m.level.Load(),
	}
}

// Relieve sets the level of relief.
func (h *publisher) Relieve(level int32) { h.memory.level.Store(level) }

// AskReports asks all shards for a report.
func (h *publisher) AskReports() {
	for _, p := range h.ports {
		p.report.Store(true)
	}
}

// MeasureStep takes the next step of measuring. done reports whether the measuring has ended.
func (h *publisher) MeasureStep() (done bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.memory.due == 0 {
		return true
	}
	h.measure(h.memory.due)
	return h.memory.asked == 0
}

// Age makes all published rows older by a time. It then applies the rows that are due to the
// replicas of a hub without Run. The caller holds the hub's lock.
func (h *Hub) Age(by time.Duration) {
	h.made = h.made.Add(-by)
	h.commit()
	clock := h.clock()
	for _, c := range h.replicas {
		due, _ := c.times.Due(clock)
		if c.state != replicaReady {
			continue
		}
		var rows []journal.Row
		err := h.cfg.Journal.Scan(context.Background(), journal.ScanStart{Position: c.position}, nil, ^journal.Checkpoints, func(r *journal.Row) bool {
			if !c.isDue(r, due, clock) {
				return false
			}
			x := *r
			x.Bids, x.Asks, x.Conditions = clone(r.Bids), clone(r.Asks), clone(r.Conditions)
			rows = append(rows, x)
			return true
		})
		if err != nil {
			panic(err)
		}
		for i := range rows {
			c.applyDelayed(&rows[i], time.Now().UnixNano())
		}
	}
	h.wakeShards()
}

// AgeUnlocked is Age for a caller that does not hold the lock.
func (h *Hub) AgeUnlocked(by time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Age(by)
}

// clone copies a list.
func clone[T any](list []T) []T { return append([]T(nil), list...) }

// Poison makes the next message of a channel of an instrument panic.
func (h *Hub) Poison(in *Instrument, c wire.Channel) {
	for _, t := range h.tiers(in, c) {
		t.topics = []*Topic{nil}
	}
}

// PoisonConflation makes the next conflated message panic.
func (h *Hub) PoisonConflation() {
	h.conflated.Add(100, dirtyTier{}, h.clock())
	h.made = h.made.Add(-time.Second)
}

// PoisonTopic makes the next new instrument panic that a pattern of statuses covers.
func (h *Hub) PoisonTopic(id market.InstrumentID) {
	h.readBy[readKey{wire.Status, id}] = []*Topic{nil}
}

// AdvanceReplica makes all published rows older by a time, and applies those that are due to the
// first replica.
func (h *Hub) AdvanceReplica(by time.Duration) {
	h.made = h.made.Add(-by)
	h.replicas[0].advance(context.Background())
}
