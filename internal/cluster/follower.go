package cluster

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// follower reads the messages of the stream, and decides which of their rows a node applies.
//
// A message is compared with what the node has seen. The first message of a consumer is the one
// that was handled last. If it is another one, the stream has lost messages: the follower then
// reads it from the beginning. A batch of an older term than the newest one is ignored. A batch
// whose rows do not continue those of the node makes the follower ask other nodes for the rows in
// between.
type follower struct {
	cfg *Config
	out *[]Action

	State
	mode        followMode
	restart     bool   // reads from the beginning of the stream
	first       uint64 // Attached
	found       uint64 // sequence of the newest message at Attached
	end         uint64 // sequence of the newest message of the stream that is known
	handled     uint64 // sequence of the newest message that was received
	short       bool   // the stream has lost messages since the newest term row
	doubtSeq    uint64 // short is wrong if this message comes again with doubtID; 0: it is certain
	doubtID     ID
	member      Member // this node, as it is registered
	interrupted bool   // an earlier process may have registered since State.Number
	retired     bool   // the node may not show rows until it registers again
	diverged    bool   // the node has rows that are not in the log
	upto        uint64 // fetching: rows up to this position are missing
	wanted      uint64 // fetching: number of a term that the node does not know; 0: none
	retryAt     time.Duration
	tries       int
	blind       bool          // no node sends the missing rows: only a term row can help
	damaged     bool          // the message that was received last ends a group that cannot be read
	foreign     bool          // the newest message that was received is of a term that the node does not have
	ready       bool          // knowsLog was true once in this process
	behind      time.Duration // since when another node has known a newer term; 0: none has

	number  uint64 // of the next batch of the term; 0: unknown
	part    []byte // records of a group whose end was not received
	inPart  bool
	batchID ID            // of the batch in the last Received; zero: that message was skipped
	unknown time.Duration // until then, batches of an unknown term are ignored
	stream  uint64        // position that the stream has reached; 0: no batch was read
	heard   time.Duration // when a batch of the newest term was received
	live    bool          // a batch of the newest term was the newest message when it came
	logTime int64         // of the batch received last, Unix ns
	timed   bool          // the present message is a batch of the newest term
	savedAt time.Duration
	sources map[string]uint64
	ignored uint64 // number of batches that were ignored
	wall    int64  // of this machine's clock, Unix ns
	unpack  unpacker
}

type followMode uint8

const (
	detached followMode = iota
	attaching
	reading  // messages are expected
	fetching // rows are missing; messages are ignored
)

// saveEvery is the time between two actions Save, unless one is needed earlier.
const saveEvery = time.Second

// giveUpAfter is how long the follower waits for what other nodes or the stream may still send,
// before it does without.
const giveUpAfter = time.Second

// The follower asks other nodes for rows again after fetchRetry. After fetchTries requests without
// success it reads the stream to its end without them, and then again from the missing rows on.
const (
	fetchRetry = 250 * time.Millisecond
	fetchTries = 4
)

func newFollower(cfg *Config, out *[]Action, s State, j Journal) follower {
	f := follower{cfg: cfg, out: out, State: s, member: Member{Name: cfg.Name}, interrupted: s.Registering, sources: make(map[string]uint64)}
	f.Gaps = s.Gaps || !j.Complete || s.History.Epoch == ""
	for _, x := range s.Sources {
		f.sources[x.Name] = x.Sequence
	}
	switch {
	case j.Epoch != s.History.Epoch: // an epoch began when the process ended
		f.History, f.Seq, f.ID = History{}, 0, ID{}
	case j.Position < s.Position: // the journal has lost rows
		f.History, f.Seq, f.ID = s.History.until(j.Position), 0, ID{}
	}
	if f.Position = j.Position; j.Position == 0 && len(f.History.Starts) > 0 {
		f.Position = f.History.Starts[0].After // the epoch has no rows here
	}
	if f.Unproven = min(f.Unproven, f.Position); f.History.Epoch == "" {
		f.Unproven = 0
	}
	return f
}

func (f *follower) emit(a Action) { *f.out = append(*f.out, a) }

// registered notes the registration of the node. If the node has registered since its state was
// stored, its disk is an older one, and rows that it has shown may be missing. A process that was
// killed before it had the number has shown none.
func (f *follower) registered(e Registered) {
	older := f.Number > 0 && e.Number != f.Number+1 && !(f.interrupted && e.Number == f.Number+2)
	f.Gaps = (f.Gaps || older) && !e.New
	f.Number, f.member.Number, f.Registering, f.interrupted = e.Number, e.Number, false, false
}

// rowID returns the RowID of the node's newest row.
func (f *follower) rowID() RowID { return RowID{f.History.At(f.Position), f.Position} }

// attach asks for messages from the one that was handled last.
func (f *follower) attach() {
	f.mode, f.restart, f.number, f.foreign = attaching, f.Seq == 0, 0, false
	f.part, f.inPart = nil, false
	f.emit(Attach{max(1, f.Seq)})
}

// attachFirst asks for all messages of the stream. Terms that the node knows without having rows of
// them are forgotten: the stream may have lost them.
func (f *follower) attachFirst() {
	f.Seq, f.ID = 0, ID{}
	f.History = f.History.until(f.Position)
	f.stream = 0
	f.attach()
}

// reported handles the report of another node. If that has known a newer term for a time, and the
// stream has not shown it, the stream has lost messages, and its consumer skips those that it has
// in their place. So a new consumer begins.
func (f *follower) reported(now time.Duration, r *Report) {
	switch {
	case r.History.Newest().Number <= f.History.Newest().Number || !f.caughtUp():
		f.behind = 0
	case f.behind == 0:
		f.behind = max(1, now)
	case now-f.behind >= giveUpAfter:
		f.behind = 0
		f.attach()
	}
}

func (f *follower) detach() {
	f.mode, f.stream = detached, 0
	f.part, f.inPart = nil, false
}

// caughtUp reports whether the node has handled all known messages of the stream.
func (f *follower) caughtUp() bool { return f.mode == reading && !f.diverged && f.handled >= f.end }

// knowsLog reports whether the node has the rows that the log had when the node attached. If the
// stream is empty, a node knows the log that has the epoch of an earlier run of its process. A node
// with an older disk does not know it, if the log has gone on in another way since.
func (f *follower) knowsLog() bool {
	return f.caughtUp() && !f.foreign && f.History.Epoch != "" && f.Position >= max(f.stream, f.History.base())
}

func (f *follower) attached(e Attached) {
	if f.mode != attaching {
		return
	}
	if e.Last < f.Seq {
		if !f.short {
			f.short, f.doubtSeq, f.doubtID = true, f.Seq, f.ID
		}
		f.attachFirst()
		return
	}
	f.mode, f.first, f.found, f.end = reading, e.First, e.Last, e.Last
	switch {
	case e.Last < e.First || e.Last == 0: // no message is there
		f.handled = e.Last
		f.Seq, f.ID, f.restart = 0, ID{}, true
	case f.restart:
		f.handled = e.First - 1
	case f.Seq < e.First: // the stream keeps newer messages only: the node may have been retired
		f.retired = f.shows()
		f.attachFirst()
	default:
		f.handled = f.Seq - 1
	}
}

// received handles a message.
func (f *follower) received(now time.Duration, e Received) error {
	f.batchID, f.damaged = ID{}, false
	if f.mode != reading || e.Seq <= f.handled {
		return nil
	}
	var b Batch
	err := b.Decode(f.cfg.Cluster, e.Data)
	if errors.Is(err, ErrCluster) || errors.Is(err, ErrVersion) {
		return err
	}
	if !f.restart && f.handled < f.Seq { // the message that was handled last
		if e.Seq != f.Seq || b.ID != f.ID {
			f.short, f.doubtSeq = true, 0
			f.attachFirst()
			return nil
		}
		f.handled, f.stream, f.foreign = e.Seq, f.Stream, !f.History.begun(b.ID.Term)
		return nil
	}
	if e.Seq == f.doubtSeq && b.ID == f.doubtID { // it is still there: a former leader had answered
		f.short, f.doubtSeq = false, 0
	}
	f.handled, f.end, f.batchID = e.Seq, max(f.end, e.Seq), b.ID
	if err == nil && f.validBatch(&b) {
		f.batch(now, &b)
	} else {
		f.ignored++
	}
	f.foreign = !f.ready && !f.History.begun(b.ID.Term)
	if f.mode == reading && !f.inPart && !f.blind {
		f.Seq, f.ID, f.Stream = e.Seq, b.ID, f.stream
	}
	return nil
}

// batch handles a batch.
func (f *follower) batch(now time.Duration, b *Batch) {
	f.Highest = max(f.Highest, b.ID.Term.Number)
	if b.Kind == TermRow {
		f.termRow(now, b)
		return
	}
	cur := f.History.Newest()
	if b.ID.Term != cur || b.Epoch != f.History.Epoch || f.diverged {
		f.part, f.inPart = nil, false
		f.otherTerm(now, b, cur)
		return
	}
	if f.number != 0 && b.ID.Number < f.number {
		return
	}
	if f.number != b.ID.Number || b.First {
		f.part, f.inPart = nil, false
	}
	f.number = b.ID.Number + 1
	f.heard, f.live, f.logTime, f.timed, f.Time = now, f.live || f.handled == f.end, b.Time, true, max(f.Time, b.Time)
	if !b.First && !f.inPart {
		return // the beginning was not received; a later batch shows that rows are missing
	}
	if !b.First || !b.Final {
		if len(f.part)+len(b.Data) > maxGroup {
			f.part, f.inPart, f.damaged = nil, false, true
			f.ignored++
			return
		}
		f.part = append(f.part, b.Data...)
		f.inPart = true
		b.Data = f.part
	}
	if b.Final {
		f.part, f.inPart = nil, false
		f.group(now, b)
	}
}

// otherTerm handles a batch of another term than the newest one.
func (f *follower) otherTerm(now time.Duration, b *Batch, cur Term) {
	if b.ID.Term.Number > cur.Number && !f.diverged && now >= f.unknown {
		// The stream does not have the term row any more. Another node may know the term.
		f.fetch(now, b.Prev, b.ID.Term.Number)
		return
	}
	f.ignored++
	if b.Epoch != f.History.Epoch || !b.Final {
		return
	}
	for _, s := range f.History.Starts {
		if s.Term == b.ID.Term && (b.Kind == OldRows && b.Last <= s.After || f.History.At(b.Last) == s.Term) {
			f.stream = max(f.stream, b.Last)
		}
	}
}

// group handles a whole group of rows.
func (f *follower) group(now time.Duration, b *Batch) {
	data, err := f.unpack.group(b.Data, b.Prev, b.Last)
	if err != nil {
		f.damaged = true
		f.ignored++
		return
	}
	f.stream = max(f.stream, b.Last)
	if b.Prev > f.Position {
		if !f.blind {
			f.tries = 0
			f.fetch(now, b.Prev, 0)
		}
		return
	}
	if b.Last > f.Position || b.Last == b.Prev && b.Last == f.Position && len(data) > 0 {
		f.emit(Apply{Prev: f.Position, Last: b.Last, Time: f.Time, Data: data})
		f.Position = b.Last
	}
	proven := f.prove(b.Last)
	f.noteSources(b)
	joined := f.Gaps && slices.Contains(b.Joined, f.member)
	f.Gaps = f.Gaps && !joined
	f.retired = f.retired || slices.Contains(b.Retired, f.member)
	switch {
	case joined || proven:
		f.save(now)
	case now-f.savedAt >= saveEvery:
		f.saveAs(now, true)
	}
}

// noteSources notes the sequences of feeds up to the end of a batch.
func (f *follower) noteSources(b *Batch) {
	switch {
	case b.Kind != NewRows:
		return
	case f.Unsure:
		if b.Prev != f.History.base() || b.Last == b.Prev {
			return
		}
		clear(f.sources) // the feeds have reported a gap
		f.Unsure = false
	case b.Prev > f.SourcesAt || b.Last < f.SourcesAt:
		return
	}
	f.SourcesAt = b.Last
	for _, s := range b.Sources {
		f.sources[s.Name] = s.Sequence
	}
	if len(b.Sources) > 0 {
		f.emit(Stored{b.Sources})
	}
}

// termRow handles the beginning of a term.
func (f *follower) termRow(now time.Duration, b *Batch) {
	cur := f.History.Newest()
	if b.ID.Term == cur {
		f.number, f.heard = 1, now
		return
	}
	if b.ID.Term.Number <= cur.Number {
		f.ignored++
		return
	}
	switch newest := f.rowID(); {
	case b.Epoch != f.History.Epoch:
		f.beginEpoch(now, &b.History)
	case b.History.Has(newest):
		f.adopt(now, &b.History)
	case f.shows():
		f.diverged = true
		return
	default: // no client has seen the rows of this node that are not in the log
		f.beginEpoch(now, &b.History)
	}
	f.number, f.heard, f.logTime, f.timed, f.Time = 1, now, b.Time, true, max(f.Time, b.Time)
	clear(f.sources)
	for _, s := range b.Sources {
		f.sources[s.Name] = s.Sequence
	}
	if f.SourcesAt, f.Unsure = b.History.base(), !b.Exact; f.Unsure {
		f.SourcesAt = 0
	}
	f.save(now)
}

// adopt sets the history of the log.
func (f *follower) adopt(now time.Duration, h *History) {
	f.History = h.clone()
	f.part, f.inPart, f.short = nil, false, false
	f.save(now)
}

// beginEpoch begins the epoch of a history. Rows that the node has of that epoch are dropped.
func (f *follower) beginEpoch(now time.Duration, h *History) {
	f.Position, f.stream = h.Starts[0].After, h.Starts[0].After
	f.diverged, f.blind, f.Unproven = false, false, 0
	f.adopt(now, h)
	f.emit(BeginEpoch{h.Epoch, f.Position})
}

// save stores the state.
func (f *follower) save(now time.Duration) { f.saveAs(now, false) }

func (f *follower) saveAs(now time.Duration, regular bool) {
	f.savedAt = now
	s := f.State
	s.History.Starts = slices.Clone(s.History.Starts)
	s.Sources = f.listSources()
	f.emit(Save{s, regular})
}

// listSources returns the newest sequences of feeds, by name.
func (f *follower) listSources() []Source {
	list := make([]Source, 0, len(f.sources))
	for name, n := range f.sources {
		list = append(list, Source{name, n})
	}
	slices.SortFunc(list, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// fetch asks other nodes for rows up to a position, and for the history of a term.
func (f *follower) fetch(now time.Duration, upto, term uint64) {
	f.mode, f.upto, f.wanted, f.retryAt = fetching, upto, term, now+fetchRetry
	f.emit(Fetch{Epoch: f.History.Epoch, After: f.rowID(), Upto: upto})
}

// fetched applies rows of another node, if the histories of both nodes have the same term for them.
// It reports whether the node has made progress.
func (f *follower) fetched(now time.Duration, e *Fetched) (progress bool) {
	h := &e.From.History
	if e.Failed || h.Epoch != f.History.Epoch || !h.Has(f.rowID()) || !h.ordered() {
		return false
	}
	newer := h.Newest().Number > f.History.Newest().Number
	if newer {
		f.History, progress = h.clone(), true
		f.save(now)
	}
	f.Time = max(f.Time, e.From.Time) // the log has reached it with these rows
	for _, g := range e.Groups {
		if g.Prev > f.Position || g.Last > e.From.Position || h.At(g.Last) != f.History.At(g.Last) {
			break
		}
		definitions := g.Last == g.Prev && g.Last == f.Position && len(g.Data) > 0
		if g.Last <= f.Position && !definitions {
			continue
		}
		data, err := new(unpacker).group(g.Data, g.Prev, g.Last) // all of them are applied later
		if err != nil {
			break
		}
		f.emit(Apply{Prev: f.Position, Last: g.Last, Time: f.Time, Data: data})
		f.Position, progress = g.Last, true
	}
	if e.From.SourcesAt == f.Position && f.SourcesAt < f.Position {
		clear(f.sources)
		for _, s := range e.From.Sources {
			f.sources[s.Name] = s.Sequence
		}
		f.SourcesAt, f.Unsure = f.Position, false
	}
	return progress
}
