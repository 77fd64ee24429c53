package cluster

import (
	"errors"
	"slices"
)

// This file has the state of a node whose journal is a copy of that of another node.

// State returns the state of the node, as the action Save has it. ok reports whether its journal
// may be copied: the node knows the log, and all its rows belong to it.
func (n *Node) State() (s State, ok bool) {
	f := &n.follower
	s = f.State
	s.History = f.History.clone()
	s.Sources = f.listSources()
	return s, len(s.History.Starts) > 0 && !f.diverged && f.History.Has(f.rowID())
}

// StateToSend returns State for another node. If the sources are too many to send, it has none.
func (n *Node) StateToSend() (s State, ok bool) {
	s, ok = n.State()
	s.Sources, s.SourcesAt = sourcesToSend(s.Sources, s.SourcesAt)
	return s, ok
}

// ErrMoved means that the log has changed too much while the journal of a node was copied.
var ErrMoved = errors.New("the log has begun another epoch, or has lost rows, while the journal was copied")

// StateOfCopy returns the state with which a new node follows the log after it has copied the
// journal of another node. before is the state of that node when the last part of the copy began,
// and after is its state when the copy was complete. So the copy has all rows of before, and no
// term that after does not have. The node shows no rows until the log has reached the end of the
// copy: the log may have lost rows of the other node that no node has shown. The error is ErrMoved.
func StateOfCopy(before, after State) (State, error) {
	h := &after.History
	newest := RowID{before.History.At(before.Position), before.Position}
	if len(h.Starts) == 0 || before.History.Epoch != h.Epoch || !h.Has(newest) || !h.ordered() {
		return State{}, ErrMoved
	}
	s := before
	s.History = h.clone()
	s.Sources = slices.Clone(before.Sources)
	s.Highest = max(before.Highest, after.Highest)
	s.Number, s.Registering = 0, false // those of the other node
	s.Gaps = true                      // until the leader has named this node
	s.Unproven = after.Position
	return s, nil
}

// shows reports whether the node has shown its rows, or may show them when it is registered.
func (f *follower) shows() bool { return f.cfg.Shows && f.Unproven == 0 }

// prove notes that the log has the rows of this node up to a position. It reports whether that
// proves the last rows of a copy, so that the state must be stored before they are shown.
func (f *follower) prove(position uint64) (proven bool) {
	if f.Unproven == 0 || position < f.Unproven {
		return false
	}
	f.Unproven = 0
	return true
}
