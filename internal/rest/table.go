package rest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/ruedahq/rueda/internal/export"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/recent"
	"github.com/ruedahq/rueda/wire"
)

// tables are the media types of rows.
func tables() []string { return []string{mediaJSON, mediaCSV, mediaLines} }

// sheet is rows of history in the form of an answer. Its body is what becomes of up to maxRows rows: some
// megabytes at most.
type sheet struct {
	x     *history
	media string
	ident wire.Ident

	body  []byte
	rows  int
	epoch string // of the rows
	last  rowMark
	next  *place    // nil: there are no more
	sum   hash.Hash // of the rows
}

// bytesARow is what a row takes in an answer, or a little more.
const bytesARow = 192

// rowMark is what is kept of the row that was added last.
type rowMark struct {
	n  uint64
	at int64
}

func newSheet(q *request, x *history, body []byte) *sheet {
	pg := &sheet{x: x, media: q.media, ident: wire.MakeIdent(x.series.Instrument), body: body, sum: sha256.New()}
	if x.delay > 0 {
		pg.ident = pg.ident.Delayed(int64(x.delay) * int64(time.Second))
	}
	switch pg.media {
	case mediaJSON:
		pg.body = append(pg.body, `{"success":true,"data":{"`...)
		pg.body = append(append(pg.body, x.list...), `":[`...)
	case mediaCSV:
		pg.body = export.AppendCSVHeader(pg.body, x.series.Channel)
	}
	return pg
}

// add appends a row: in JSON and lines the very message that was streamed. To whom the data come late
// they came with another D, which nobody kept: it is left out.
func (pg *sheet) add(epoch string, row *journal.Row) {
	if pg.x.delay > 0 {
		row.Latency = -1
	}
	pg.rows++
	pg.epoch, pg.last = epoch, rowMark{row.N, row.At}
	if pg.media == mediaCSV {
		pg.body = export.AppendCSV(pg.body, pg.x.series.Instrument, epoch, row, pg.x.delay == 0)
		return
	}
	if pg.media == mediaJSON && pg.rows > 1 {
		pg.body = append(pg.body, ',')
	}
	pg.body = recent.AppendRow(pg.body, pg.ident, row)
	if pg.media == mediaLines {
		pg.body = append(pg.body, '\n')
	}
}

// finish makes the answer of a page that was filled.
func (h *Handler) finish(q *request, x *history, pg *sheet) result {
	cursor := ""
	if pg.next != nil {
		cursor = x.cursor(*pg.next)
		q.out.Set("Link", "<"+nextPage(q.URL, cursor)+`>; rel="next"`)
	}
	if pg.epoch == "" {
		pg.epoch = h.cfg.Journal.Epoch()
	}
	rows := len(pg.body)
	if pg.media == mediaJSON {
		pg.body = append(pg.body, `],"epoch":`...)
		pg.body = wire.AppendString(pg.body, pg.epoch)
		if n := x.whole; n > 1 && pg.epoch == h.cfg.Journal.Epoch() {
			pg.body = strconv.AppendUint(append(pg.body, `,"complete_from":`...), n, 10)
		}
		if cursor != "" {
			pg.body = append(append(append(pg.body, `,"next_cursor":"`...), cursor...), '"')
		}
		pg.body = append(pg.body, "}}\n"...)
	}
	q.out.Set("Content-Type", contentType(q.media))
	tag, settled := x.tag, x.tag != ""
	if !settled {
		_, _ = pg.sum.Write(pg.body[rows:])
		tag = entityTag(pg.sum.Sum(nil))
	}
	q.caching(x, settled || h.fullAndClosed(x, pg))
	return q.tagged(tag, result{status: http.StatusOK, raw: pg.body})
}

// contentType is a media type as it stands in an answer.
func contentType(media string) string {
	if media == mediaCSV {
		return mediaCSV + "; charset=utf-8; header=present" // RFC 4180, section 3
	}
	return media
}

// nextPage is the same query with a cursor.
func nextPage(u *url.URL, cursor string) string {
	query := u.Query()
	query.Set("cursor", cursor)
	return u.Path + "?" + query.Encode()
}

// immutable says that an answer will be the same for as long as the journal has its days.
func (q *request) immutable() {
	q.out.Set("Cache-Control", "private, max-age=604800, immutable")
	q.out.Add("Vary", "Authorization")
}

// caching tells caches what they may do with a page. settled says that its rows stay what they are.
func (q *request) caching(x *history, settled bool) {
	if settled && x.lasting() {
		q.immutable()
		return
	}
	q.out.Set("Cache-Control", "private, no-cache")
}

// lasting says that a question means the same rows in the next epoch, or is refused there. Numbers without an epoch
// are of the present one, whichever that is; a cursor has its epoch in it.
func (x *history) lasting() bool { return !x.since || x.named || x.onwards }

// How long after the end of a span its rows may be published: days are closed by publication, and a question is by
// event time. lateRows is what package export waits for (late in export.go). Bars take longer than it waits for, since
// a bar may be revised after it is in a file: a trading day that begins just before the end is over a day later, or 25
// hours where the clocks go back, and its bars are revised for an hour more.
const (
	lateRows = int64(time.Minute)
	lateBars = int64(26*time.Hour) + lateRows
)

// over is when all that a question with an end asks for was published, unless a market reports with a time of long ago.
func (x *history) over() int64 {
	if x.series.Channel == journal.Bars {
		return x.end + lateBars
	}
	return x.end + lateRows
}

// closedDays is from when until when the journal is closed: nothing is published there any more. 0, 0: nowhere. A day
// later than the newest one is of a clock that was wrong.
func closedDays(days []journal.Day) (from, until int64) {
	for _, d := range days {
		t, err := time.Parse(dateFormat, d.Date)
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

// settle notes what is known of a page before it is read.
func (h *Handler) settle(q *request, x *history) {
	x.whole = h.cfg.Journal.Oldest(x.series)
	x.tag = h.settledTag(q, x)
}

// settledTag is the entity tag of a page that can be told to have all its rows before any of them is read: it is of
// closed days, and what was published last came after all that could be late.
func (h *Handler) settledTag(q *request, x *history) string {
	days := h.cfg.Journal.Days()
	from, until := closedDays(days)
	if x.start == 0 || x.end == 0 || x.start < from || x.end > until || days[len(days)-1].To < x.over() || x.delayed(x.over()) {
		return ""
	}
	sum := x.question()
	b := append([]byte(q.media), sum[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(x.limit))
	b = binary.LittleEndian.AppendUint64(b, uint64(x.delay))
	b = binary.LittleEndian.AppendUint64(b, x.at.n)
	b = binary.LittleEndian.AppendUint64(b, x.whole)
	b = append(b, x.at.epoch...)
	for _, d := range days {
		t, err := time.Parse(dateFormat, d.Date)
		if err == nil && t.UnixNano() < x.end && t.AddDate(0, 0, 1).UnixNano() > x.start {
			b = append(append(b, 0), d.Hash...)
		}
	}
	whole := sha256.Sum256(b)
	return entityTag(whole[:])
}

// entityTag returns the entity tag for a SHA-256 of an answer.
func entityTag(sum []byte) string { return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"` }

// fullAndClosed says that a page which was not settled beforehand is: it begins at a place that
// stays and is full of rows of closed days.
func (h *Handler) fullAndClosed(x *history, pg *sheet) bool {
	from, until := closedDays(h.cfg.Journal.Days())
	begins := x.start >= from && x.start > 0 || x.onwards || x.since
	return !x.desc && begins && pg.next != nil && pg.last.at < until && from > 0
}

// delayed says that what was told up to a time is not for the user yet.
func (x *history) delayed(until int64) bool {
	return x.delay > 0 && (x.def.VirtualClock || until > time.Now().UnixNano()-int64(x.delay)*int64(time.Second))
}
