package dbn

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// event collects the effects of an instrument's records since the end of its last event. It is
// published as a whole, because between two records of an event the book is in a state that the
// exchange never showed.
type event struct {
	open     bool
	late     bool           // it lasted too long: see Decoder.overdue
	whole    bool           // the book has begun again
	alone    bool           // it is only a clear that belongs to no snapshot, or only trades
	unmarked bool           // in Decoder.unmarked
	played   int            // records of the book that were played, without the one that ends the event
	first    int64          // receive time of its first record
	stamp    stamp          // of the event so far
	held     []market.Event // trades, and a gap
	changes  []change       // of levels; may have a level several times
	record   []byte         // the newest record of levels (MBP)
}

// stamp holds the times and the sequence of a published event.
type stamp struct {
	time, receive int64
	sequence      uint64
}

// change is a level before and after a change; of size 0 if it does not exist.
type change struct {
	side     market.Side
	was, now market.Level
}

// Limits of an event. A snapshot may last longer.
const (
	maxLasts   = int64(time.Second)
	maxHeld    = 1 << 12
	maxChanges = 1 << 14
)

// begin adds a record of orders to the event of its instrument. A record without F_SNAPSHOT ends a
// snapshot.
func (d *Decoder) begin(in *instrument, m []byte, b *decode.Batch) {
	snapshot, e := m[36]&flagSnapshot != 0, &in.event
	if e.open && (in.snapshot && !snapshot || e.ended(d.receive)) {
		d.end(in, b)
	}
	switch m[38] {
	case 'R':
		e.alone = !e.open && !snapshot
	case 'T', 'F', 'N':
		e.alone = (!e.open || e.alone && !e.whole) && !snapshot
	default:
		e.alone = false
	}
	if d.stamp(in, m); d.config.Orders {
		return
	}
	if !e.late && (!snapshot && e.stamp.receive-e.first > maxLasts || len(e.held) >= maxHeld || len(e.changes) >= maxChanges) {
		d.overdue(in, b)
	}
	if !d.marked || e.alone {
		d.endLater(in)
	}
}

// ended reports whether an event is complete without F_LAST at a time: a clear, or trades, if
// nothing followed within a second. A trade does not change the book.
func (e *event) ended(now int64) bool { return e.alone && now-e.first > maxLasts }

// stamp opens the event of a record's instrument, if none is open, and advances its times.
func (d *Decoder) stamp(in *instrument, m []byte) {
	e := &in.event
	if !e.open {
		e.open, e.late, e.whole, e.played = true, false, false, 0
		e.first, e.stamp = d.receive, stamp{}
		e.held, e.changes, e.record = e.held[:0], e.changes[:0], e.record[:0]
	}
	at := 44
	if m[1] == typeMBO {
		at = 52
	}
	e.stamp = stamp{max(e.stamp.time, d.time), d.receive, uint64(binary.LittleEndian.Uint32(m[at:]))}
}

// endLater schedules the end of an instrument's event for when the time advances.
func (d *Decoder) endLater(in *instrument) {
	if !in.event.unmarked {
		in.event.unmarked = true
		d.unmarked = append(d.unmarked, in)
	}
}

// overdue handles an event that lasts too long, perhaps because its end is missing. Its trades are
// published as they come, and the book that clients have is stale until the event ends. The memory
// of an event is therefore bounded.
func (d *Decoder) overdue(in *instrument, b *decode.Batch) {
	e := &in.event
	e.changes = compact(e.changes)
	if e.stamp.receive-e.first <= maxLasts && len(e.held) < maxHeld && len(e.changes) < maxChanges/2 {
		return // it changes few levels many times
	}
	if e.alone && !e.whole {
		d.release(in, b)
		return
	}
	if in.shown || len(e.held) > 0 {
		b.Note("unfinished_event", "%s: an event has no end within %v or %d trades; the book is stale until its end", in.id, time.Duration(maxLasts), maxHeld)
	}
	d.gap(in, "unfinished_event", b)
	d.release(in, b)
	e.late, e.whole, e.changes = true, true, nil
}

// gap makes the book that clients have stale.
func (d *Decoder) gap(in *instrument, reason string, b *decode.Batch) {
	if in.shown {
		in.shown = false
		b.Stats.Gaps++
		d.hold(in, market.KindGap, b).Reason = reason
	}
}

// hold adds an event to those that are published at the end of the event of an instrument. It
// returns it, with the stamp of the newest record.
func (d *Decoder) hold(in *instrument, kind market.Kind, b *decode.Batch) *market.Event {
	e := &in.event
	x := market.Event{Kind: kind, Handle: in.handle, Time: e.stamp.time, Receive: e.stamp.receive, Sequence: e.stamp.sequence}
	if e.late || !e.open || d.config.Orders {
		p := b.Add(kind, in.handle)
		*p = x
		return p
	}
	e.held = append(e.held, x)
	return &e.held[len(e.held)-1]
}

// release publishes the held events.
func (d *Decoder) release(in *instrument, b *decode.Batch) {
	if len(in.event.held) == 0 {
		return
	}
	for i := range in.event.held {
		*b.Add(in.event.held[i].Kind, in.handle) = in.event.held[i]
	}
	clear(in.event.held)
	in.event.held = in.event.held[:0]
}

// changed stores a change of a level, given the level after it and how much it grew.
func (d *Decoder) changed(in *instrument, side market.Side, now market.Level, size market.Size, orders int32) {
	if in.event.whole || d.config.Orders {
		return
	}
	was := market.Level{Price: now.Price, Size: now.Size - size, Orders: uint32(int32(now.Orders) - orders)}
	in.event.changes = append(in.event.changes, change{side, was, now})
}

// compact sorts changes best first, bids before asks, and merges those of one price.
func compact(list []change) []change {
	slices.SortStableFunc(list, func(x, y change) int {
		switch {
		case x.side != y.side:
			return int(x.side) - int(y.side)
		case x.side == market.Sell:
			return cmp.Compare(x.now.Price, y.now.Price)
		}
		return cmp.Compare(y.now.Price, x.now.Price)
	})
	n := 0
	for _, c := range list {
		if n > 0 && list[n-1].side == c.side && list[n-1].now.Price == c.now.Price {
			list[n-1].now = c.now
			continue
		}
		list[n] = c
		n++
	}
	return list[:n]
}

// end publishes the event of an instrument: its trades, and then its changes of the book.
func (d *Decoder) end(in *instrument, b *decode.Batch) {
	e := &in.event
	if len(e.record) > 0 {
		if r := d.state(in, e.record, b); r != decode.Played {
			b.Stats.Recount(1, r)
		}
		e.record = e.record[:0]
	}
	d.release(in, b)
	switch {
	case !in.ready:
	case e.whole:
		d.publishBook(in, b)
	case len(e.changes) > 0:
		d.publishChanges(in, b)
	}
	e.open, e.late, e.whole, e.played, e.changes = false, false, false, 0, e.changes[:0]
}

// publishBook publishes the whole book of an instrument.
func (d *Decoder) publishBook(in *instrument, b *decode.Batch) {
	book := in.book.Book()
	bids, asks := book.Len(market.Buy), book.Len(market.Sell)
	for _, side := range [...]market.Side{market.Buy, market.Sell} {
		for i := range book.Len(side) {
			b.AppendLevel(book.At(side, i))
		}
	}
	d.publish(in, market.KindSnapshot, b.LastLevels(bids, asks), b.LastLevels(asks, 0), b)
}

// publishChanges publishes the levels of a book that differ from those before the event.
func (d *Decoder) publishChanges(in *instrument, b *decode.Batch) {
	list := in.event.changes
	if len(list) > 1 {
		list = compact(list)
	}
	var n [market.Sell + 1]int
	for i := range list {
		if c := &list[i]; c.now != c.was {
			b.AppendLevel(c.now)
			n[c.side]++
		}
	}
	bids, asks := n[market.Buy], n[market.Sell]
	if bids+asks > 0 {
		d.publish(in, market.KindUpdate, b.LastLevels(bids, asks), b.LastLevels(asks, 0), b)
	}
}

// publish appends a book event, unless a size is too large for the stream.
func (d *Decoder) publish(in *instrument, kind market.Kind, bids, asks []market.Level, b *decode.Batch) {
	for _, side := range [...][]market.Level{bids, asks} {
		for i := range side {
			if !side[i].Size.Exact() {
				d.markStale(in, "bad_size", b)
				d.release(in, b)
				return
			}
		}
	}
	in.shown = true
	s := &in.event.stamp
	e := b.Add(kind, in.handle)
	e.Time, e.Receive, e.Sequence = s.time, s.receive, s.sequence
	e.Bids, e.Asks = bids, asks
}

// drop forgets an event whose end is missing. Its trades are published, because they do not depend
// on the end. Its other records are counted as incomplete; drop returns their number.
func (d *Decoder) drop(in *instrument, b *decode.Batch) (records int) {
	e := &in.event
	if !e.open {
		return 0
	}
	d.release(in, b)
	records = e.played
	b.Stats.Recount(records, decode.Incomplete)
	*e = event{unmarked: e.unmarked}
	return records
}

// endAll ends all events at the end of the file. It drops those that lack F_LAST.
func (d *Decoder) endAll(b *decode.Batch) {
	for _, in := range d.unmarked {
		if in.event.open && (in.event.alone || d.endsByTime(in)) {
			d.end(in, b)
		}
	}
	var open []*instrument
	for _, in := range d.known {
		if in.event.open {
			open = append(open, in)
		}
	}
	slices.SortFunc(open, func(x, y *instrument) int {
		return cmp.Or(cmp.Compare(x.event.first, y.event.first), cmp.Compare(x.key, y.key))
	})
	trades, records := 0, 0
	for _, in := range open {
		trades += len(in.event.held)
		records += d.drop(in, b)
	}
	if records > 0 {
		b.Note("unfinished_event", "the file ends within events of %d instruments: %d records of their books are not played, their %d trades are", len(open), records, trades)
	}
}

// endsByTime reports whether the event of an instrument ends when the time advances. Files of
// levels contain only some records of an event, perhaps not the last one. In a file of orders
// F_LAST is trusted from its first occurrence on. Only a clear and trades may lack it.
func (d *Decoder) endsByTime(in *instrument) bool {
	return !d.marked || d.played != typeMBO || in.event.ended(d.receive)
}

// advance ends the events that need no F_LAST when both times of a record differ from those of the
// record before.
func (d *Decoder) advance(m []byte, b *decode.Batch) {
	t, receive := times(m)
	advanced := t != d.time && receive != d.receive
	d.time, d.receive = t, receive
	if !advanced || len(d.unmarked) == 0 || m[1] == typeMBO && m[36]&flagSnapshot != 0 {
		return
	}
	d.unmarked = slices.DeleteFunc(d.unmarked, func(in *instrument) bool {
		if in.event.open && d.endsByTime(in) {
			d.end(in, b)
		}
		in.event.unmarked = in.event.open && in.event.alone
		return !in.event.unmarked
	})
}
