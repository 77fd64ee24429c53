package history

import (
	"crypto/sha256"
	"hash"
	"net/http"
	"net/url"
	"strconv"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/data/export"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/recent"
	"github.com/ruedahq/rueda/wire"
)

// page is an answer with rows that is being built. With maxRows rows it takes some megabytes.
type page struct {
	query *query
	media string
	ident wire.Ident

	body  []byte
	rows  int
	epoch string // of the rows
	last  struct {
		n  uint64
		at int64
	} // of the row that was added last
	next *cursor // nil: there are no more rows
	lost []export.Range
	sum  hash.Hash // of the body
}

// bytesPerRow is an estimate of a row's size in an answer. It sets the first capacity of a buffer.
const bytesPerRow = 192

func newPage(req *api.Request, q *query, body []byte) *page {
	p := &page{query: q, media: req.Media, ident: wire.MakeIdent(q.series.Instrument), body: body, sum: sha256.New()}
	if q.delay > 0 {
		p.ident = p.ident.Delayed(int64(seconds(q.delay)))
	}
	switch p.media {
	case api.MediaJSON:
		p.body = append(p.body, `{"success":true,"data":{"`...)
		p.body = append(append(p.body, q.list...), `":[`...)
	case api.MediaCSV:
		p.body = export.AppendCSVHeader(p.body, q.series.Channel)
	}
	return p
}

// add appends a row. In JSON and JSON lines it has the form of the message that was streamed. For
// delayed data the member D is left out, because the D that was streamed at that delay is not
// stored.
func (p *page) add(epoch string, row *journal.Row) {
	if p.query.delay > 0 {
		row.Latency = -1
	}
	p.rows++
	p.epoch, p.last.n, p.last.at = epoch, row.N, row.At
	if p.media == api.MediaCSV {
		p.body = export.AppendCSV(p.body, p.query.series.Instrument, epoch, row, p.query.zone, p.query.delay == 0)
		return
	}
	if p.media == api.MediaJSON && p.rows > 1 {
		p.body = append(p.body, ',')
	}
	p.body = recent.AppendRow(p.body, p.ident, p.query.zone, row)
	if p.media == api.MediaLines {
		p.body = append(p.body, '\n')
	}
}

// finish completes the body of a page, sets the headers, and returns the answer, which is 304 if
// the client has the page.
func (h *Routes) finish(req *api.Request, q *query, p *page) api.Result {
	next := ""
	if p.next != nil {
		next = q.cursorText(*p.next)
		req.Out.Set("Link", "<"+nextPage(req.URL, next)+`>; rel="next"`)
	}
	current := h.journal.Epoch()
	if p.epoch == "" {
		p.epoch = current
	}
	if len(p.lost) > 0 {
		list := export.AppendLost(nil, p.lost, maxLostHeader)
		req.Out.Set(lostHeader, string(list))
		_, _ = p.sum.Write(list)
	}
	hashed := len(p.body)
	if p.media == api.MediaJSON {
		p.body = append(p.body, `],"epoch":`...)
		p.body = wire.AppendString(p.body, p.epoch)
		if n := q.completeFrom; n > 1 && p.epoch == current {
			p.body = strconv.AppendUint(append(p.body, `,"complete_from":`...), n, 10)
		}
		if len(p.lost) > 0 {
			p.body = export.AppendLost(append(p.body, `,"lost":`...), p.lost, 0)
		}
		if next != "" {
			p.body = append(append(append(p.body, `,"next_cursor":"`...), next...), '"')
		}
		p.body = append(p.body, "}}\n"...)
	}
	req.Out.Set("Content-Type", contentType(p.media))
	tag, settled := q.tag, q.tag != ""
	if !settled {
		_, _ = p.sum.Write(p.body[hashed:])
		tag = api.QuoteTag(p.sum.Sum(nil))
	}
	setCaching(req, q, len(p.lost) == 0 && (settled || h.fullAndClosed(q, p)))
	return req.Tagged(tag, api.Result{Status: http.StatusOK, Raw: p.body})
}

// contentType returns the value of Content-Type for a media type.
func contentType(media string) string {
	if media == api.MediaCSV {
		return api.MediaCSV + "; charset=utf-8; header=present" // RFC 4180, section 3
	}
	return media
}

// nextPage returns the path and query of u with the parameter cursor replaced.
func nextPage(u *url.URL, cursor string) string {
	values := u.Query()
	values.Set("cursor", cursor)
	return u.Path + "?" + values.Encode()
}
