package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/cluster/copying"
	"github.com/ruedahq/rueda/internal/cluster/dayhash"
	"github.com/ruedahq/rueda/internal/cluster/jetstream"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/session"
)

// Config configures a Host.
type Config struct {
	Setup     *Setup
	Hub       *hub.Hub         // follows the log; it was restored
	Journal   *journal.Journal // of Hub
	Members   Members
	Numbering Numbering          // runs the numbering of a node that may lead
	Users     *session.Registry  // sessions of users, which the nodes share; nil: none
	OnShow    func(allowed bool) // called when the node may begin to show rows, or must stop
	OnEpoch   func()             // called when an epoch ends: the readers of Hub leave, and come back
	Logger    *slog.Logger       // nil: discarded
}

// Members are the registered nodes of the cluster, in the store that the nodes share.
type Members interface {
	List(ctx context.Context) ([]cluster.Member, error)
	Register(ctx context.Context, node string) (number uint64, isNew bool, err error) // as cluster.Registered
	Unregister(ctx context.Context, m cluster.Member) error
	// Claim notes the name of this cluster. It returns the names of others if the store has only
	// those, unless force is set.
	Claim(ctx context.Context, node string, force bool) (others []string, err error)
}

// Numbering has the functions that number rows while the node leads.
type Numbering struct {
	// Hub returns a new hub whose rows go to the log.
	Hub func(hub.RowLog) *hub.Hub
	// Run runs the feeds with that hub until ctx ends. Their events go to sink.
	Run func(ctx context.Context, h *hub.Hub, sink feed.Sink) error
}

// ErrRestart means that the process must be started again with an empty journal, because the rows
// or the instruments of this one are not those of the log.
var ErrRestart = errors.New("the log of the cluster has other rows or instruments than this node: start the process again, which then uses an empty journal")

// Host runs a node.
type Host struct {
	cfg    Config
	name   string // of the node
	log    *slog.Logger
	node   *cluster.Node
	began  time.Time
	events chan arrival
	tasks  sync.WaitGroup

	session    *jetstream.Session // nil: not connected
	generation uint64             // counts the sessions
	ofSession  context.Context    // ends with the session
	end        context.CancelFunc
	dialing    bool
	dialed     time.Time // when the newest attempt began
	attaching  bool
	leading    *leadership // nil: the node does not lead
	retired    *leadership // the one before, whose goroutines may still run
	applying   applying
	copies     chan struct{} // has an element for each request of a new node that is being answered
	fetches    chan struct{} // the same, for requests of rows
	asked      atomic.Int64  // number of requests of other nodes that wait or are being answered
	epochs     int           // number of epochs that this process has begun
	strandedAt time.Time     // since when the node has no rows and cannot get them
	days       days
	copier     atomic.Pointer[copying.Copier] // of a new node; nil: it is not copying
	logTime    int64                          // newest time of the log that the hub knows

	copyProblem, earlierProblem atomic.Pointer[string] // error of the last attempt to copy; nil: there was none

	unsaved    bool // the state was not written last time
	duplicates duplicateCheck
	warnings   warnings
	grown      bool         // the journal has rows of a gateway without a cluster, until an epoch of the log begins
	awaited    string       // what was logged that the node waits for before it leads
	logged     cluster.Term // whose sequencer was logged
	sharing    *sharing     // nil: this node has no clients

	status atomic.Pointer[cluster.Status]
	clock  atomic.Pointer[cluster.Clock]
	shown  atomic.Pointer[cluster.Show]
	joined atomic.Bool // there is a session

	obtaining atomic.Bool // a new node is connected, and obtains its journal

	leads atomic.Bool // the node leads

	handled atomic.Int64 // when Run last handled an event, ns since began
	held    atomic.Bool  // watch has found that Run handles none
	current sync.Mutex   // orders the calls of Hub.SetCurrent
}

// arrival is an event from a goroutine.
type arrival struct {
	generation uint64 // of the session; 0: of none
	event      cluster.Event
	session    *jetstream.Session // connected; event is Connected
	note       []byte             // for the other nodes: the hashes of closed days
	err        error              // ends the session
	foreign    bool               // the log has begun without this node, whose journal has other rows
}

// New returns a Host. The error wraps ErrName, or is that of the stored state or of the database.
func New(cfg Config) (*Host, error) {
	p := cfg.Setup
	state, err := readState(p.folder)
	if err == nil {
		err = claimName(context.Background(), p, cfg.Members)
	}
	if err != nil {
		return nil, err
	}
	position := cfg.Hub.Figures().Position
	if state.History.Epoch == "" { // the producers of a gateway that becomes a node continue
		state.Sources, state.SourcesAt = sourcesOfJournal(cfg.Journal.Sources()), position
	}
	grown := state.History.Epoch == "" && len(cfg.Journal.Days()) > 0
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	h := &Host{cfg: cfg, name: p.log.Node, log: cfg.Logger, began: time.Now(), events: make(chan arrival, 64), grown: grown}
	h.applying.hub, h.applying.journal = cfg.Hub, cfg.Journal
	h.copies, h.fetches = make(chan struct{}, copiesAtOnce), make(chan struct{}, fetchesAtOnce)
	h.duplicates = newDuplicateCheck(h.name, h.log)
	h.days.name, h.days.log, h.days.checker = h.name, h.log, dayhash.NewChecker(cfg.Journal.Archive)
	h.node = cluster.NewNode(cluster.Config{
		Cluster: p.log.Cluster, Name: p.log.Node, Shows: p.settings.Role != roleSequencer, Candidate: p.settings.Role != roleEdge,
		Lease: p.settings.Lease, Random: rand.Uint64,
	}, state, cluster.Journal{Epoch: cfg.Journal.Epoch(), Position: position, Complete: p.isNew || cfg.Journal.Whole()})
	h.shown.Store(&cluster.Show{})
	if p.settings.Role != roleSequencer {
		h.sharing = newSharing(h.name, cfg.Users)
	}
	h.logTime = state.Time // the journal may have newer rows
	h.note()
	return h, nil
}

// Status returns the state of the node.
func (h *Host) Status() cluster.Status { return *h.status.Load() }

// LogClock returns the present time of the log's clock, Unix ns.
func (h *Host) LogClock() int64 {
	return h.clock.Load().Read(time.Since(h.began), time.Now().UnixNano())
}

// Connected reports whether the node is connected to NATS.
func (h *Host) Connected() bool { return h.joined.Load() }

// Leads reports whether the node numbers. A nil Host does not.
func (h *Host) Leads() bool { return h != nil && h.leads.Load() }

// Shown says whether the node may show rows, and whether they are current.
func (h *Host) Shown() cluster.Show { return *h.shown.Load() }

// errWaits means that the node may not show rows to clients yet.
var errWaits = errors.New("waiting for the log of the cluster")

// errNoClients means that the role of this node does not include clients.
var errNoClients = errors.New("this node of the cluster is a sequencer; its edges serve clients")

// Serves returns the reason why the node may not show rows to clients, or nil. A nil Host returns
// nil.
func (h *Host) Serves() error {
	switch {
	case h == nil:
		return nil
	case h.cfg.Setup.settings.Role == roleSequencer:
		return errNoClients
	case !h.Shown().Allowed:
		return errWaits
	}
	return nil
}

// logTerm logs which node is the sequencer of a new term, when the node has followed the log to its
// end.
func (h *Host) logTerm() {
	s := h.status.Load()
	if s.Term == h.logged || !s.Connected || s.Seq < s.End || s.Holder == "" {
		return
	}
	if h.logged = s.Term; s.Holder != h.name { // lead logs that this node is
		h.log.Info("another node is the sequencer", "sequencer", s.Holder, "term", s.Term.Number)
	}
}

// logServes logs whether the node serves clients.
func (h *Host) logServes() {
	if err := h.Serves(); err != nil {
		h.log.Info("no clients are served now", "reason", err)
	} else {
		h.log.Info("clients are served")
	}
}

// Ready returns the reason why the node should not receive clients now, or nil.
func (h *Host) Ready() error {
	if err := h.copyProgress(); err != nil {
		return err
	}
	switch s := h.Shown(); {
	case !h.Connected():
		return errors.New("not connected to the log of the cluster")
	case h.cfg.Setup.settings.Role != roleSequencer && !s.Allowed && !h.behind():
		return errWaits
	case h.stalled():
		return errStalled
	case !s.Current:
		return h.notCurrent()
	}
	return nil
}

// behind reports whether the node lacks rows of the log that it knows of.
func (h *Host) behind() bool {
	s := h.Status()
	return s.Blind || s.Seq < s.End
}

// notCurrent says why the rows of the node are not current.
func (h *Host) notCurrent() error {
	s := h.Status()
	switch {
	case s.Blind:
		return errors.New("rows are missing that no other node sends")
	case s.Seq < s.End:
		return fmt.Errorf("%d messages behind the log of the cluster", s.End-s.Seq)
	case len(s.Awaited) > 0:
		return fmt.Errorf("no sequencer: this node waits for %s", strings.Join(s.Awaited, ", "))
	case s.Holder == "":
		return errors.New("no sequencer: no node holds the lease")
	case s.Holder == h.name && s.Appending:
		return errors.New("no sequencer: this node holds the lease, and the log does not take its rows: a majority of the NATS servers must run")
	case s.Holder == h.name:
		return errors.New("no sequencer: this node holds the lease and does not number yet")
	}
	return h.silentHolder(&s)
}

// silentHolder says what is known about the holder of the lease, whose rows do not come.
func (h *Host) silentHolder(s *cluster.Status) error {
	lease, renewed, newest := h.cfg.Setup.settings.Lease, h.since(s.Renewed).Round(100*time.Millisecond), h.since(s.Newest).Round(100*time.Millisecond)
	switch {
	case renewed < lease && newest > 2*lease:
		return fmt.Errorf("no sequencer: %s holds the lease and does not append to the log; it logs what it waits for", s.Holder)
	case renewed < lease:
		return fmt.Errorf("no rows from %s for %s; its lease was renewed %s ago", s.Holder, newest, renewed)
	case renewed <= 2*lease:
		return fmt.Errorf("no rows from %s for %s, and its lease of %s has ended: another node that may be the sequencer takes its place, if there is one", s.Holder, newest, lease)
	}
	return fmt.Errorf("no sequencer: %s has not renewed its lease for %s, and no other node has taken its place: start a node with the role sequencer or all, and see what it logs", s.Holder, renewed)
}

// note publishes the state of the state machine, and the log's clock before the rows that follow
// it.
func (h *Host) note() {
	s, c := h.node.Status(), h.node.Clock()
	if h.leading != nil {
		s.Queued = h.leading.pending.setQueued(s.Queued)
	}
	h.status.Store(&s)
	h.clock.Store(&c)
	if s.LogTime > h.logTime {
		h.logTime = s.LogTime
		h.cfg.Hub.LogTime(s.LogTime)
	}
}

const (
	checkEvery   = 500 * time.Millisecond // between two checks of the session
	copiesAtOnce = 2                      // requests of new nodes that are answered at the same time

	fetchesAtOnce = 4 // requests of rows that are answered at the same time
)

// Run runs the node until ctx ends. The error is ErrRestart, ErrCopied, errStranded after which the
// process must start again, that of the stored state, or one that an operator must remove.
func (h *Host) Run(running context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(running)) // for the end of a leadership
	defer h.tasks.Wait()
	defer cancel()
	defer h.stopLeading("the process ends")
	defer h.leave()
	h.logServes()
	if err := h.obtain(running); err != nil {
		return err
	}
	h.markHandled()
	h.tasks.Go(func() { h.keepDays(ctx) })
	h.tasks.Go(func() { keepEarlier(ctx, h) })
	h.tasks.Go(func() { h.watch(ctx) })
	h.dial(ctx)
	timer, look, share := time.NewTimer(0), time.NewTicker(checkEvery), time.NewTicker(shareEvery)
	defer timer.Stop()
	defer look.Stop()
	defer share.Stop()
	for {
		if at, ok := h.node.Deadline(); ok {
			timer.Reset(max(0, at-time.Since(h.began)))
		}
		h.markHandled()
		var err error
		select {
		case a := <-h.events: // first, so that the next batch is appended while messages are applied
			if err = h.arrived(ctx, a); err != nil {
				return err
			}
			continue
		default:
		}
		select {
		case <-running.Done():
			h.resign(ctx)
			return h.saveLast()
		case a := <-h.events:
			err = h.arrived(ctx, a)
		case m := <-h.messages():
			err = h.message(ctx, m)
		case <-h.closed():
			err = h.lose(ctx, errors.New("the connection has ended"))
		case <-h.offered():
			err = h.offer(ctx)
		case m := <-h.sharing.messages():
			h.sharing.registry.Heard(time.Since(h.began), m.Data)
		case <-h.sharing.news():
			h.share()
		case <-share.C:
			h.share()
		case <-timer.C:
			err = h.handle(ctx, cluster.Tick{})
		case <-look.C:
			if h.session != nil && !h.attaching && len(h.session.Messages()) == 0 && h.session.Check() != nil {
				err = h.lose(ctx, h.session.Check())
			}
			err = errors.Join(err, h.stranded())
			h.explainWait()
		}
		if err != nil {
			return err
		}
	}
}

// handle passes an event to the state machine, and performs its actions.
func (h *Host) handle(ctx context.Context, e cluster.Event) error {
	actions := h.node.Handle(time.Since(h.began), time.Now().UnixNano(), e)
	h.note()
	h.logTerm()
	for _, a := range actions {
		if err := h.perform(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// perform performs an action, or starts it.
func (h *Host) perform(ctx context.Context, a cluster.Action) error {
	switch a := a.(type) {
	case cluster.Save:
		return h.save(a)
	case cluster.Apply:
		err := h.applying.apply(a)
		if errors.Is(err, errNumber) {
			h.log.Error("the journal does not belong to the log: the node starts again with an empty one", "error", err)
			return h.reset(h.cfg.Hub.Epoch())
		}
		return err
	case cluster.Stored:
		if h.leading != nil {
			h.leading.pending.stored(a.Sources)
		}
	case cluster.BeginEpoch:
		return h.beginEpoch(ctx, a)
	case cluster.Lead:
		return h.lead(ctx, a)
	case cluster.StopLeading:
		h.stopLeading(a.Reason)
	case cluster.Show:
		was := h.shown.Swap(&a)
		h.setCurrent()
		if was.Allowed != a.Allowed {
			if h.cfg.Setup.settings.Role != roleSequencer {
				h.logServes()
			}
			if h.cfg.OnShow != nil {
				h.cfg.OnShow(a.Allowed)
			}
		}
	case cluster.Fail:
		return fmt.Errorf("node %s of the cluster %s: %w", h.name, h.cfg.Setup.log.Cluster, a.Err)
	case cluster.ReadMembers:
		h.start(ctx, 0, func(ctx context.Context) cluster.Event {
			list, err := h.cfg.Members.List(ctx)
			return cluster.MembersRead{List: list, Failed: h.failed("read the members", err)}
		})
	case cluster.Register:
		h.register(ctx)
	case cluster.Unregister:
		h.start(ctx, 0, func(ctx context.Context) cluster.Event {
			h.failed("remove a member", h.cfg.Members.Unregister(ctx, a.Member))
			return nil
		})
	case cluster.Refill:
		h.start(ctx, 0, func(ctx context.Context) cluster.Event {
			h.cfg.Hub.Commit() // the newest rows may not be in the journal yet
			groups, err := groupsOf(ctx, h.cfg.Journal, a.After, a.Upto, h.cfg.Journal.Numbers())
			return cluster.Refilled{Groups: groups, Failed: h.failed("read the journal for the log", err)}
		})
	default:
		return h.performRemote(ctx, a)
	}
	return nil
}

// performRemote starts an action that needs the session. Without a session it does nothing: the
// state machine learns from Disconnected that no answer comes.
func (h *Host) performRemote(ctx context.Context, a cluster.Action) error {
	s := h.session
	if s == nil {
		return nil
	}
	switch a := a.(type) {
	case cluster.Attach:
		h.attach(s, a.Seq)
	case cluster.Append:
		h.start(h.ofSession, h.generation, func(ctx context.Context) cluster.Event {
			seq, refused, err := s.Append(ctx, a.Expected, a.Data)
			switch {
			case refused:
				return cluster.Appended{Result: cluster.AppendRefused, Expected: a.Expected}
			case h.failed("append to the log", err):
				return cluster.Appended{Result: cluster.AppendUnknown, Expected: a.Expected}
			}
			return cluster.Appended{Result: cluster.AppendDone, Expected: a.Expected, Seq: seq}
		})
	case cluster.ReadLast:
		h.start(h.ofSession, h.generation, func(ctx context.Context) cluster.Event {
			seq, data, err := s.ReadLast(ctx)
			if h.failed("read the end of the log", err) {
				sleep(ctx, dialRetry) // the state machine asks again at once
			}
			return cluster.LastRead{Expected: a.Expected, Seq: seq, Data: data, Failed: err != nil}
		})
	case cluster.WriteLease:
		h.writeLease(s, a)
	case cluster.Census:
		h.failed("ask for a census", h.send(subjectCensus, census{h.name, a.ID}))
	case cluster.SendReport:
		subject := subjectReport
		if a.To != "" {
			subject += "." + a.To
		}
		h.failed("send a report", h.send(subject, report{a.Report, h.duplicates.at(time.Since(h.began))}))
	case cluster.Fetch:
		h.start(h.ofSession, h.generation, func(ctx context.Context) cluster.Event { return h.fetch(ctx, s, a) })
	default:
		return fmt.Errorf("unknown action %T", a)
	}
	return nil
}

// failed logs an error, and reports whether there is one. The same failure is logged at most
// once per warnEvery.
func (h *Host) failed(what string, err error) bool {
	if err != nil && !errors.Is(err, context.Canceled) && h.warnings.due(what) {
		h.log.Warn("cluster: action failed", "action", what, "error", err)
	}
	return err != nil
}

// warnEvery is the time between two log lines about the same failure.
const warnEvery = 10 * time.Second

// warnings limits log lines about failures that repeat.
type warnings struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// due reports whether a failure is logged now.
func (w *warnings) due(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	if at, ok := w.last[what]; ok && now.Sub(at) < warnEvery {
		return false
	}
	if w.last == nil {
		w.last = map[string]time.Time{}
	}
	w.last[what] = now
	return true
}

// start runs a function on a goroutine, and passes its event.
func (h *Host) start(ctx context.Context, generation uint64, f func(context.Context) cluster.Event) {
	h.tasks.Go(func() {
		if e := f(ctx); e != nil {
			h.pass(ctx, arrival{generation: generation, event: e})
		}
	})
}

// pass passes an event to Run.
func (h *Host) pass(ctx context.Context, a arrival) {
	select {
	case h.events <- a:
	case <-ctx.Done():
	}
}

// arrived handles what a goroutine reports.
func (h *Host) arrived(ctx context.Context, a arrival) error {
	switch {
	case a.session != nil:
		return h.join(ctx, a.session)
	case a.note != nil:
		if h.session != nil {
			h.failed("send the hashes of closed days", h.session.Send(subjectDays, a.note))
		}
		return nil
	case a.generation != 0 && (a.generation != h.generation || h.session == nil):
		return nil
	case a.err != nil:
		return h.lose(ctx, a.err)
	case a.foreign && h.grown:
		return h.ownRows()
	case a.foreign:
		return nil
	}
	if _, ok := a.event.(cluster.Attached); ok {
		h.attaching = false
	}
	return h.handle(ctx, a.event)
}

// register registers the node. It tries until it succeeds.
func (h *Host) register(ctx context.Context) {
	h.start(ctx, 0, func(ctx context.Context) cluster.Event {
		for {
			number, isNew, err := h.cfg.Members.Register(ctx, h.name)
			if !h.failed("register this node", err) {
				return cluster.Registered{Number: number, New: isNew}
			}
			if !sleep(ctx, time.Second) {
				return nil
			}
		}
	})
}

// statePath returns the file of the state of a node.
func statePath(folder string) string { return filepath.Join(folder, "cluster.json") }
