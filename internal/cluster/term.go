package cluster

import "slices"

// Term identifies the time in which one node leads. A later term has a greater Number. Leader is
// random, so that two nodes that choose the same Number have different terms.
type Term struct {
	Number uint64
	Leader uint64
}

// RowID identifies a row by its position and by the term in which it was numbered. Two logs of an
// epoch that have a row with the same RowID have the same rows up to it.
type RowID struct {
	Term     Term
	Position uint64
}

// Start is the beginning of a term: its rows have positions after After.
type Start struct {
	Term  Term
	After uint64
}

// History lists the terms of an epoch, in their order. The rows of a term end where the next one
// begins, so a term may have no rows.
type History struct {
	Epoch  string
	Starts []Start
}

// maxStarts limits the terms of a history. Older ones are dropped.
const maxStarts = 4096

// At returns the term that numbered the row at a position. It returns the newest term for a
// position after the newest row, and the zero Term for one before the first term.
func (h *History) At(position uint64) Term {
	for _, s := range slices.Backward(h.Starts) {
		if s.After < position {
			return s.Term
		}
	}
	return Term{}
}

// Newest returns the newest term.
func (h *History) Newest() Term {
	if len(h.Starts) == 0 {
		return Term{}
	}
	return h.Starts[len(h.Starts)-1].Term
}

// Has reports whether the rows up to a row belong to the history.
func (h *History) Has(r RowID) bool { return h.At(r.Position) == r.Term }

// begun reports whether a term is one of the history.
func (h *History) begun(t Term) bool {
	return t == h.Newest() || slices.ContainsFunc(h.Starts, func(s Start) bool { return s.Term == t })
}

// base returns the position after which the newest term begins.
func (h *History) base() uint64 {
	if len(h.Starts) == 0 {
		return 0
	}
	return h.Starts[len(h.Starts)-1].After
}

// until returns the history of the rows up to a position. Terms without such rows are left out,
// except for the one that began the epoch: a node does not return to the epoch before.
func (h *History) until(position uint64) History {
	n := len(h.Starts)
	for n > 1 && h.Starts[n-1].After >= position {
		n--
	}
	return History{Epoch: h.Epoch, Starts: slices.Clone(h.Starts[:n])}
}

// begin returns the history of the rows up to a position, and a term that begins there.
func (h *History) begin(t Term, after uint64) History {
	next := h.until(after)
	next.Starts = append(next.Starts, Start{t, after})
	if len(next.Starts) > maxStarts {
		next.Starts = next.Starts[len(next.Starts)-maxStarts:]
	}
	return next
}

// clone returns a copy.
func (h *History) clone() History { return History{h.Epoch, slices.Clone(h.Starts)} }
