package history

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/engine/journal"
)

// settle sets the completeFrom and the tag of a query, which are known before rows are read.
func (h *Routes) settle(req *api.Request, q *query) {
	q.completeFrom = h.journal.Oldest(q.series)
	if h.waitsForDays() {
		q.completeFrom = 1 // a page with missing rows is refused
	}
	q.tag = h.settledTag(req, q)
}

// settledTag returns an entity tag for a page whose rows are certainly final, and "" for any other
// page. Such rows are of closed days, and enough time has passed for late rows to be published.
func (h *Routes) settledTag(req *api.Request, q *query) string {
	days := h.journal.Days()
	from, until := closedDays(days)
	if h.waitsForDays() {
		return "" // the page has no complete_from
	}
	if q.start == 0 || q.end == 0 || q.start < from || q.end > until || days[len(days)-1].To < q.publishedBy() || h.hidden(q, q.publishedBy()) {
		return ""
	}
	sum := q.fingerprint()
	b := append([]byte(req.Media), sum[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(q.limit))
	b = binary.LittleEndian.AppendUint64(b, uint64(q.delay))
	b = binary.LittleEndian.AppendUint64(b, q.at.n)
	b = binary.LittleEndian.AppendUint64(b, q.completeFrom)
	b = append(b, q.at.epoch...)
	for _, d := range days {
		t, err := time.Parse(time.DateOnly, d.Date)
		if err == nil && t.UnixNano() < q.end && t.AddDate(0, 0, 1).UnixNano() > q.start {
			b = append(append(b, 0), d.Hash...)
		}
	}
	whole := sha256.Sum256(b)
	return api.QuoteTag(whole[:])
}

// closedDays returns the range of publication time, in Unix ns, in which no more rows are
// published. It returns 0, 0 if there is none. It ignores a day after the newest day, which comes
// from a wrong clock.
func closedDays(days []journal.Day) (from, until int64) {
	for _, d := range days {
		t, err := time.Parse(time.DateOnly, d.Date)
		if err != nil || !d.Closed {
			break
		}
		if d.Date > days[len(days)-1].Date {
			continue
		}
		if from == 0 {
			from = t.UnixNano()
		}
		until = t.AddDate(0, 0, 1).UnixNano()
	}
	return from, until
}

// How long after its event time a row may be published. Days are closed by publication time, while
// a query selects rows by event time. Package export waits for lateRows too. Bars may be revised
// later: a trading day that begins just before the end of the query lasts up to 25 hours, and its
// bars may be revised for another hour.
const (
	lateRows = time.Minute
	lateBars = 26*time.Hour + lateRows
)

// publishedBy returns the time at which all rows of a query are published, in Unix ns, unless a
// market reports much older events. The query must have an end.
func (q *query) publishedBy() int64 {
	if q.series.Channel == journal.Bars {
		return q.end + int64(lateBars)
	}
	return q.end + int64(lateRows)
}

// hidden reports whether the user's delay may hide rows that were published up to until (Unix ns).
func (h *Routes) hidden(q *query, until int64) bool {
	return q.delay > 0 && (q.instrument.VirtualClock || until > h.hub.Present()-int64(seconds(q.delay)))
}

// fullAndClosed reports whether a page is final although settledTag returned "": it begins at a
// fixed row, is full, and has only rows of closed days.
func (h *Routes) fullAndClosed(q *query, p *page) bool {
	if h.waitsForDays() {
		return false
	}
	from, until := closedDays(h.journal.Days())
	fixed := q.start >= from && q.start > 0 || q.continues || q.since
	return !q.desc && fixed && p.next != nil && p.last.at < until && from > 0
}

// setCaching sets the Cache-Control of a page. If settled is true, its rows are final, and caches
// may keep the page. A page by after_sequence without an epoch is never kept, because the next
// epoch has other rows with the same numbers. A cursor contains its epoch.
func setCaching(req *api.Request, q *query, settled bool) {
	if settled && (!q.since || q.named || q.continues) {
		setImmutable(req)
		return
	}
	req.Out.Set("Cache-Control", "private, no-cache")
}

// setImmutable lets caches keep an answer for a week. The answer stays the same while the journal
// keeps its days.
func setImmutable(req *api.Request) {
	req.Out.Set("Cache-Control", "private, max-age=604800, immutable")
	req.Out.Add("Vary", "Authorization")
}
