package cluster

import (
	"errors"
	"testing"
)

// TestStateOfCopy checks the state with which a new node follows the log: the messages from the
// begin of the copy, with the terms of its end.
func TestStateOfCopy(t *testing.T) {
	t.Parallel()
	one, two, other := Term{1, 5}, Term{2, 6}, Term{2, 9}
	before := State{History: History{"e", []Start{{one, 0}}}, Position: 100, Seq: 40, ID: ID{one, 7}, Stream: 100, Highest: 1}
	after := State{History: History{"e", []Start{{one, 0}, {two, 120}}}, Position: 150, Seq: 60, Highest: 3}
	s, err := StateOfCopy(before, after)
	if err != nil || s.Position != 100 || s.Seq != 40 || s.ID != before.ID || s.History.Newest() != two || s.Highest != 3 || !s.Gaps {
		t.Fatalf("%+v, %v", s, err)
	}
	// The journal of the copy has rows of the second term.
	n := NewNode(Config{Cluster: "c", Name: "new", Shows: true, Random: func() uint64 { return 1 }}, s, Journal{"e", 140, true})
	if got, ok := n.State(); !ok || got.Position != 140 || got.Seq != 40 || n.follower.rowID() != (RowID{two, 140}) {
		t.Errorf("%+v, %v", got, ok)
	}
	if r := (Fetch{Epoch: "e", After: RowID{two, 130}}); !n.Serves(r) {
		t.Error("the node does not serve rows of the copy")
	}
	for name, after := range map[string]State{
		"another epoch":       {History: History{"f", []Start{{one, 0}}}},
		"rows were lost":      {History: History{"e", []Start{{one, 0}, {other, 90}}}},
		"no term":             {History: History{Epoch: "e"}},
		"terms without order": {History: History{"e", []Start{{one, 0}, {two, 150}, {two, 140}}}},
	} {
		if s, err := StateOfCopy(before, after); !errors.Is(err, ErrMoved) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	if _, ok := NewNode(Config{Random: func() uint64 { return 1 }}, State{}, Journal{}).State(); ok {
		t.Error("the journal of a node that knows no log may be copied")
	}
}

// TestCopyIsProven checks that a node shows the rows of a copy only when the log has reached their
// end, and drops them if a later leader did not have them.
func TestCopyIsProven(t *testing.T) {
	t.Parallel()
	one, two := Term{1, 5}, Term{2, 6}
	begin := func(t *testing.T) *bench {
		h := History{"e", []Start{{one, 0}}}
		s, err := StateOfCopy(State{History: h, Position: 100, Stream: 100}, State{History: h, Position: 150})
		if err != nil {
			t.Fatal(err)
		}
		b := &bench{t: t}
		b.node = NewNode(Config{Cluster: "c", Name: "new", Shows: true, Random: func() uint64 { return 6 }}, s, Journal{"e", 140, true})
		b.do(Connected{})
		b.do(Registered{Number: 1})
		b.do(Attached{First: 1, Last: 1})
		return b
	}
	send := func(b *bench, x Batch) {
		x.Cluster, x.Epoch, x.First, x.Final = "c", "e", true, true
		b.seq++
		b.do(Received{b.seq, AppendBatch(nil, &x)})
	}
	heartbeat := func(b *bench, number, last uint64) {
		send(b, Batch{ID: ID{one, number}, Kind: NewRows, Prev: last, Last: last})
	}
	t.Run("the log reaches the end of the copy", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		heartbeat(b, 1, 139)
		if b.node.shown.Allowed || b.node.Report().Shows {
			t.Fatal("the node shows the copy before the log has confirmed it")
		}
		heartbeat(b, 2, 140)
		if s := of[Show](b); !s.Allowed || !b.node.Report().Shows {
			t.Errorf("%+v", s)
		}
	})
	t.Run("the log has lost the end of the copy", func(t *testing.T) {
		t.Parallel()
		b := begin(t)
		send(b, Batch{ID: ID{Term: two}, Kind: TermRow, Prev: 120, Last: 120, History: History{"e", []Start{{one, 0}, {two, 120}}}})
		if e := of[BeginEpoch](b); e.Epoch != "e" || e.Position != 0 || b.node.Status().Diverged {
			t.Errorf("%+v, diverged %v", e, b.node.Status().Diverged)
		}
	})
}
