package cluster

import (
	"testing"
	"time"
)

// TestOlderDisk checks when a node that has registered counts as one that has lost rows: if its
// state is that of an earlier registration. A process that was killed before it had its number has
// shown no rows, and costs nothing.
func TestOlderDisk(t *testing.T) {
	t.Parallel()
	h := History{"e", []Start{{Term{1, 5}, 0}}}
	for name, c := range map[string]struct {
		state    State
		event    Registered
		complete bool
	}{
		"the next registration":         {State{Number: 7}, Registered{Number: 8}, true},
		"an earlier registration":       {State{Number: 7}, Registered{Number: 9}, false},
		"a process was killed":          {State{Number: 7, Registering: true}, Registered{Number: 9}, true},
		"it was killed before it was":   {State{Number: 7, Registering: true}, Registered{Number: 8}, true},
		"an earlier one, and killed":    {State{Number: 7, Registering: true}, Registered{Number: 10}, false},
		"an older database":             {State{Number: 7}, Registered{Number: 3}, false},
		"a node that was retired":       {State{Number: 7}, Registered{Number: 9, New: true}, true},
		"the state of an older program": {State{}, Registered{Number: 9}, true},
		"rows were missing already":     {State{Number: 7, Gaps: true}, Registered{Number: 8}, false},
	} {
		c.state.History, c.state.Position = h, 5
		b := &bench{t: t, node: NewNode(Config{Cluster: "c", Name: "a", Shows: true, Random: func() uint64 { return 6 }}, c.state, Journal{"e", 5, true})}
		b.do(Connected{})
		if s := of[Save](b).State; !s.Registering || s.Number != c.state.Number {
			t.Errorf("%s: before the registration the state is %+v", name, s)
		}
		of[Register](b)
		b.do(c.event)
		if s := of[Save](b).State; s.Registering || s.Number != c.event.Number || s.Gaps == c.complete || b.node.Report().Complete != c.complete {
			t.Errorf("%s: %+v, complete %v", name, s, b.node.Report().Complete)
		}
	}
}

// TestDamagedRows requires that a leader ends its term if the log has rows of it that cannot be
// read. The other nodes, which never get the rows after them, then follow the next leader.
func TestDamagedRows(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a", Candidate: true})
	b.lead()
	data := rowsOf(0, 3, 0)
	data[0]++
	b.do(Offered{Group{Last: 3, Data: data}})
	if b.append(); !has[StopLeading](b) || !b.node.Status().Releasing {
		t.Fatalf("%+v", b.out)
	}
	b.rev++
	for b.do(LeaseWritten{b.rev - 1, true, b.rev}); !has[WriteLease](b); {
		b.do(Tick{})
	}
	b.rev++
	b.do(LeaseWritten{b.rev - 1, true, b.rev})
	of[Census](b)
	b.do(MembersRead{})
	if row := b.append(); row.Kind != TermRow || row.ID.Term.Number != 2 || row.Prev != 0 {
		t.Errorf("%+v", row)
	}
	if l := of[Lead](b); l.Position != 0 || l.Term.Number != 2 {
		t.Errorf("%+v", l)
	}
}

// TestLostMessagesAreFound requires that nodes find lost messages of the stream although their
// connection stays: a consumer passes the messages that use the sequences of lost ones again.
func TestLostMessagesAreFound(t *testing.T) {
	t.Parallel()
	t.Run("an append is refused", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, Config{Name: "a", Candidate: true})
		b.lead()
		b.offer(0, 1, 0)
		b.append()
		b.offer(1, 2, 0)
		b.do(Appended{Result: AppendRefused, Expected: 2})
		of[StopLeading](b)
		if a := of[Attach](b); a.Seq != 2 {
			t.Errorf("%+v", a)
		}
		b.do(Attached{First: 1, Last: 1})
		if a := of[Attach](b); a.Seq != 1 || !b.node.Report().Short {
			t.Errorf("%+v, %+v", a, b.node.Report())
		}
	})
	t.Run("a former leader of the stream answers", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, Config{Name: "a"})
		b.do(Attached{First: 1})
		b.hear(0)
		b.hear(1)
		b.do(Disconnected{})
		b.do(Connected{})
		b.do(Attached{First: 1, Last: 1})
		if !b.node.Report().Short {
			t.Error("a message is gone, and the node does not say so")
		}
		b.do(Attached{First: 1, Last: 1})
		b.hear(0)
		if b.hear(1); b.node.Report().Short {
			t.Error("no message is gone, and the node says so")
		}
	})
	t.Run("another node knows a newer term", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, Config{Name: "a"})
		b.do(Attached{First: 1})
		b.hear(0)
		newer := Report{Node: "b", History: History{"e", []Start{{Term{1, 5}, 0}, {Term{2, 6}, 0}}}}
		for began := b.now; !has[Attach](b); b.do(Reported{newer}) {
			if b.now += 100 * time.Millisecond; b.now > began+3*time.Second {
				t.Fatal("the node waits for messages that do not come")
			}
		}
		if a := of[Attach](b); a.Seq != 1 || b.now < saveEvery {
			t.Errorf("%+v at %v", a, b.now)
		}
	})
}

// TestLostLease requires that a node goes on with the lease that the store has after a loss of
// newer revisions, and not with an older one that comes late.
func TestLostLease(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a", Candidate: true})
	b.do(Attached{First: 1})
	write := func() uint64 {
		for b.do(Tick{}); !has[WriteLease](b); {
			b.do(Tick{})
		}
		return of[WriteLease](b).Expected
	}
	b.do(LeaseRead{Revision: 9})
	b.do(LeaseRead{Revision: 8})
	if e := write(); e != 9 {
		t.Fatalf("after a late answer it expects %d", e)
	}
	b.do(LeaseWritten{Expected: 9})
	b.do(LeaseRead{Revision: 5, Checked: true})
	if e := write(); e != 5 {
		t.Errorf("the node expects the revision %d of a lease that has 5", e)
	}
}

// TestClockADayAhead requires that a candidate does not begin a term by a clock that is more than a
// day ahead of those of the others. If it was alone and has begun one, new nodes take its batches,
// and nodes that have seen an earlier time do not.
func TestClockADayAhead(t *testing.T) {
	t.Parallel()
	const wall = int64(48 * time.Hour)
	for name, c := range map[string]struct {
		walls []int64
		leads bool
	}{
		"alone":               {nil, true},
		"right":               {[]int64{wall}, true},
		"a day ahead":         {[]int64{wall - int64(25*time.Hour)}, false},
		"one other is behind": {[]int64{wall, wall, wall - int64(25*time.Hour)}, true},
		"older programs":      {[]int64{0}, true},
		"one of two agrees":   {[]int64{wall, wall - int64(25*time.Hour)}, false},
	} {
		b := newBench(t, Config{Name: "a", Candidate: true})
		b.wall = wall
		b.do(Attached{First: 1})
		b.hold()
		id := of[Census](b).ID
		for i, w := range c.walls {
			b.do(Reported{Report{Node: string(rune('b' + i)), Census: id, Wall: w}})
		}
		b.do(MembersRead{})
		if has[Append](b) != c.leads || len(b.node.Status().Awaited) > 0 == c.leads {
			t.Errorf("%s: %+v, waits for %v", name, b.out, b.node.Status().Awaited)
		}
	}
	row := Batch{
		Cluster: "c", ID: ID{Term: Term{1, 5}}, Epoch: "e", Kind: TermRow, First: true, Final: true,
		Time: wall + int64(25*time.Hour), History: History{"e", []Start{{Term{1, 5}, 0}}},
	}
	for _, seen := range []int64{0, wall} {
		b := newBench(t, Config{Name: "a"})
		b.wall, b.node.follower.Time = wall, seen
		b.do(Attached{First: 1})
		b.do(Received{1, AppendBatch(nil, &row)})
		if began := b.node.Status().Term.Number == 1; began != (seen == 0) {
			t.Errorf("a node that has seen the time %d: %+v", seen, b.node.Status())
		}
	}
}
