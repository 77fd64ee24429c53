package history

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/engine/journal"
)

// settle sets the properties of a page that are known before it is read.
func (h *Routes) settle(req *api.Request, q *query) {
	q.completeFrom = h.journal.Oldest(q.series)
	if h.waitsForDays() {
		q.completeFrom = 1 // a page with missing rows is refused
	}
	q.tag = h.settledTag(req, q)
}

// settledTag returns the entity tag of a page whose rows are all known to be final: they are of
// closed days, and the newest row was published later than any late row could be. It returns "" for
// other pages.
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

// closedDays returns the range of time that is closed: no more rows are published in it. 0, 0 means
// none. A day later than the newest one comes from a wrong clock.
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

// The longest time from the event time of a row to its publication: days are closed by publication
// time, and a query is by event time. lateRows is what package export waits for. Bars take longer,
// because they may be revised: a trading day that begins just before the end lasts up to 25 hours
// more, and its bars may be revised for another hour.
const (
	lateRows = time.Minute
	lateBars = 26*time.Hour + lateRows
)

// publishedBy returns when all rows of a query with an end were published, unless a market reports
// much older events.
func (q *query) publishedBy() int64 {
	if q.series.Channel == journal.Bars {
		return q.end + int64(lateBars)
	}
	return q.end + int64(lateRows)
}

// hidden reports whether the user's delay may hide data that was published up to a time.
func (h *Routes) hidden(q *query, until int64) bool {
	return q.delay > 0 && (q.instrument.VirtualClock || until > h.hub.Present()-int64(seconds(q.delay)))
}

// fullAndClosed reports whether a page is final although its query is not settled: it begins at a
// fixed row and is full of rows of closed days.
func (h *Routes) fullAndClosed(q *query, p *page) bool {
	if h.waitsForDays() {
		return false
	}
	from, until := closedDays(h.journal.Days())
	fixed := q.start >= from && q.start > 0 || q.continues || q.since
	return !q.desc && fixed && p.next != nil && p.last.at < until && from > 0
}

// setCaching sets the headers for caches. settled means that the rows of the page are final.
// Numbers without an epoch mean other rows in the next epoch; a cursor contains its epoch.
func setCaching(req *api.Request, q *query, settled bool) {
	if settled && (!q.since || q.named || q.continues) {
		setImmutable(req)
		return
	}
	req.Out.Set("Cache-Control", "private, no-cache")
}

// setImmutable marks an answer that stays the same while the journal has its days.
func setImmutable(req *api.Request) {
	req.Out.Set("Cache-Control", "private, max-age=604800, immutable")
	req.Out.Add("Vary", "Authorization")
}
