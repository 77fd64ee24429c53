package cluster

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// bench drives a node by hand. It keeps the actions of the last event.
type bench struct {
	t    *testing.T
	node *Node
	now  time.Duration
	seq  uint64 // of the newest message of the stream
	rev  uint64 // of the lease
	out  []Action
	wall int64 // 0: an hour
}

func newBench(t *testing.T, cfg Config) *bench {
	cfg.Cluster, cfg.Random = "c", func() uint64 { return 6 }
	b := &bench{t: t, node: NewNode(cfg, State{}, Journal{}), rev: 1}
	b.do(Connected{})
	return b
}

func (b *bench) do(e Event) {
	b.now += time.Millisecond
	b.out = slices.Clone(b.node.Handle(b.now, cmp.Or(b.wall, int64(time.Hour)), e))
}

// of returns the first action of a type.
func of[A Action](b *bench) (a A) {
	b.t.Helper()
	for _, x := range b.out {
		if a, ok := x.(A); ok {
			return a
		}
	}
	b.t.Fatalf("no %T in %+v", a, b.out)
	return a
}

// has reports whether there is an action of a type.
func has[A Action](b *bench) bool {
	return slices.ContainsFunc(b.out, func(x Action) bool { _, ok := x.(A); return ok })
}

// append takes the action Append into the stream and sends the message back.
func (b *bench) append() (batch Batch) {
	b.t.Helper()
	a := of[Append](b)
	if a.Expected != b.seq {
		b.t.Fatalf("appends behind %d, the stream ends at %d", a.Expected, b.seq)
	}
	b.seq++
	if err := batch.Decode("c", a.Data); err != nil {
		b.t.Fatal(err)
	}
	b.do(Appended{AppendDone, a.Expected, b.seq})
	first := b.out
	b.do(Received{b.seq, a.Data})
	b.out = append(first, b.out...)
	return batch
}

// hold makes the node the holder of the lease.
func (b *bench) hold() {
	b.t.Helper()
	b.do(LeaseRead{Revision: b.rev})
	for !has[WriteLease](b) {
		b.do(Tick{})
	}
	b.rev++
	b.do(LeaseWritten{b.rev - 1, true, b.rev})
}

// lead makes the node the leader of an empty stream without members.
func (b *bench) lead() {
	b.t.Helper()
	b.do(Attached{First: 1})
	b.hold()
	of[Census](b)
	b.do(MembersRead{})
	if row := b.append(); row.Kind != TermRow || !row.NewEpoch {
		b.t.Fatalf("%+v is not the term row of a new epoch", row)
	}
	if l := of[Lead](b); l.Position != 0 || l.Term.Number != 1 {
		b.t.Fatalf("%+v", l)
	}
}

// rowsOf returns the rows after prev up to last, and a definition if they have less than n bytes.
func rowsOf(prev, last uint64, n int) []byte {
	var e Encoder
	for p := prev + 1; p <= last; p++ {
		e.Append(&record.Row{Kind: record.Trade, Instrument: 1, Position: p, N: 1, Latency: -1})
	}
	if left := n - e.Len(); left > 0 {
		e.Define(1, make([]byte, left-record.HeadSize-4))
	}
	return e.Group(prev).Data
}

// offer offers a group with n bytes, or as many as its rows need.
func (b *bench) offer(prev, last uint64, n int) {
	b.do(Offered{Group{Prev: prev, Last: last, Data: rowsOf(prev, last, n), Sources: []Source{{"f", last}}}})
}

// TestLongRowsAreCut requires that rows which exceed a batch come back as they were.
func TestLongRowsAreCut(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a", Candidate: true, MaxBatch: 1000})
	b.lead()
	if b.node.Appending() {
		t.Error("an append is in progress before the first rows")
	}
	b.offer(0, 3, 2400)
	var parts []Batch
	for range 3 {
		if !b.node.Appending() {
			t.Error("no append is in progress while a part has no answer")
		}
		if has[Apply](b) {
			t.Fatal("a part was applied")
		}
		parts = append(parts, b.append())
	}
	if a := of[Apply](b); a.Prev != 0 || a.Last != 3 || len(a.Data) != 2400 {
		t.Errorf("%d bytes, %+v", len(a.Data), a)
	}
	for i, p := range parts {
		if p.First != (i == 0) || p.Final != (i == 2) || p.Prev != 0 || p.Last != 3 || (len(p.Sources) > 0) != p.Final {
			t.Errorf("part %d: %+v", i, p)
		}
	}
	b.offer(3, 4, 400) // it is sent at once
	a := of[Append](b)
	b.offer(4, 5, 400)
	b.offer(5, 6, 400)
	b.offer(6, 7, 400)
	if has[Append](b) {
		t.Error("two appends are in progress")
	}
	b.out = []Action{a}
	b.append()
	if p := b.append(); p.Prev != 4 || p.Last != 6 || len(p.Data) != 800 || !slices.Equal(p.Sources, []Source{{"f", 6}}) {
		t.Errorf("joined as %+v", p)
	}
}

// TestAmbiguousAppend requires that the newest message decides whether an append has succeeded.
func TestAmbiguousAppend(t *testing.T) {
	t.Parallel()
	begin := func(t *testing.T) (*bench, Append) {
		b := newBench(t, Config{Name: "a", Candidate: true})
		b.lead()
		b.offer(0, 3, 0)
		a := of[Append](b)
		b.do(Appended{Result: AppendUnknown, Expected: a.Expected})
		of[ReadLast](b)
		return b, a
	}
	t.Run("it has succeeded", func(t *testing.T) {
		t.Parallel()
		b, a := begin(t)
		b.do(LastRead{Expected: 1, Seq: 2, Data: a.Data})
		b.offer(3, 4, 0)
		if next := of[Append](b); next.Expected != 2 {
			t.Errorf("expects %d", next.Expected)
		}
	})
	t.Run("it has not succeeded", func(t *testing.T) {
		t.Parallel()
		b, a := begin(t)
		b.do(LastRead{Expected: 1, Seq: 1})
		if again := of[Append](b); again.Expected != 1 || !slices.Equal(again.Data, a.Data) {
			t.Errorf("%+v", again)
		}
	})
	t.Run("the second append is refused because the first one has succeeded late", func(t *testing.T) {
		t.Parallel()
		b, a := begin(t)
		b.do(LastRead{Expected: 1, Seq: 1})
		b.do(Appended{Result: AppendRefused, Expected: a.Expected})
		of[ReadLast](b)
		b.do(LastRead{Expected: 1, Seq: 2, Data: a.Data})
		b.offer(3, 4, 0)
		if next := of[Append](b); next.Expected != 2 {
			t.Errorf("expects %d", next.Expected)
		}
	})
	t.Run("another node has appended", func(t *testing.T) {
		t.Parallel()
		b, _ := begin(t)
		b.do(LastRead{Expected: 1, Seq: 2})
		of[StopLeading](b)
	})
	t.Run("the lease ends before the answer", func(t *testing.T) {
		t.Parallel()
		b, _ := begin(t)
		b.now += 5 * time.Second
		b.do(LastRead{Expected: 1, Seq: 1})
		of[StopLeading](b)
		if w := of[WriteLease](b); !w.Release {
			t.Error("the lease is not released for another node")
		}
		b.rev++
		released := b.now
		b.do(LeaseWritten{b.rev - 1, true, b.rev})
		for !has[WriteLease](b) {
			b.do(Tick{})
		}
		if b.now < released+retryLead {
			t.Error("another node has no time to take the lease")
		}
		b.rev++
		b.do(LeaseWritten{b.rev - 1, true, b.rev})
		for i := 0; !has[Census](b); i++ {
			if b.do(Tick{}); i > 1000 {
				t.Fatal("the node does not try again")
			}
		}
	})
}

// TestMessageBeforeAnswer requires that the message itself also acknowledges an append, and that
// the answer of an earlier append does not end a later one.
func TestMessageBeforeAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a", Candidate: true})
	b.lead()
	b.offer(0, 3, 0)
	a := of[Append](b)
	b.do(Received{2, a.Data})
	if b.node.Appending() {
		t.Error("the append is still in progress")
	}
	b.offer(3, 4, 0)
	next := of[Append](b)
	b.do(Appended{Result: AppendUnknown, Expected: a.Expected}) // of the first one
	if has[ReadLast](b) || !b.node.Appending() || next.Expected != 2 {
		t.Errorf("expects %d; the late answer ends the append: %v", next.Expected, !b.node.Appending())
	}
}

func TestResigned(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a", Candidate: true})
	b.lead()
	b.offer(0, 3, 0)
	a := b.out
	b.do(Resigned{})
	if has[StopLeading](b) {
		t.Fatal("the leadership ends before the rows are appended")
	}
	b.out = a
	b.append()
	of[StopLeading](b)
	if w := of[WriteLease](b); !w.Release {
		t.Error("the lease is not released")
	}
	b.do(LeaseWritten{b.rev, true, b.rev + 1})
	if b.do(Tick{}); has[WriteLease](b) {
		t.Error("the node takes the lease again at once")
	}
}

// TestTwoTermsWithANumber requires that a leader begins a later term if a node has seen another one
// with the number of its own, of which the log has lost all messages: that node would ignore it.
func TestTwoTermsWithANumber(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a", Candidate: true, Lease: time.Hour})
	b.lead()
	report := func(newest Term) { b.do(Reported{Report{Node: "b", History: History{"lost", []Start{{newest, 0}}}}}) }
	report(Term{})
	if has[StopLeading](b) {
		t.Fatal("the leadership ends because of a node that has seen no term")
	}
	report(Term{1, 5})
	of[StopLeading](b)
	for i := 0; !has[Census](b); i++ {
		if b.do(Tick{}); i > 1000 {
			t.Fatal("the node does not try again")
		}
	}
	b.do(MembersRead{})
	if row := b.append(); row.Kind != TermRow || row.ID.Term.Number != 2 {
		t.Errorf("%+v", row)
	}
}

// TestSourcesOfAnEpoch requires that an epoch begins with the rows of the node that is furthest, so
// that feeds continue after them. If that node does not give them, the epoch still begins, and does
// not continue feeds where the rows of the leader end: clients have received what would come again.
func TestSourcesOfAnEpoch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		shown   uint64 // position of the other node
		gives   bool   // it gives its rows
		exact   bool
		sources []Source
	}{
		"the leader has all rows":                  {3, false, true, []Source{{"f", 3}}},
		"the other node has later ones":            {4, true, true, []Source{{"f", 4}}},
		"the other node has others, and no answer": {4, false, false, []Source{{"f", 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{Name: "a", Candidate: true, Lease: time.Hour})
			b.lead()
			b.offer(0, 3, 0)
			b.append()
			history := b.node.Report().History
			b.do(Disconnected{})
			b.do(Connected{})
			b.do(Attached{First: 1}) // the stream is empty
			if has[Attach](b) {
				b.do(Attached{First: 1})
			}
			b.seq = 0
			b.hold()
			other := Report{Node: "b", Number: 1, Census: of[Census](b).ID, Shows: true, Position: c.shown, History: history, Short: true, Seq: 9}
			b.do(MembersRead{List: []Member{{"b", 1}}})
			for i := 0; !has[Append](b); i++ {
				switch {
				case has[Fetch](b) && c.gives:
					from := other
					from.Sources, from.SourcesAt = c.sources, c.shown
					b.do(Fetched{From: from, Groups: []Group{{Prev: 3, Last: 4, Data: rowsOf(3, 4, 0)}}})
				case has[Fetch](b):
					b.do(Fetched{Failed: true})
				case i%100 == 0:
					b.do(Reported{other})
				default:
					b.do(Tick{})
				}
				if i > 100_000 {
					t.Fatal("no term begins")
				}
			}
			var row Batch
			if err := row.Decode("c", of[Append](b).Data); err != nil {
				t.Fatal(err)
			}
			if !row.NewEpoch || row.Last != c.shown || row.Exact != c.exact || !slices.Equal(row.Sources, c.sources) {
				t.Errorf("%+v", row)
			}
		})
	}
}

// TestForeignLog requires that a node stops which reads the log of another cluster or of a newer
// program.
func TestForeignLog(t *testing.T) {
	t.Parallel()
	foreign := AppendBatch(nil, &Batch{Cluster: "d", ID: ID{Number: 1}, Kind: NewRows})
	newer := AppendBatch(nil, &Batch{Cluster: "c", ID: ID{Number: 1}, Kind: NewRows})
	newer[4]++
	for want, data := range map[error][]byte{ErrCluster: foreign, ErrVersion: newer} {
		b := newBench(t, Config{Name: "a"})
		b.do(Attached{First: 1, Last: 1})
		b.do(Received{1, data})
		if f := of[Fail](b); !errors.Is(f.Err, want) {
			t.Errorf("%v, want %v", f.Err, want)
		}
		if b.do(Connected{}); len(b.out) > 0 {
			t.Errorf("%+v after the end", b.out)
		}
	}
}

// TestLogClock requires that the clock of the log goes on at a new leader with another clock.
func TestLogClock(t *testing.T) {
	t.Parallel()
	const hour = int64(time.Hour)
	var c Clock
	if got := c.Read(time.Second, hour); got != hour {
		t.Errorf("a new log begins at %d", got)
	}
	c.set(time.Second, hour, 1)
	for _, wall := range []int64{hour + int64(10*time.Minute), hour - int64(10*time.Minute)} {
		got := c.Read(11*time.Second, wall) - hour
		if d := time.Duration(got) - 10*time.Second; d < -10*time.Millisecond || d > 10*time.Millisecond {
			t.Errorf("after 10 s the clock has moved by %v, at a clock that differs by 10 minutes", time.Duration(got))
		}
	}
}

// TestCensusOfASilentNode requires that a census waits longer for a registered node whose reports
// come, because only its answer was lost, and not longer for one of which nothing comes.
func TestCensusOfASilentNode(t *testing.T) {
	t.Parallel()
	begin := func() (*bench, uint64) {
		b := newBench(t, Config{Name: "a", Candidate: true, Patience: time.Second, Lease: time.Hour})
		b.do(Attached{First: 1})
		b.hold()
		id := of[Census](b).ID
		b.do(MembersRead{List: []Member{{"b", 1}}})
		return b, id
	}
	report := Report{Node: "b", Shows: true, Number: 1, Complete: true}
	b, id := begin()
	for range 25 {
		b.now += 100 * time.Millisecond
		if b.do(Reported{report}); has[Append](b) {
			t.Fatalf("the census ended after %v, without the answer of a node that is there", b.now)
		}
	}
	report.Census = id
	if b.do(Reported{report}); !has[Append](b) {
		t.Error("the census does not end with the last answer")
	}
	b, _ = begin()
	b.do(Reported{Report{Node: "b", Shows: true, Number: 1, Complete: true}})
	for b.now < 2*time.Second && !has[Append](b) {
		b.now += 100 * time.Millisecond
		b.do(Tick{})
	}
	if b.now < time.Second || b.now > 1500*time.Millisecond {
		t.Errorf("the census waited %v for a node of which nothing comes", b.now)
	}
}

// TestManySources requires that a term begins also if its row cannot have all numbers of sources:
// feeds then report a gap. Answers to other nodes leave out numbers that do not fit either.
func TestManySources(t *testing.T) {
	t.Parallel()
	for n, fits := range map[int]bool{10: true, 200_000: false} {
		b := newBench(t, Config{Name: "a", Candidate: true})
		b.lead()
		f := &b.node.follower
		f.Position, f.SourcesAt, f.Unsure = 3, 3, false
		for i := range n {
			f.sources[fmt.Sprintf("%d.%d", i/5, i%5)] = math.MaxUint64
		}
		node := b.node
		node.out = nil
		node.announce(b.now, int64(time.Hour), 3, false)
		b.out = node.out
		a := of[Append](b)
		var row Batch
		if err := row.Decode("c", a.Data); err != nil || len(a.Data) > 1<<20-1024 || row.Exact != fits || len(row.Sources) > 0 != fits {
			t.Errorf("%d sources: a term row of %d bytes with %d of them, %v", n, len(a.Data), len(row.Sources), err)
		}
		s, _ := node.StateToSend()
		for _, x := range []any{node.Report(), s} {
			if text, err := json.Marshal(x); err != nil || len(text) > 1<<20-1024 || strings.Contains(string(text), `"0.1"`) != fits {
				t.Errorf("%d sources: %d bytes of %T, %v", n, len(text), x, err)
			}
		}
	}
}

// TestRetiredMeanwhile requires that a node registers again whose next message is gone from the
// stream: one of those that are gone may have retired it.
func TestRetiredMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a", Shows: true})
	b.do(Registered{Number: 1, New: true})
	b.do(Attached{First: 1})
	row := Batch{Cluster: "c", ID: ID{Term: Term{1, 5}}, Epoch: "e", Kind: TermRow, First: true, Final: true, NewEpoch: true, History: History{"e", []Start{{Term{1, 5}, 0}}}}
	b.do(Received{1, AppendBatch(nil, &row)})
	b.do(Disconnected{})
	b.do(Connected{})
	b.do(Attached{First: 1, Last: 1})
	if has[Register](b) {
		t.Error("it registers, and no message is gone")
	}
	b.do(Disconnected{})
	b.do(Connected{})
	b.do(Attached{First: 100, Last: 200})
	of[Register](b)
	if b.node.Status().Current {
		t.Error("it shows rows")
	}
	b.do(Registered{Number: 2})
	if a := of[Attach](b); a.Seq != 1 {
		t.Errorf("%+v", a)
	}
}

// TestFirstRows checks when a node may show rows for the first time: it knows the epoch of the log,
// and has the rows that the log had when the node attached. It then may also while it is behind.
func TestFirstRows(t *testing.T) {
	t.Parallel()
	term := Term{1, 5}
	early := History{"e", []Start{{term, 0}}}
	late := History{"e", []Start{{Term{0, 4}, 0}, {term, 10}}}
	termRow := func(h History) Batch {
		return Batch{ID: ID{Term: term}, Kind: TermRow, Prev: h.base(), Last: h.base(), History: h}
	}
	rows := func(number, prev, last uint64) Batch {
		return Batch{ID: ID{term, number}, Kind: NewRows, Prev: prev, Last: last, Data: rowsOf(prev, last, 0)}
	}
	restarted := State{History: early, Position: 2, Seq: 2, ID: ID{term, 1}, Stream: 2}
	for name, c := range map[string]struct {
		state State
		found uint64  // in the stream when the node attaches
		list  []Batch // after the message State.Seq - 1; the last one allows the node to show rows
	}{
		"the log has not begun":   {list: []Batch{termRow(early)}},
		"a new node":              {found: 3, list: []Batch{termRow(early), rows(1, 0, 2), rows(2, 2, 3)}},
		"a term row without rows": {found: 1, list: []Batch{termRow(late), {ID: ID{term, 1}, Kind: OldRows, Last: 10, Data: rowsOf(0, 10, 0)}}},
		"an older disk": {
			state: State{History: History{"d", []Start{{Term{3, 9}, 0}}}, Position: 2}, found: 1,
			list: []Batch{termRow(early), {ID: ID{Term: Term{4, 6}}, Kind: TermRow, History: History{"e", []Start{{Term{4, 6}, 0}}}}},
		},
		"a node that starts again": {state: restarted, found: 4, list: []Batch{rows(1, 0, 2), rows(2, 2, 3), rows(3, 3, 4)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bench{t: t, seq: max(c.state.Seq, 1) - 1}
			b.node = NewNode(Config{Cluster: "c", Name: "a", Shows: true, Random: func() uint64 { return 6 }}, c.state, Journal{c.state.History.Epoch, c.state.Position, true})
			b.do(Connected{})
			b.do(Registered{Number: 1})
			b.do(Attached{First: 1, Last: c.found})
			for i, x := range c.list {
				if b.node.shown.Allowed {
					t.Fatalf("the node shows rows before message %d", i)
				}
				x.Cluster, x.Epoch, x.First, x.Final = "c", "e", true, true
				b.seq++
				b.do(Received{b.seq, AppendBatch(nil, &x)})
			}
			if !of[Show](b).Allowed {
				t.Error("the node knows the log, and shows no rows")
			}
			b.do(Disconnected{})
			b.do(Connected{})
			b.do(Attached{First: 1, Last: b.seq + 9})
			if s := b.node.shown; !s.Allowed || s.Current {
				t.Errorf("after a disconnection: %+v", s)
			}
		})
	}
}
