package history

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Default and maximum number of rows of a page.
const (
	defaultRows = 1000
	maxRows     = 10_000
)

// query selects rows of one series: which rows, in which order, and where the page begins.
type query struct {
	path       string // of the route
	list       string // name of the rows in an answer
	series     journal.Series
	instrument market.Instrument // that the series is about
	zone       *time.Location    // of the market of instrument

	delay      int // of the user's data, in seconds
	start, end int64
	after      uint64 // if since is true: only rows of the current epoch above this N
	since      bool
	epoch      string // "": all
	named      bool   // the request has the parameter epoch
	desc       bool
	limit      int
	at         cursor
	continues  bool // at comes from a cursor

	completeFrom uint64 // lowest N of the current epoch from which no row is missing
	tag          string // see settledTag
}

// cursor states where a page begins: after row n of an epoch in the order of the page, or at the
// first row of the epoch if n is 0.
type cursor struct {
	epoch string
	n     uint64
}

// parse reads the parameters of a request into q. It returns an error for a wrong parameter, or if
// the user has no right to the rows.
func (h *Routes) parse(req *api.Request, q *query) error {
	id, f := h.parseInstrument(req.Params, q.series.Channel == journal.Statuses)
	if f != nil {
		return f
	}
	q.series.Instrument = id
	q.instrument, _ = h.hub.Instrument(id)
	q.zone = h.hub.Zone(id.Market)
	channel := streamChannel(q.series)
	if q.series.Channel == journal.Bars {
		channel = wire.Trades // a right to trades includes bars
	}
	used := 0 // delay in seconds, for the report of usage
	if wholeMarket := channel == wire.Status && id.IsPattern(); wholeMarket {
		var ok bool
		if used, ok = req.StatusDelay(id.Market); !ok { // the answer is never delayed
			return req.Deny(entitlement.Ask{ID: id, Channel: channel}, entitlement.Decision{}, "No right to the "+q.list+" of "+id.Market)
		}
	} else {
		ask := entitlement.Ask{ID: id, Channel: channel, Past: true}
		v := req.Right(ask)
		if v.Reason != "" {
			return req.Deny(ask, v, "No right to the "+q.list+" of "+id.Market)
		}
		q.delay, used = v.Delay, v.Delay
	}
	req.Uses(id.Market, channel, used)
	if f := q.parseTimes(req.Params); f != nil {
		return f
	}
	if f := q.parseRows(req.Params); f != nil {
		return f
	}
	return h.parsePosition(req.Params, q)
}

// parseInstrument reads the parameter instrument. If markets is true, it also accepts *|MARKET|*
// for a market that has statuses.
func (h *Routes) parseInstrument(p api.Params, markets bool) (market.InstrumentID, *wire.Failure) {
	id, err := market.ParsePattern(p.Get("instrument"))
	if err == nil && markets && id.Symbol == market.Any && id.Term == market.Any && id.Market != market.Any {
		if _, ok := h.hub.MarketStatus(id.Market); ok {
			return id, nil
		}
		return id, wire.NewFailure(wire.UnknownInstrument, "instrument", "names a market without statuses")
	}
	id, f := p.Instrument(h.hub)
	if f == nil {
		f = api.CheckListed(h.hub, "instrument", []market.InstrumentID{id})
	}
	return id, f
}

// parseTimes reads the parameters start and end. end must be after start.
func (q *query) parseTimes(p api.Params) (f *wire.Failure) {
	if q.start, f = parseTime(p, "start", q.zone); f != nil {
		return f
	}
	if q.end, f = parseTime(p, "end", q.zone); f != nil {
		return f
	}
	if q.end != 0 && q.end <= q.start {
		f := wire.NewFailure(wire.BadField, "end", "must be after start")
		if q.end == q.start {
			f.Hint = "end is exclusive: for a whole day, write the next day"
		}
		return f
	}
	return nil
}

// parseTime returns the time in a parameter as Unix nanoseconds, or 0 without the parameter. The
// time may be in RFC 3339, a date for the start of that trading day in zone, or Unix nanoseconds
// from 1973 on.
func parseTime(p api.Params, name string, zone *time.Location) (int64, *wire.Failure) {
	text := p.Get(name)
	if text == "" {
		return 0, nil
	}
	if n, err := strconv.ParseUint(text, 10, 63); err == nil && n >= leastUnix {
		return int64(n), nil
	} else if err == nil {
		f := wire.NewFailure(wire.BadField, name, "must be in Unix nanoseconds, from 1973 on")
		f.Hint = unixHint(int64(n))
		return 0, f
	}
	ns, err := wire.ParseTime(text)
	if date, bad := market.ParseDate(text); bad == nil {
		ns, err = date.Start(zone).UnixNano(), nil
	}
	if err != nil || ns <= 0 {
		f := wire.NewFailure(wire.BadField, name, "must be a time like 2026-11-20T14:30:00Z, a date, or Unix nanoseconds")
		if strings.Contains(text, " ") { // a query decodes + to a space
			f.Hint = "In a query + is written %2B"
		}
		return 0, f
	}
	return ns, nil
}

// leastUnix is the smallest integer that parseTime accepts, a time in March 1973. A smaller integer
// is probably in seconds, milliseconds or microseconds.
const leastUnix = 1e17

// unixHint returns a hint with the time that n stands for in seconds, milliseconds or microseconds.
// It returns "" if n is plausible in none of these units.
func unixHint(n int64) string {
	for _, unit := range []struct {
		name string
		ns   int64
	}{{"seconds", 1e9}, {"milliseconds", 1e6}, {"microseconds", 1e3}} {
		if n >= leastUnix/unit.ns && n <= math.MaxInt64/unit.ns {
			at := time.Unix(0, n*unit.ns).UTC().Format(time.RFC3339Nano)
			return fmt.Sprintf("It looks like Unix %s: write %s, or %d", unit.name, at, n*unit.ns)
		}
	}
	return ""
}

// parseRows reads the parameters limit and order.
func (q *query) parseRows(p api.Params) (f *wire.Failure) {
	if q.limit, f = p.Limit(defaultRows, maxRows); f != nil {
		return f
	}
	switch p.Get("order") {
	case "", "asc":
	case "desc":
		q.desc = true
	default:
		return wire.NewFailure(wire.BadField, "order", "must be asc or desc")
	}
	return nil
}

// parsePosition reads the parameters epoch, after_sequence and cursor. It returns EpochChanged if
// they refer to an epoch that is not available.
func (h *Routes) parsePosition(p api.Params, q *query) error {
	current := h.journal.Epoch()
	q.epoch = p.Get("epoch")
	q.named = q.epoch != ""
	if q.named && q.epoch != current {
		return epochChanged(current)
	}
	if text := p.Get("after_sequence"); text != "" {
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return wire.NewFailure(wire.BadField, "after_sequence", "must be a whole number")
		}
		q.after, q.since, q.epoch = n, true, current
	}
	text := p.Get("cursor")
	if text == "" {
		return nil
	}
	if q.at, q.continues = q.parseCursor(text); !q.continues {
		return api.BadCursor()
	}
	if waits := h.waitsForDays(); waits && !slices.Contains(h.journal.Epochs(), q.at.epoch) {
		return notYet(0)
	}
	if !slices.Contains(h.journal.Epochs(), q.at.epoch) || q.epoch != "" && q.at.epoch != q.epoch {
		return epochChanged(current)
	}
	return nil
}

// epochChanged returns the fault for a request whose epoch, sequence number or cursor is no longer
// valid.
func epochChanged(current string) *wire.Fault {
	return &wire.Fault{Reason: wire.EpochChanged, Msg: "The epoch is " + current, Hint: "Ask again without epoch, after_sequence and cursor"}
}

// epochs returns the epochs from which the page may have rows, in the order of the page. all lists
// the epochs of the journal, the oldest first.
func (q *query) epochs(all []string) []string {
	if q.epoch != "" {
		return []string{q.epoch}
	}
	list := slices.Clone(all)
	if q.desc {
		slices.Reverse(list)
	}
	switch i := slices.Index(list, q.at.epoch); {
	case q.continues && i >= 0:
		list = list[i:]
	case q.continues && q.desc: // that epoch was removed, and so were the older ones
		list = nil
	}
	return list
}

// rangeIn returns the range of rows to read from an epoch. ok is false if there are none.
func (q *query) rangeIn(epoch string) (r journal.Range, ok bool) {
	r = journal.Range{Epoch: epoch, Start: q.start, End: q.end, Reverse: q.desc, AfterN: q.after}
	if !q.continues || epoch != q.at.epoch || q.at.n == 0 {
		return r, true
	}
	if !q.desc {
		r.AfterN = max(r.AfterN, q.at.n)
		return r, true
	}
	r.ToN = q.at.n - 1
	return r, r.ToN > r.AfterN
}

// A cursor is sent as base64 of a format byte, the fingerprint of its query, N as a varint, and the
// epoch.
const (
	cursorFormat     = 'h'
	fingerprintBytes = 8
)

// fingerprint returns a hash of what selects and orders the rows of a query. It does not depend on
// the limit, so that a client may change the limit between pages.
func (q *query) fingerprint() (sum [fingerprintBytes]byte) {
	b := append([]byte(q.path), 0)
	b = append(q.series.Instrument.Append(b), 0, byte(q.series.Channel), byte(q.series.Interval))
	b = binary.LittleEndian.AppendUint64(b, uint64(q.start))
	b = binary.LittleEndian.AppendUint64(b, uint64(q.end))
	b = binary.LittleEndian.AppendUint64(b, q.after)
	b = strconv.AppendBool(strconv.AppendBool(b, q.since), q.desc)
	b = append(b, q.epoch...)
	whole := sha256.Sum256(b)
	copy(sum[:], whole[:])
	return sum
}

// cursorText encodes a cursor of this query for the client.
func (q *query) cursorText(at cursor) string {
	sum := q.fingerprint()
	b := append([]byte{cursorFormat}, sum[:]...)
	b = binary.AppendUvarint(b, at.n)
	b = append(b, at.epoch...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// parseCursor decodes a cursor. ok is false if it does not come from a page of the same query.
func (q *query) parseCursor(text string) (at cursor, ok bool) {
	if len(text) > api.MaxCursor {
		return at, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(b) < 1+fingerprintBytes || b[0] != cursorFormat {
		return at, false
	}
	sum := q.fingerprint()
	if string(b[1:1+fingerprintBytes]) != string(sum[:]) {
		return at, false
	}
	n, size := binary.Uvarint(b[1+fingerprintBytes:])
	epoch := b[min(len(b), 1+fingerprintBytes+max(0, size)):]
	if size <= 0 || n >= 1<<63 || len(epoch) == 0 {
		return at, false
	}
	return cursor{epoch: string(epoch), n: n}, true
}
