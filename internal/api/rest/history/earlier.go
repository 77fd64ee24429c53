package history

import (
	"math"
	"slices"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/wire"
)

// absence says which rows of a series are in days that the journal of a new node of a cluster does
// not have yet.
type absence struct {
	until  int64  // rows before this time, Unix ns; 0: none; math.MaxInt64: of any time
	epoch  string // the newest one
	oldest uint64 // of the newest epoch, rows before this N
}

// absentRows returns which rows of a query are missing. Call it before the rows are read: days may
// be added at any time.
func (h *Routes) absentRows(q *query) absence {
	return absence{until: h.journal.EarlierUntil(q.instrument.VirtualClock), epoch: h.journal.Epoch(), oldest: h.journal.Oldest(q.series)}
}

// waitsForDays reports whether earlier days are still to be added to the journal.
func (h *Routes) waitsForDays() bool { return len(h.journal.Earlier()) > 0 }

// hides reports whether rows of a page may be among the missing ones.
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

// hasEarlier reports whether a date is one of the days that are still to be added.
func (h *Routes) hasEarlier(date string) bool {
	return slices.ContainsFunc(h.journal.Earlier(), func(d journal.EarlierDay) bool { return d.Date == date })
}

// notYet returns the fault of a request for missing rows. Requests with a start at a time, Unix ns,
// or later are served; 0 or math.MaxInt64: that is not known.
func notYet(until int64) *wire.Fault {
	hint := "Ask again: another server may have them"
	if until != 0 && until != math.MaxInt64 {
		hint += "; this one serves requests with a start from " + string(wire.AppendTime(nil, until)) + " on"
	}
	return &wire.Fault{
		Reason: wire.Unavailable, Msg: "This server is new and does not have all earlier days yet", Hint: hint, RetryAfter: 1,
	}
}
