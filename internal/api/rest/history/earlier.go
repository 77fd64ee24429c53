package history

import (
	"math"
	"slices"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/wire"
)

// absence describes the rows of a series that a new node of a cluster does not have yet, because
// their days are still to be copied.
type absence struct {
	until  int64  // rows before this time (Unix ns) may be absent; 0: none are; math.MaxInt64: the time is unknown
	epoch  string // newest epoch of the journal
	oldest uint64 // rows of that epoch below this N may be absent
}

// absentRows returns which rows of a query the node does not have yet. Call it before the rows are
// read, because days may be added at any time.
func (h *Routes) absentRows(q *query) absence {
	return absence{until: h.journal.EarlierUntil(q.instrument.VirtualClock), epoch: h.journal.Epoch(), oldest: h.journal.Oldest(q.series)}
}

// waitsForDays reports whether days are still to be copied to the journal of this new node.
func (h *Routes) waitsForDays() bool { return len(h.journal.Earlier()) > 0 }

// hides reports whether the page may lack rows that the node does not have yet.
func (a *absence) hides(q *query, p *page) bool {
	continues := q.continues && !q.desc && q.at.epoch == a.epoch
	switch {
	case a.until == 0, q.start >= a.until, q.desc && p.next != nil:
		return false
	case !continues:
		return q.epoch != a.epoch || q.after+1 < a.oldest
	}
	return max(q.after, q.at.n)+1 < a.oldest
}

// hasEarlier reports whether the day with a date is still to be copied.
func (h *Routes) hasEarlier(date string) bool {
	return slices.ContainsFunc(h.journal.Earlier(), func(d journal.EarlierDay) bool { return d.Date == date })
}

// notYet returns the fault for a request whose rows the node does not have yet. The node can serve
// requests with a start at until (Unix ns) or later; 0 and math.MaxInt64 mean that this time is
// unknown.
func notYet(until int64) *wire.Fault {
	hint := "Ask again: another server may have them"
	if until != 0 && until != math.MaxInt64 {
		hint += "; this one serves requests with a start from " + string(wire.AppendTime(nil, until)) + " on"
	}
	return &wire.Fault{
		Reason: wire.Unavailable, Msg: "This server is new and does not have all earlier days yet", Hint: hint, RetryAfter: 1,
	}
}
