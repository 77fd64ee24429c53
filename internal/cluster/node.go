package cluster

import "time"

// Config configures a Node. Zero values have the defaults that are stated.
type Config struct {
	Cluster   string        // name of the cluster
	Name      string        // of this node: unique in the cluster, and the same after a restart
	Shows     bool          // the node shows rows to clients
	Candidate bool          // the node may lead
	Strict    bool          // a new epoch also begins if a node does not answer and nothing was lost
	Random    func() uint64 // random numbers; required
	MaxBatch  int           // bytes of the records of a batch; 0: 64 KiB
	Linger    time.Duration // time for which a leader without an append in progress collects rows
	Lease     time.Duration // length of a lease; 0: 1 s
	Heartbeat time.Duration // longest time between two batches of a leader; 0: 250 ms
	Patience  time.Duration // longest wait of a census for a node; 4 times that if it reports; 0: 5 s
	Retire    time.Duration // after this time without a report a node is retired; 0: 1 min
}

func (c *Config) fill() {
	set := func(d *time.Duration, def time.Duration) {
		if *d == 0 {
			*d = def
		}
	}
	set(&c.Lease, time.Second)
	set(&c.Heartbeat, 250*time.Millisecond)
	set(&c.Patience, 5*time.Second)
	set(&c.Retire, time.Minute)
	if c.MaxBatch == 0 {
		c.MaxBatch = 64 << 10
	}
}

// Journal is what the journal of a node has when its process starts.
type Journal struct {
	Epoch    string
	Position uint64 // of the newest row
	Complete bool   // no row that was committed is missing
}

// A Node is one node of a cluster as a state machine: it follows the log, and a candidate also
// leads. It has no clock, does no I/O and starts no goroutine. Its host passes events and performs
// actions. It is used by one goroutine at a time.
type Node struct {
	cfg Config
	out []Action

	connected  bool
	registered bool
	asking     bool // Register has no answer yet
	failed     bool
	timers     timers
	follower   follower
	lease      lease
	clock      Clock
	now        time.Duration // of the newest Handle
	wall       int64
	leader     leader
	ahead      bool                   // this node did not become the leader, because the clock of its machine is ahead
	ledUntil   time.Duration          // another node counts as leader until then: a lease after its newest batch
	lateUntil  time.Duration          // batches before this time are late ones of a leader that has released the lease
	known      map[string]heardReport // newest reports of other nodes
	reportAt   time.Duration
	shown      Show
	showing    bool // Show was given
}

type heardReport struct {
	Report
	at time.Duration
}

// NewNode returns a node that continues from a stored state and a journal. A new node has neither.
func NewNode(cfg Config, state State, journal Journal) *Node {
	cfg.fill()
	n := &Node{cfg: cfg, known: make(map[string]heardReport)}
	n.follower = newFollower(&n.cfg, &n.out, state, journal)
	n.lease = lease{cfg: &n.cfg, out: &n.out}
	n.clock.time = state.Time
	return n
}

func (n *Node) emit(a Action) { n.out = append(n.out, a) }

// Handle handles an event and returns the actions that follow. now is the time since the process
// started. It never goes back. wall is the time of this machine's clock in Unix ns. The list is
// valid until the next call.
func (n *Node) Handle(now time.Duration, wall int64, e Event) []Action {
	n.out = n.out[:0]
	if n.failed {
		return nil
	}
	n.now, n.wall, n.follower.wall = now, wall, wall
	n.checkLeader(now) // also before the event, which may have waited while the process was paused
	if err := n.handle(now, wall, e); err != nil {
		n.abandon(now, err.Error())
		n.failed = true
		n.emit(Fail{err})
		return n.out
	}
	n.checkLeader(now)
	n.step(now, wall)
	return n.out
}

// Deadline returns the time by which the node expects a Tick.
func (n *Node) Deadline() (at time.Duration, ok bool) {
	return n.timers.next, n.timers.set && !n.failed
}

func (n *Node) handle(now time.Duration, wall int64, e Event) error {
	f := &n.follower
	switch e := e.(type) {
	case Connected:
		n.disconnected(now)
		n.connected = true
	case Disconnected:
		n.disconnected(now)
	case Registered:
		n.asking, n.registered, f.retired = false, true, false
		f.registered(e)
	case Attached:
		f.attached(e)
	case Received:
		return n.received(now, e)
	case Fetched:
		n.fetched(now, e)
	case LeaseRead:
		if n.lease.read(now, e) && n.lease.holder == "" {
			n.ledUntil, n.lateUntil = 0, now+n.cfg.Heartbeat
		}
	case LeaseWritten:
		n.lease.written(now, e)
		if e.Done && n.lease.holder == "" { // other candidates try first
			n.leader.retryAt = max(n.leader.retryAt, now+retryLead)
		}
	case CensusAsked:
		n.report(e.From, e.ID)
	case Reported:
		n.reported(now, e.Report)
	default:
		n.leaderEvent(now, wall, e)
	}
	return nil
}

func (n *Node) disconnected(now time.Duration) {
	n.abandon(now, "the connection to the log has ended")
	n.connected = false
	n.leader.inFlight = false
	n.follower.detach()
	n.lease.lost()
}

func (n *Node) received(now time.Duration, e Received) error {
	f := &n.follower
	if !n.connected || f.retired {
		return nil
	}
	f.timed = false
	if err := f.received(now, e); err != nil {
		return err
	}
	if l := &n.leader; l.inFlight && !l.abandoned && f.batchID == l.flight.id {
		n.acknowledged(now, e.Seq)
	}
	if f.damaged && n.leads() { // without a new term, nobody ever has the rows after them
		n.giveUp(now, "the log has rows of this term that cannot be read")
	}
	if !f.timed || n.leads() {
		return nil
	}
	live := e.Seq > f.found && f.caughtUp()
	if live && (f.number > 1 || !n.clock.live) { // a term row may be late, and is followed by a batch
		n.clock.hear(now, f.logTime, f.History.Newest().Number)
	}
	n.heard(now, live)
	return nil
}

// heard notes that another node leads, after a batch of the newest term. live: the batch arrived
// after this node had read the stream to its end. Earlier batches count only while another node
// holds the lease: the candidate has not yet seen whether that node still appends.
func (n *Node) heard(now time.Duration, live bool) {
	l := &n.leader
	other := n.lease.known && n.lease.holder != "" && n.lease.holder != n.cfg.Name
	if n.follower.History.Newest() == l.term || now < n.lateUntil || !live && !other {
		return
	}
	n.ledUntil, n.ahead = now+n.cfg.Lease, false
	if live && (l.phase == census || l.phase == catchingUp) {
		n.abandon(now, "another node leads")
	}
}

// fetched handles rows of another node, for the follower or for a candidate that is behind.
func (n *Node) fetched(now time.Duration, e Fetched) {
	f := &n.follower
	e.Failed = e.Failed || !n.validReport(&e.From)
	switch {
	case f.mode == fetching:
		progress := f.fetched(now, &e)
		switch {
		case f.Position >= f.upto && f.History.Newest().Number >= f.wanted:
			f.attach()
		case progress:
			f.fetch(now, f.upto, f.wanted)
		}
	case n.leader.phase == catchingUp:
		n.continueCatchUp(now, f.fetched(now, &e))
	}
}

// Report returns the report of the node.
func (n *Node) Report() Report {
	f := &n.follower
	at := int64(0)
	if n.clock.live {
		at = n.clock.Read(n.now, n.wall)
	}
	sources, sourcesAt := sourcesToSend(f.listSources(), f.SourcesAt)
	return Report{
		Time: at, TimeTerm: n.clock.term, Seen: f.Time, Wall: n.wall,
		Node: n.cfg.Name, Shows: f.shows(), Number: f.member.Number, Complete: !f.Gaps, Short: f.short,
		History: f.History.clone(), Highest: f.Highest, Position: f.Position, Seq: max(f.Seq, f.handled), Sources: sources, SourcesAt: sourcesAt,
	}
}

// report sends a report, without the numbers of sources, which may be many: they come with rows.
func (n *Node) report(to string, census uint64) {
	r := n.Report()
	r.Census, r.Sources, r.SourcesAt = census, nil, 0
	n.emit(SendReport{To: to, Report: r})
}

// Serves reports whether this node may answer r: it follows the same epoch, and has all rows up to
// r.After.
func (n *Node) Serves(r Fetch) bool {
	f := &n.follower
	return r.Epoch == f.History.Epoch && f.History.Has(r.After) && r.After.Position <= f.Position && !f.diverged
}

// reported handles the report of another node.
func (n *Node) reported(now time.Duration, r Report) {
	if r.Node == n.cfg.Name || !n.validReport(&r) || !n.keep(now, r) {
		return
	}
	n.clock.setByReport(now, &r)
	n.follower.reported(now, &r)
	n.answered(now, r)
}

// step does what is due after an event.
func (n *Node) step(now time.Duration, wall int64) {
	n.timers = timers{}
	f := &n.follower
	if f.retired && n.registered {
		n.registered = false
		f.detach()
	}
	if n.connected {
		if n.cfg.Shows && !n.registered && !n.asking {
			n.asking, f.Registering = true, true
			f.save(now)
			n.emit(Register{})
		}
		if f.mode == detached && (n.registered || !n.cfg.Shows) {
			f.save(now)
			f.attach()
		}
		if f.mode == fetching && n.timers.due(now, f.retryAt) {
			n.retryFetch(now)
		}
		if f.blind && f.caughtUp() && n.timers.due(now, f.retryAt) {
			f.blind = false
			f.attach()
		}
		if n.timers.due(now, n.reportAt) {
			n.reportAt = now + 2*n.cfg.Heartbeat
			n.timers.add(n.reportAt)
			n.report("", 0)
		}
		n.lease.step(now, &n.timers, n.cfg.Candidate && n.able(now))
	}
	n.lead(now, wall)
	n.show(now)
}

// retryFetch asks again for rows that no node has sent. It ignores a term that no node knows: the
// stream has lost its term row. Rows that no node has may be of an epoch that is over.
func (n *Node) retryFetch(now time.Duration) {
	f := &n.follower
	f.tries++
	switch {
	case f.wanted > 0:
		f.unknown = now + giveUpAfter
		f.attach()
	case f.tries >= fetchTries:
		f.blind, f.retryAt = true, now+giveUpAfter
		f.attach()
	default:
		f.fetch(now, f.upto, 0)
		n.timers.add(f.retryAt)
	}
}

// show reports whether the node may show rows, and whether they are current. A process shows none
// until it has once had those that the log had: clients would learn that instruments do not exist.
func (n *Node) show(now time.Duration) {
	f := &n.follower
	f.ready = f.ready || f.knowsLog()
	s := Show{Allowed: n.registered && f.ready && f.shows() || !n.cfg.Shows}
	if n.connected && f.caughtUp() && s.Allowed {
		silent := f.heard + 4*n.cfg.Heartbeat
		s.Current = f.live && !f.blind && now < silent
		if s.Current {
			n.timers.add(silent)
		}
	}
	if s != n.shown || !n.showing {
		n.shown, n.showing = s, true
		n.emit(s)
	}
}

// Status describes a node for operators.
type Status struct {
	Leads     bool
	Term      Term
	Epoch     string
	Position  uint64
	Seq       uint64 // sequence of the newest handled message
	End       uint64 // sequence of the newest message of the stream that is known
	Current   bool
	Blind     bool // rows are missing that no node sends
	Diverged  bool
	Holder    string // of the lease
	Releasing bool   // the lease is being released
	Appending bool   // an append of this node has no outcome yet
	Queued    int    // bytes of rows that wait to be appended
	LogTime   int64  // the log's clock, Unix ns, when its newest batch was made
	Ignored   uint64 // number of batches of older terms
	Complete  bool
	Reports   []Report        // the newest ones of other nodes
	Heard     []time.Duration // when they came, since the start of the process
	Renewed   time.Duration   // when the lease was seen to change
	Newest    time.Duration   // when a batch of the newest term came
	Awaited   []string        // what this node waits for before it leads
	Connected bool
}

// Status returns the status of the node.
func (n *Node) Status() Status {
	f := &n.follower
	s := Status{
		Leads: n.leader.phase == leading, Term: f.History.Newest(), Epoch: f.History.Epoch, Position: f.Position,
		Seq: f.handled, End: f.end, Current: n.shown.Current, Blind: f.blind, Diverged: f.diverged, Holder: n.lease.holder, Releasing: n.lease.releasing(), Appending: n.leader.inFlight, Queued: n.leader.queued,
		LogTime: f.Time, Ignored: f.ignored, Complete: !f.Gaps, Connected: n.connected, Renewed: n.lease.since, Newest: f.heard, Awaited: n.awaited(),
	}
	for _, r := range n.reports() {
		s.Reports, s.Heard = append(s.Reports, r.Report), append(s.Heard, r.at)
	}
	return s
}

// Clock returns the log's clock as it is now. The numbering hub of a leader uses it.
func (n *Node) Clock() Clock { return n.clock }
