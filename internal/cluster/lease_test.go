package cluster

import (
	"slices"
	"testing"
	"time"
)

// TestLeaseStalls requires that a leader goes on while its appends are acknowledged, although its
// lease is not renewed, and that it ends when they are not.
func TestLeaseStalls(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a", Candidate: true})
	b.lead()
	for end := b.now + 10*time.Second; b.now < end; {
		if b.do(Tick{}); has[Append](b) {
			b.append()
		}
		if has[StopLeading](b) {
			t.Fatalf("the leadership ends at %v: %+v", b.now, of[StopLeading](b))
		}
	}
	for !has[Append](b) {
		b.do(Tick{})
	}
	b.append()
	last := b.now
	for !has[StopLeading](b) {
		if b.do(Tick{}); b.now > last+5*time.Second {
			t.Fatal("the leadership does not end without acknowledged appends")
		}
	}
	if d := b.now - last; d < 990*time.Millisecond || d > 1010*time.Millisecond {
		t.Errorf("it ended after %v", d)
	}
}

// hear passes a batch of another leader, whose term row has the number 0.
func (b *bench) hear(number uint64) {
	term := Term{1, 5}
	x := Batch{Cluster: "c", ID: ID{term, number}, Epoch: "e", Kind: NewRows, First: true, Final: true}
	if number == 0 {
		x.Kind, x.NewEpoch, x.History = TermRow, true, History{"e", []Start{{term, 0}}}
	}
	b.do(Received{number + 1, AppendBatch(nil, &x)})
}

// TestLeaderIsHeard requires that a candidate does not take an ended lease while batches of the
// leader come, takes it when they do not, and at once when it was released.
func TestLeaderIsHeard(t *testing.T) {
	t.Parallel()
	begin := func() *bench {
		b := newBench(t, Config{Name: "a", Candidate: true})
		b.do(Attached{First: 1})
		b.do(LeaseRead{Revision: 7, Holder: "b"})
		b.hear(0)
		for number := uint64(1); number <= 20; number++ {
			for next := b.now + 200*time.Millisecond; b.now < next; {
				if b.do(Tick{}); has[WriteLease](b) {
					t.Fatalf("the lease is taken at %v", b.now)
				}
			}
			b.hear(number)
		}
		return b
	}
	b := begin()
	last := b.now
	for !has[WriteLease](b) {
		if b.do(Tick{}); b.now > last+5*time.Second {
			t.Fatal("the lease of a silent leader is not taken")
		}
	}
	if d := b.now - last; d < 990*time.Millisecond || d > 1010*time.Millisecond {
		t.Errorf("it was taken after %v", d)
	}
	b = begin()
	if b.do(LeaseRead{Revision: 8}); !has[WriteLease](b) {
		t.Fatal("a released lease is not taken")
	}
	b.hear(21)
	if b.do(LeaseWritten{8, true, 9}); !has[Census](b) {
		t.Error("a late batch of the leader that has released the lease delays its successor")
	}
}

// TestAttemptWithoutLease requires that an attempt to lead goes on when its lease ends and nobody
// takes it, and that it ends when another node takes the lease.
func TestAttemptWithoutLease(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a", Candidate: true, Patience: time.Hour})
	b.do(Attached{First: 1})
	b.hold()
	of[Census](b)
	b.do(MembersRead{List: []Member{{"c", 1}}}) // it does not answer
	asks := func() (n int) {
		for end := b.now + 3*time.Second; b.now < end; {
			if b.do(Tick{}); has[Census](b) {
				n++
			}
		}
		return n
	}
	if n := asks(); n < 10 {
		t.Errorf("the attempt ends with the lease: %d questions in 3 s", n)
	}
	b.do(LeaseRead{Revision: b.rev + 1, Holder: "b"})
	b.do(Tick{})
	if b.node.leader.phase != idle {
		t.Error("the attempt goes on although another node has the lease")
	}
}

// TestLostAnswerOfALease requires that a node has the lease when it reads its own name there, and
// that a late answer does not count for a later write.
func TestLostAnswerOfALease(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a", Candidate: true})
	b.do(Attached{First: 1})
	b.do(LeaseRead{Revision: 1})
	for !has[WriteLease](b) {
		b.do(Tick{})
	}
	if b.do(LeaseRead{Revision: 2, Holder: "a"}); !has[Census](b) {
		t.Fatal("the node does not know that it has the lease")
	}
	until := b.node.lease.until
	for !has[WriteLease](b) {
		b.do(Tick{})
	}
	if b.do(LeaseWritten{1, true, 2}); b.node.lease.until != until || !b.node.lease.writing {
		t.Error("the answer to an earlier write extends the lease")
	}
	if b.do(LeaseWritten{2, true, 3}); b.node.lease.until <= until {
		t.Error("the answer to the write does not extend the lease")
	}
}

// TestReleaseDuringRenewal requires that a leader which resigns releases the lease after the answer
// to a renewal, whose revision the release must expect.
func TestReleaseDuringRenewal(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]LeaseWritten{"it is renewed": {2, true, 3}, "the renewal fails": {2, false, 0}} {
		b := newBench(t, Config{Name: "a", Candidate: true})
		b.lead()
		for !has[WriteLease](b) {
			if b.do(Tick{}); has[Append](b) {
				b.append()
			}
		}
		b.do(Resigned{})
		of[StopLeading](b)
		if has[WriteLease](b) || !b.node.Status().Releasing {
			t.Errorf("%s: two writes of the lease are in progress, or the release is forgotten", name)
		}
		b.do(answer)
		if w := of[WriteLease](b); !w.Release || w.Expected != max(2, answer.Revision) {
			t.Errorf("%s: %+v", name, w)
		}
		b.do(LeaseWritten{max(2, answer.Revision), true, 9})
		if b.node.Status().Releasing || b.node.Status().Holder != "" {
			t.Errorf("%s: the release does not end", name)
		}
	}
}

// TestReleaseOfAnEndedLease requires that a leader whose lease was not renewed releases it too.
func TestReleaseOfAnEndedLease(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a", Candidate: true})
	b.lead()
	next := func() { // all writes of the lease fail
		if has[WriteLease](b) {
			b.do(LeaseWritten{Expected: of[WriteLease](b).Expected})
		} else {
			b.do(Tick{})
		}
		if out := b.out; has[Append](b) {
			b.append()
			b.out = append(out, b.out...)
		}
	}
	for end := b.now + 3*time.Second; b.now < end; {
		next()
	}
	if b.node.lease.held(b.now) {
		t.Fatal("the lease has not ended")
	}
	first := b.out
	b.do(Resigned{})
	b.out = append(first, b.out...)
	for end := b.now + 3*time.Second; !has[WriteLease](b) || !of[WriteLease](b).Release; {
		if next(); b.now > end {
			t.Fatal("the lease is not released")
		}
	}
}

// TestRefusedRelease requires that a release is repeated with the revision of a renewal that was
// late, in either order of the answers, and that a later leadership does not release its lease.
func TestRefusedRelease(t *testing.T) {
	t.Parallel()
	for _, readFirst := range []bool{false, true} {
		b := newBench(t, Config{Name: "a", Candidate: true})
		b.lead()
		for !has[WriteLease](b) {
			if b.do(Tick{}); has[Append](b) {
				b.append()
			}
		}
		b.do(LeaseWritten{Expected: 2}) // it is late
		b.do(Resigned{})
		if w := of[WriteLease](b); !w.Release || w.Expected != 2 {
			t.Fatalf("%+v", w)
		}
		answers := []Event{LeaseWritten{Expected: 2}, LeaseRead{Revision: 3, Holder: "a"}}
		if readFirst {
			answers[0], answers[1] = answers[1], answers[0]
		}
		b.do(answers[0])
		if has[WriteLease](b) || !b.node.Status().Releasing {
			t.Errorf("read first %v: the release is forgotten, or repeated too early", readFirst)
		}
		b.do(answers[1])
		if w := of[WriteLease](b); !w.Release || w.Expected != 3 {
			t.Errorf("read first %v: %+v", readFirst, w)
		}
		b.do(LeaseWritten{3, true, 4})
		if b.node.Status().Releasing {
			t.Errorf("read first %v: the release does not end", readFirst)
		}
		released := b.now
		for !has[WriteLease](b) {
			b.do(Tick{})
		}
		if w := of[WriteLease](b); w.Release || b.now < released+retryLead {
			t.Errorf("read first %v: %+v, %v after the release", readFirst, w, b.now-released)
		}
	}
}

// TestCandidateThatCannotAsk requires that a candidate releases the lease if it cannot read the
// list of nodes, or if the node with the newest rows does not send them.
func TestCandidateThatCannotAsk(t *testing.T) {
	t.Parallel()
	for _, listed := range []bool{false, true} {
		b := newBench(t, Config{Name: "a", Candidate: true})
		b.do(Attached{First: 1})
		b.hold()
		best := Report{Node: "b", Shows: true, Number: 1, Complete: true, Position: 9, Highest: 4, History: History{"e", []Start{{Term{4, 5}, 0}}}}
		released := false
		for end := b.now + 20*time.Second; !released && b.now < end; {
			switch {
			case has[Census](b):
				best.Census = of[Census](b).ID
				rest := slices.DeleteFunc(b.out, func(a Action) bool { _, ok := a.(Census); return ok })
				b.do(MembersRead{List: []Member{{"b", 1}}, Failed: !listed})
				rest = append(rest, b.out...)
				b.do(Reported{best})
				b.out = append(rest, b.out...)
			case has[WriteLease](b):
				released = of[WriteLease](b).Release
				b.rev++
				b.do(LeaseWritten{b.rev - 1, true, b.rev})
			default:
				b.do(Tick{})
			}
		}
		if !released {
			t.Errorf("listed %v: the candidate keeps the lease", listed)
		}
	}
}

// TestNodeThatCannotAppend requires that a leader whose appends never succeed releases the lease,
// which it can renew, also if the stream refuses each repetition and seems not to have changed.
func TestNodeThatCannotAppend(t *testing.T) {
	t.Parallel()
	for name, result := range map[string]AppendResult{"no answer": AppendUnknown, "repetitions are refused": AppendRefused} {
		b := newBench(t, Config{Name: "a", Candidate: true})
		b.lead()
		b.offer(0, 1, 0)
		first, appends := AppendUnknown, 0
		for end := b.now + 10*time.Second; !has[StopLeading](b); {
			switch {
			case has[Append](b):
				appends++
				b.now += 100 * time.Millisecond
				b.do(Appended{Result: first, Expected: 1})
				first = result
			case has[ReadLast](b):
				b.do(LastRead{Expected: 1, Seq: 1})
			case has[WriteLease](b):
				b.rev++
				b.do(LeaseWritten{b.rev - 1, true, b.rev})
			default:
				b.do(Tick{})
			}
			if b.now > end {
				t.Fatalf("%s: it still leads after %d appends", name, appends)
			}
		}
		if !b.node.Status().Releasing {
			t.Errorf("%s: it keeps the lease", name)
		}
	}
}

// TestLeaderIsBack requires that a candidate which has just read the stream listens for the length
// of a lease. Its attempt to lead ends when batches of the leader come again.
func TestLeaderIsBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Name: "a", Candidate: true, Patience: time.Hour})
	b.do(LeaseRead{Revision: 7, Holder: "b"})
	b.do(Attached{First: 1, Last: 2})
	b.now += 10 * time.Second // the stream comes late
	b.hear(0)
	listens := b.now
	for b.hear(1); !has[WriteLease](b); {
		b.do(Tick{})
	}
	if d := b.now - listens; d < 990*time.Millisecond {
		t.Errorf("the lease is taken %v after the stream was read", d)
	}
	if b.do(LeaseWritten{7, true, 8}); !has[Census](b) {
		t.Fatal("no census")
	}
	b.do(MembersRead{List: []Member{{"c", 1}}}) // it does not answer
	if b.hear(2); b.node.leader.phase != idle {
		t.Error("the census goes on although the leader is back")
	}
}
