package verify

import (
	"fmt"
	"slices"

	"github.com/ruedahq/rueda/market"
)

// timeline compares the quotes of an instrument with the top of its book.
//
// A quote that is derived from the book has the time of its book message. It must equal a top of
// the book at that time, or the top before it. The two channels come in either order, so both are
// kept until the book has passed the quote's time. Quotes in auctions are indicative prices and are
// not judged.
//
// Quotes from an independent source have their own times. An instrument is recognised as one or the
// other by its quotes: derived quotes have only times that the book has too. For an independent
// source the book is compared with the quotes: its top must have been quoted within a second. The
// two sources may have different clocks, so a second of receive time is enough too. If more than a
// tenth of the tops were not quoted, the two have nothing to do with each other.
//
// If the time goes back, which is a finding of its own, the repeated times have two books. What
// came before is then judged, and nothing later is compared with it.
//
// If quotes and book changes share one sequence of update ids (Binance), each top of the book must
// equal the newest quote whose id is not above its own.
type timeline struct {
	tops    []entry
	quotes  []entry // not judged yet
	log     []entry // quotes in order of arrival, for an independent source
	locked  uint64  // quotes in continuous trading whose bid and ask are equal
	moved   uint64  // how often the top was another one than before
	movedAt arrival // the second time
	seen    bool    // there was a top
	gap     bool    // the previous state of the next top is unknown
	late    int64   // newest time of a top
	quoted  int64   // newest time of a quote
	began   int64   // time of the first quote since the stream was interrupted; 0: there was none
	span    int64   // newest time before the time went back; 0: it never did
	backAt  arrival // when that was received

	// quotes by the book; the book by quotes, of this and of any source
	derived, unquoted, independent judgement
}

// entry is a best bid and offer with its time.
type entry struct {
	position Position
	at       int64 // its time: T, or in a journal the time of publication
	received arrival
	bid, ask market.Level
	gap      bool // of a top: the previous state is unknown
	moved    bool // of a top: it differs from the one before
}

// judgement holds the results of one of the ways to judge.
type judgement struct {
	judged, wrong, unjudged uint64
	orphans                 uint64    // wrong quotes with times that the book does not have
	pending                 []finding // possible findings that a status may still explain
	findings                []finding
}

type finding struct {
	position Position
	received arrival
	text     string
	orphan   bool
}

const (
	keptEntries        = 2048
	maxPendingFindings = 1024
	window             = int64(1e9)
)

// same reports whether two entries are equal. A source that does not count orders states 0.
func (e *entry) same(x *entry) bool {
	equal := func(a, b market.Level) bool {
		return a.Price == b.Price && a.Size == b.Size && (a.Orders == b.Orders || a.Orders == 0 || b.Orders == 0)
	}
	return equal(e.bid, x.bid) && equal(e.ask, x.ask)
}

func (e *entry) String() string {
	side := func(l market.Level) string {
		if l.Size == 0 {
			return "-"
		}
		if l.Orders > 0 {
			return fmt.Sprintf("%s x %s of %d", l.Price, l.Size, l.Orders)
		}
		return l.Price.String() + " x " + l.Size.String()
	}
	return side(e.bid) + " | " + side(e.ask)
}

// timeOf returns the time of an entry. In a journal it is the time of publication, because the
// clocks of the sources of quotes and books may differ.
func (v *Verifier) timeOf(p Position) int64 {
	if v.published != 0 {
		return v.published
	}
	return p.Time
}

// markGap records that tops of the book are missing up to the next one.
func (t *timeline) markGap() { t.gap = true }

// interrupted records that the stream was interrupted. The quotes of the newest tops may never
// come. Afterwards the quotes begin with the newest one, which may be later than the book.
func (t *timeline) interrupted() {
	t.markGap()
	t.began = 0
}

// back checks whether the time of tops or quotes went back, and starts again if so. again is true
// for a repeated time as long as the other channel may not have gone back yet, because it is then
// unknown which of the two times an entry belongs to.
func (t *timeline) back(in *instrument, at, newest int64) (again bool) {
	if at != 0 && at < newest {
		t.settle(in, true)
		t.span, t.backAt = max(t.span, t.late, t.quoted), in.v.now
		t.late, t.quoted = 0, 0
		t.tops, t.quotes, t.log = t.tops[:0], t.quotes[:0], t.log[:0]
	}
	return t.span > 0 && at <= t.span && !in.v.waited(t.backAt)
}

// top receives the current best levels of the book.
func (t *timeline) top(in *instrument, p Position, bid, ask market.Level) {
	if !in.v.config.UpdateIDs && t.back(in, in.v.timeOf(p), t.late) {
		t.markGap()
		t.independent.unjudged++
		return
	}
	e := entry{position: p, at: in.v.timeOf(p), received: in.v.now, bid: bid, ask: ask, gap: t.gap || !t.seen}
	if n := len(t.tops); n > 0 && !e.gap && !e.same(&t.tops[n-1]) {
		e.moved = true
		if t.moved++; t.moved == 2 {
			t.movedAt = e.received
		}
	}
	t.seen, t.gap = true, false
	if in.v.config.UpdateIDs {
		t.tops = push(t.tops, e)
		t.settleIDs(in, false)
		return
	}
	t.late = max(t.late, e.at)
	t.tops = push(t.tops, e)
	t.settle(in, false)
}

// quote receives a quote.
func (in *instrument) quote(p Position, bids, asks []market.Level) {
	e := entry{position: p, at: in.v.timeOf(p), received: in.v.now}
	if len(bids) > 0 {
		e.bid = bids[0]
	}
	if len(asks) > 0 {
		e.ask = asks[0]
	}
	t := &in.tops
	locked := e.bid.Size > 0 && e.ask.Size > 0 && e.bid.Price == e.ask.Price
	open, known := in.open(p.Time)
	switch {
	case known && !open || in.v.resuming():
		t.derived.unjudged++
		return
	case locked && !known: // it may be the indicative price of an auction
		t.derived.unjudged++
		t.log = push(t.log, e)
		return
	case locked:
		t.locked++
	}
	if !in.v.config.UpdateIDs {
		if t.back(in, e.at, t.quoted) {
			t.derived.unjudged++
			return
		}
		t.quoted = max(t.quoted, e.at)
		if t.began == 0 {
			t.began = e.at
		}
		t.log = push(t.log, e)
	}
	t.quotes = push(t.quotes, e)
	if in.v.config.UpdateIDs {
		t.settleIDs(in, false)
	} else {
		t.settle(in, false)
	}
}

// push appends to a list and drops its older half when it is full.
func push(list []entry, e entry) []entry {
	if len(list) >= keptEntries {
		list = append(list[:0], list[len(list)/2:]...)
	}
	return append(list, e)
}

// cutHead removes the first n entries of a list.
func cutHead(list []entry, n int) []entry {
	if n == 0 {
		return list
	}
	return append(list[:0], list[n:]...)
}

// settle judges the quotes that the book has passed. end judges all of them.
func (t *timeline) settle(in *instrument, end bool) {
	if end {
		t.gap = true // more data of the newest time may be missing
	}
	n := 0
	for n < len(t.quotes) && (t.quotes[n].at < t.late || end && t.quotes[n].at == t.late) {
		t.judgeQuote(in, &t.quotes[n])
		n++
	}
	if end {
		t.derived.unjudged += uint64(len(t.quotes) - n)
	}
	t.quotes = cutHead(t.quotes, n)
	t.forget(in, end)
}

// judgeQuote compares a quote with the tops of its time.
func (t *timeline) judgeQuote(in *instrument, q *entry) {
	var before, of *entry // the previous top, and one of the same time
	gap := t.gap          // later tops are missing, perhaps of the same time
	for i := range t.tops {
		e := &t.tops[i]
		if e.at > q.at {
			gap = e.gap
			break
		}
		if e.at < q.at {
			before = e
			continue
		}
		if e.same(q) {
			t.derived.judged++
			return
		}
		if of = e; e.gap {
			before = nil // the previous state is unknown
		}
	}
	switch {
	case before != nil && before.same(q):
		t.derived.judged++
	case before == nil || gap:
		t.derived.unjudged++
	case of != nil:
		t.derived.suspect(in, finding{q.position, q.received, fmt.Sprintf("the quote is %s, but the top of the book is %s", q, of), false})
	default:
		text := fmt.Sprintf("the quote is %s, but the top of the book is %s since %s", q, before, clock(before.position.Time))
		t.derived.suspect(in, finding{q.position, q.received, text, true})
	}
}

// suspect adds a possible finding, which a later status may explain by an auction.
func (j *judgement) suspect(in *instrument, f finding) {
	if len(j.pending) >= maxPendingFindings {
		j.unjudged++
		return
	}
	j.pending = append(j.pending, f)
	j.confirm(in)
}

// confirm reports the possible findings that have waited long enough, except those during an
// auction.
func (j *judgement) confirm(in *instrument) {
	n := 0
	for ; n < len(j.pending) && in.v.waited(j.pending[n].received); n++ {
		f := &j.pending[n]
		if open, known := in.open(f.position.Time); known && !open {
			j.unjudged++
			continue
		}
		j.judged++
		j.wrong++
		if f.orphan {
			j.orphans++
		}
		if len(j.findings) < in.v.config.Findings {
			j.findings = append(j.findings, *f)
		}
	}
	j.pending = append(j.pending[:0], j.pending[n:]...)
}

// passed returns the time up to which the quotes after a top have come. If they do not come any
// more, it is that of the book.
func (t *timeline) passed(in *instrument, top *entry) int64 {
	if in.v.waited(top.received) && (in.v.published != 0 || in.v.expects("quotes")) {
		return t.late
	}
	return min(t.late, t.quoted)
}

// forget judges the tops that quotes have passed by a window, and drops what is no longer needed.
func (t *timeline) forget(in *instrument, end bool) {
	n := 0
	for n < len(t.tops) {
		e := &t.tops[n]
		passed := t.passed(in, e)
		if !end && (e.at+window >= passed || n+1 == len(t.tops)) {
			break
		}
		last := n+1 == len(t.tops) || t.tops[n+1].at > e.at // of its time
		if last {
			t.judgeTop(in, e, passed, end && !in.v.ending)
		}
		n++
	}
	t.tops = cutHead(t.tops, n)
	if n == 0 || len(t.tops) == 0 {
		return
	}
	old := 0
	for old+1 < len(t.log) && t.log[old+1].before(&t.tops[0], in.v.config.Ordered) {
		old++ // keep the newest of the old quotes, which is still valid
	}
	t.log = cutHead(t.log, old)
}

// before reports whether a quote came more than a window before a top, by each clock that counts:
// the receive time does not if messages are ordered.
func (e *entry) before(top *entry, ordered bool) bool {
	return e.at+window < top.at && (ordered || e.received.at+window < top.received.at)
}

// wasQuoted reports whether a quote equals a top and was valid within a window of it, by one clock.
func (t *timeline) wasQuoted(top *entry, clock func(*entry) int64) bool {
	at := clock(top)
	for i := range t.log {
		q := &t.log[i]
		if clock(q) > at+window {
			return false
		}
		replaced := i+1 < len(t.log) && clock(&t.log[i+1])+window < at
		if !replaced && q.same(top) {
			return true
		}
	}
	return false
}

// quotedAt reports whether there was any quote at a time.
func (t *timeline) quotedAt(at int64) bool {
	return slices.ContainsFunc(t.log, func(q entry) bool { return q.at == at })
}

func eventTime(e *entry) int64   { return e.at }
func receiveTime(e *entry) int64 { return e.received.at }

// judgeTop looks for a quote that equals a top of the book, near its time or valid at it. Where the
// quotes begin or end less than a window away, the top is not judged. back: the time of a channel
// went back after it.
func (t *timeline) judgeTop(in *instrument, e *entry, passed int64, back bool) {
	open, known := in.open(e.position.Time)
	crossed := e.bid.Size > 0 && e.ask.Size > 0 && e.bid.Price >= e.ask.Price
	if len(t.log) == 0 || known && !open || crossed {
		t.independent.unjudged++
		return
	}
	if t.wasQuoted(e, eventTime) {
		t.independent.judged++
		return
	}
	covered, begun := e.at+window <= passed, t.began != 0 && max(t.began, t.log[0].at) <= e.at-window
	if e.moved && !back && covered && begun && !t.quotedAt(e.at) {
		t.unquoted.suspect(in, unquoted(e))
	}
	streamed := !in.v.config.Ordered
	if streamed && t.wasQuoted(e, receiveTime) {
		t.independent.judged++
		return
	}
	if !covered || !begun || streamed && t.log[0].received.at > e.received.at-window {
		t.independent.unjudged++
		return
	}
	t.independent.suspect(in, unquoted(e))
}

func unquoted(e *entry) finding {
	return finding{e.position, e.received, fmt.Sprintf("the top of the book is %s, which was not quoted within a second", e), false}
}

// judgements returns the results of all ways to judge.
func (t *timeline) judgements() [3]*judgement {
	return [...]*judgement{&t.derived, &t.unquoted, &t.independent}
}

// confirm reports the possible findings that have waited long enough.
func (t *timeline) confirm(in *instrument) {
	for _, j := range t.judgements() {
		j.confirm(in)
	}
}

// finish judges the rest and chooses the result that applies.
func (t *timeline) finish(in *instrument) {
	if in.v.config.UpdateIDs {
		t.settleIDs(in, true)
		return
	}
	t.settle(in, true)
	t.confirm(in)
	for _, j := range t.judgements() {
		j.unjudged += uint64(len(j.pending)) // a status may be missing
		j.pending = nil
	}
	j, c := &t.derived, &in.v.checks[Quote]
	if t.own(in) {
		if j = &t.independent; t.locked > 0 {
			in.v.Note("%s: %d quotes are locked; they do not follow from the book", in.id, t.locked)
		}
		if j.wrong*10 > j.judged {
			in.v.Note("%s: quotes and book are of different sources: %d of %d tops of the book were not quoted within a second", in.id, j.wrong, j.judged)
			c.Unjudged += j.judged + j.unjudged
			return
		}
	} else if !in.v.conflated {
		c.Judged += t.unquoted.wrong
		t.unquoted.report(in)
	}
	c.Judged += j.judged
	c.Unjudged += j.unjudged
	j.report(in)
}

// own reports whether the quotes have a source of their own: by the definition, which journals and
// feeds have, or by the times of the quotes.
func (t *timeline) own(in *instrument) bool {
	if in.def != nil && in.v.config.Ordered {
		return in.def.QuotesFromFeed
	}
	return t.derived.orphans*100 > t.derived.judged
}

// report adds the findings to the report.
func (j *judgement) report(in *instrument) {
	for _, f := range j.findings {
		in.v.wrong(Quote, in, f.position, "%s", f.text)
	}
	in.v.checks[Quote].Wrong += j.wrong - uint64(len(j.findings))
}

// settleIDs judges the tops whose update id the quotes have passed. end judges all of them. N of a
// position is the update id.
func (t *timeline) settleIDs(in *instrument, end bool) {
	v := in.v
	for len(t.tops) > 0 {
		e := &t.tops[0]
		i := -1 // newest quote whose id is not above
		for i+1 < len(t.quotes) && t.quotes[i+1].position.N <= e.position.N {
			i++
		}
		if i+1 == len(t.quotes) && !end {
			return // a newer one may follow
		}
		if i < 0 {
			v.unjudged(Quote)
		} else {
			q := &t.quotes[i]
			v.judged(Quote)
			switch {
			case !q.same(e):
				v.wrong(Quote, in, e.position, "the top of the book is %s, and the quote of update %d %s", e, q.position.N, q)
			case q.position.N == e.position.N:
				v.counts["same"]++
			}
			t.quotes = cutHead(t.quotes, i)
		}
		t.tops = cutHead(t.tops, 1)
	}
}
