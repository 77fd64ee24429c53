package cluster

import (
	"testing"
	"time"
)

// row sends a batch of term 1 without rows as the next message of the stream.
func (b *bench) row(kind BatchKind, number uint64, at time.Duration) {
	b.rowOf(Term{1, 5}, kind, number, at)
}

// rowOf sends a batch of a term without rows as the next message of the stream.
func (b *bench) rowOf(term Term, kind BatchKind, number uint64, at time.Duration) {
	x := Batch{Cluster: "c", ID: ID{term, number}, Epoch: "e", Kind: kind, First: true, Final: true, Time: int64(at)}
	if kind == TermRow {
		x.History = History{"e", []Start{{term, 0}}}
	}
	b.seq++
	b.do(Received{b.seq, AppendBatch(nil, &x)})
}

// TestClockOfOldMessages requires that messages which were in the stream before a node read it do
// not set its clock, because they may be old, and that later messages do.
func TestClockOfOldMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a"})
	b.do(Attached{First: 1, Last: 2})
	b.row(TermRow, 0, time.Minute)
	b.row(NewRows, 1, 2*time.Minute)
	if r := b.node.Report(); r.Time != 0 || r.Seen != int64(2*time.Minute) {
		t.Errorf("after old messages: the clock of the log is %v, seen %v", time.Duration(r.Time), time.Duration(r.Seen))
	}
	for i, at := range []time.Duration{2 * time.Minute, 3 * time.Minute} { // the first one has no new time
		b.row(NewRows, 2+uint64(i), at)
		if r := b.node.Report(); r.Time != int64(at) || r.TimeTerm != 1 {
			t.Errorf("after a new message: the clock of the log is %v of term %d", time.Duration(r.Time), r.TimeTerm)
		}
	}
	// The connection ends, and the clock goes on. Messages that came meanwhile do not set it back.
	b.now += time.Minute
	b.do(Connected{})
	b.do(Attached{First: 1, Last: 5})
	b.seq--
	b.row(NewRows, 3, 3*time.Minute)
	b.row(NewRows, 4, 3*time.Minute+time.Second)
	if r := b.node.Report(); r.Time < int64(239*time.Second) {
		t.Errorf("after a minute without a connection: the clock of the log is %v", time.Duration(r.Time))
	}
}

// TestClockOfLateMessages requires that a message which comes late does not set the clock back. The
// clock of a node is never ahead of that of the leader, which may move more slowly than time.
func TestClockOfLateMessages(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a"})
	b.do(Attached{})
	b.row(TermRow, 0, time.Hour)
	b.now += 5 * time.Second
	b.row(NewRows, 1, time.Hour+10*time.Millisecond)
	got := time.Duration(b.node.Report().Time)
	if want := time.Hour + 5*time.Second; got < want-20*time.Millisecond || got > want {
		t.Errorf("after a message that came 5 s late: the clock of the log is %v", got)
	}
	at := time.Hour + 5*time.Second
	for i := range uint64(1000) { // the clock of the leader moves back towards that of its machine
		b.now += time.Second
		at += time.Second - time.Millisecond
		b.row(NewRows, 2+i, at)
		if got := time.Duration(b.node.Report().Time); got != at {
			t.Fatalf("message %d: the clock of the log is %v, that of the leader %v", i, got, at)
		}
	}
}

// TestClockOfALateTerm requires that the row of a term does not set the clock back, because it may
// have been made long before it came to the stream. The batches of its leader do.
func TestClockOfALateTerm(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a"})
	b.do(Attached{})
	b.row(TermRow, 0, time.Hour)
	b.row(NewRows, 1, time.Hour)
	b.now += 5 * time.Second
	b.rowOf(Term{2, 5}, TermRow, 0, time.Hour+time.Second)
	if got := time.Duration(b.node.Report().Time); got < time.Hour+4900*time.Millisecond {
		t.Errorf("after a term row that is 4 s old: the clock of the log is %v", got)
	}
	b.rowOf(Term{2, 5}, NewRows, 1, time.Hour+2*time.Second)
	if r := b.node.Report(); r.Time != int64(time.Hour+2*time.Second) || r.TimeTerm != 2 {
		t.Errorf("after a batch of term 2: the clock of the log is %v of term %d", time.Duration(r.Time), r.TimeTerm)
	}
}

// TestClockOfALaterTerm requires that a node takes the clock of another one that heard a later term
// than the node, whose own clock may be another one: all others were down meanwhile.
func TestClockOfALaterTerm(t *testing.T) {
	t.Parallel()
	const minute, hour = int64(time.Minute), int64(time.Hour)
	b := newBench(t, Config{Name: "a"})
	h := func(number uint64) History { return History{"e", []Start{{Term{number, 5}, 0}}} }
	for _, c := range []struct {
		what       string
		time       int64
		term       uint64
		want, from int64
	}{
		{"first report", hour, 2, hour, 2},
		{"an earlier term", 2 * hour, 1, hour, 2},
		{"the same term", 2 * hour, 2, hour, 2},
		{"a later term", minute, 3, minute, 3},
		{"a node without a clock", 0, 4, minute, 3},
		{"a term that its sender does not know", hour, 9, minute, 3},
	} {
		b.do(Reported{Report{Node: "b", History: h(4), Time: c.time, TimeTerm: c.term}})
		r := b.node.Report()
		if d := time.Duration(r.Time - c.want); d < 0 || d > time.Second || r.TimeTerm != uint64(c.from) {
			t.Errorf("%s: the clock of the log is %v of term %d", c.what, time.Duration(r.Time), r.TimeTerm)
		}
	}
}

// TestFirstTime requires that a candidate whose clock is not that of the newest term waits for
// reports, and takes that of another node before it uses the clock of its machine.
func TestFirstTime(t *testing.T) {
	t.Parallel()
	const heartbeat = 250 * time.Millisecond
	for name, c := range map[string]struct {
		report Report
		want   time.Duration // time of the term row
		within time.Duration
	}{
		"no node has a clock":         {Report{}, time.Hour, 4 * heartbeat},
		"no node, but one saw a time": {Report{Seen: int64(2 * time.Hour)}, 2 * time.Hour, 4 * heartbeat},
		"another node has a clock":    {Report{Time: int64(3 * time.Minute), TimeTerm: 1}, 3 * time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, Config{Name: "a", Candidate: true, Lease: time.Hour, Heartbeat: heartbeat})
			b.do(Attached{First: 1, Last: 1})
			b.row(TermRow, 0, time.Minute)
			b.hold()
			b.do(MembersRead{})
			if has[Append](b) {
				t.Fatal("the term begins before a report can have come")
			}
			began := b.now
			c.report.Node, c.report.History = "b", History{"e", []Start{{Term{1, 5}, 0}}}
			b.do(Reported{c.report})
			for !has[Append](b) && b.now < began+time.Minute {
				b.now += 10 * time.Millisecond
				b.do(Tick{})
			}
			var row Batch
			if err := row.Decode("c", of[Append](b).Data); err != nil {
				t.Fatal(err)
			}
			if d := time.Duration(row.Time) - c.want; d < 0 || d > 2*time.Second || row.Kind != TermRow {
				t.Errorf("the term begins at %v", time.Duration(row.Time))
			}
			if waited := b.now - began; waited > c.within+50*time.Millisecond || waited < c.within-50*time.Millisecond {
				t.Errorf("the candidate waited %v", waited)
			}
		})
	}
}
