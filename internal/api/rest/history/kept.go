package history

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/data/export"
	"github.com/ruedahq/rueda/internal/engine/journal"
)

// addNotKept adds an entry about rows that are no longer kept to the lost rows of a query's first
// page. It does so only if the query begins before the rows that are kept, and otherwise reads
// nothing.
func (h *Routes) addNotKept(ctx context.Context, q *query, p *page, found *journal.Found, limit *horizon) error {
	oldest, ok, err := h.mayLackOldest(ctx, q)
	if err != nil || !ok {
		return err
	}
	k, err := h.keptOf(ctx, q, oldest, found, limit)
	if err != nil {
		return err
	}
	l := export.Range{End: k.time}
	switch {
	case k.time != 0 && k.time < q.start:
		return nil
	case k.before > q.after:
		l.From, l.To = q.after+1, k.before
		others, err := found.Lost(ctx, journal.Range{Epoch: oldest, AfterN: q.after, ToN: l.To})
		if err != nil || len(others) > 0 && others[0].From == l.From { // they are listed as missing
			return err
		}
		if len(others) > 0 {
			l.To = others[0].From - 1
		}
	case q.epoch != "" || q.instrument.VirtualClock || h.journal.FirstSegment() <= 1:
		return nil // there were none, as far as is known
	}
	if p.rows == 0 && p.next == nil && len(p.lost) == 0 {
		p.epoch = oldest
	}
	if p.epoch != oldest {
		l.From, l.To = 0, 0
	}
	p.lost = slices.Insert(p.lost, 0, l)
	return nil
}

// mayLackOldest returns the oldest epoch from which a query may want rows. ok is false if the query
// certainly wants no row older than those that are kept.
func (h *Routes) mayLackOldest(ctx context.Context, q *query) (epoch string, ok bool, err error) {
	all := h.journal.Epochs()
	switch {
	case q.continues, q.start == 0 && !q.since, h.waitsForDays(), len(all) == 0:
		return "", false, nil
	case q.since && q.after+1 >= h.journal.Oldest(q.series):
		return "", false, nil
	}
	epoch = all[0]
	if q.epoch != "" {
		epoch = q.epoch
	}
	if q.start == 0 || epoch != all[0] || q.instrument.VirtualClock {
		return epoch, true, nil
	}
	ok, err = h.beforeKept(ctx, q.start)
	return epoch, ok, err
}

// beforeKept reports whether rows that were published at start (Unix ns) or later are no longer
// kept. Days are removed as a whole, so this holds for times before the oldest day. It also holds
// for times before the first row of the oldest day if the beginning of that day is missing.
func (h *Routes) beforeKept(ctx context.Context, start int64) (bool, error) {
	days, first := h.journal.Days(), h.journal.FirstSegment()
	if len(days) == 0 || start >= days[0].From {
		return false, nil
	}
	if t, err := time.Parse(time.DateOnly, days[0].Date); err != nil || start < t.UnixNano() {
		return true, nil
	}
	if known := h.oldestDay.Load(); known != nil && known.first == first {
		return known.beginningMissing, nil
	}
	missing, err := export.BeginningMissing(ctx, h.journal.Archive)
	if err == nil {
		h.oldestDay.Store(&oldestDay{first, missing})
	}
	return missing, err
}

// oldestDay caches whether the beginning of the oldest day is missing.
type oldestDay struct {
	first            uint32 // number of its first segment
	beginningMissing bool
}

// kept states where the rows of a series begin that a user may see.
type kept struct {
	before uint64 // N before the first row of an epoch; 0: there is none, or it is not known
	time   int64  // event time of the first row of any epoch; 0: there is none
}

// keptOf returns where the rows in found begin that the user may see. epoch is the oldest epoch
// that may have such rows.
func (h *Routes) keptOf(ctx context.Context, q *query, epoch string, found *journal.Found, limit *horizon) (k kept, err error) {
	begins := false
	err = found.Read(ctx, journal.Range{SkipDamage: true}, func(of string, row *journal.Row) bool {
		if !limit.hides(of, row) {
			k.time = row.Time
			if begins = of == epoch; begins {
				k.before = row.N - 1
			}
		}
		return false
	})
	if err == nil && !begins && epoch == h.journal.Epoch() {
		k.before, err = h.visible(ctx, q, h.journal.Oldest(q.series)-1, found, limit)
	}
	return k, err
}

// limitComplete reduces completeFrom of a query so that it reveals nothing that a user of delayed
// data may not know yet.
func (h *Routes) limitComplete(ctx context.Context, q *query, found *journal.Found, limit *horizon) error {
	if q.completeFrom <= 1 {
		return nil
	}
	n, err := h.visible(ctx, q, q.completeFrom-1, found, limit)
	if n+1 != q.completeFrom {
		q.completeFrom, q.tag = n+1, ""
	}
	return err
}

// visible returns n, or the newest N of the current epoch that a user of delayed data may know if
// that is lower. It returns 0 if that N is unknown. The rows up to n are lost or no longer kept.
func (h *Routes) visible(ctx context.Context, q *query, n uint64, found *journal.Found, limit *horizon) (uint64, error) {
	if q.delay == 0 || n == 0 {
		return n, nil
	}
	epoch, newest := h.journal.Epoch(), uint64(0)
	see := func(row *journal.Row) {
		if !limit.hides(epoch, row) {
			newest = row.N
		}
	}
	err := found.Read(ctx, journal.Range{Epoch: epoch, AfterN: n, SkipDamage: true}, func(_ string, row *journal.Row) bool {
		see(row)
		return false
	})
	if newest == 0 && err == nil {
		err = found.Read(ctx, journal.Range{Epoch: epoch, ToN: n, Reverse: true, SkipDamage: true}, func(_ string, row *journal.Row) bool {
			see(row)
			return newest == 0
		})
	}
	if newest > 0 || err != nil {
		return min(n, newest), err
	}
	days := h.journal.Days()
	if len(days) == 0 || h.journal.Epochs()[0] != epoch || h.journal.Complete() > h.journal.Begins() {
		return 0, nil
	}
	if first := (journal.Row{At: days[0].From, Position: h.journal.Begins() + 1}); limit.hides(epoch, &first) {
		return 0, nil
	}
	return n, nil // the rows up to n were published before the first one that is kept
}

// addBeginning adds to a page what the user may know about rows that are no longer kept: the entry
// of addNotKept, and the limit of completeFrom.
func (h *Routes) addBeginning(ctx context.Context, q *query, p *page, found *journal.Found, limit *horizon) error {
	err := h.addNotKept(ctx, q, p, found, limit)
	if err == nil {
		err = h.limitComplete(ctx, q, found, limit)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return api.ErrGone
	case err != nil:
		return fmt.Errorf("find the beginning of the %s of %s: %w", q.list, q.series.Instrument, err)
	}
	return nil
}
