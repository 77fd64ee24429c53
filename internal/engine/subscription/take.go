package subscription

import (
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/ring"
	"github.com/ruedahq/rueda/wire"
)

// An item that is not live takes the messages of its ring one by one. It leaves out those that the
// client has received, and those that another item of the set sends.

// take returns the next record for the item before a tail, and moves the cursor past it. ok is
// false at the tail.
func (it *item) take(tail hub.Cursor) (rec *hub.Record, frame []byte, ok bool) {
	l := it.late
	for {
		rec, frame, ok = l.at.Peek(tail)
		if !ok {
			return nil, nil, false
		}
		at := l.at.Offset()
		l.at.Next()
		if !at.Before(l.sent) && !it.suppresses(rec) {
			return rec, frame, true
		}
	}
}

// gatherRing appends the messages between the item's cursor and a tail, up to the limit.
func (it *item) gatherRing(dst []byte, tail hub.Cursor, limit int) []byte {
	for len(dst) < limit {
		rec, frame, ok := it.take(tail)
		if !ok {
			return dst
		}
		if !it.unseen(rec.Of) && it.wants(rec) {
			dst = append(dst, frame...)
		}
	}
	return dst
}

// wants reports whether the item sends a message of its ring.
func (it *item) wants(rec *hub.Record) bool {
	switch {
	case rec.Flag&ring.Echo != 0:
		return it.wantsEcho(rec)
	case it.flag&overlap != 0:
		return it.sub.owner(it.channel(), rec.Of.ID()) == it
	}
	return true
}

// wantsEcho reports whether to send a copy of a notice. The copy is not sent if the set has the
// status itself, or if another ring has brought the notice.
func (it *item) wantsEcho(rec *hub.Record) bool {
	s := it.sub
	if s.owner(wire.Status, rec.Of.ID()) != nil {
		return false
	}
	return rec.Flag&ring.Lost != 0 && len(s.items) == 1 || s.unnoticed(noticeKey{rec.Of, rec.Flag & ring.Lost}, rec.N)
}

// gatherNewest appends the newest waiting quote or summary of each instrument.
func (it *item) gatherNewest(dst []byte) []byte {
	l := it.late
	newest := make(map[*hub.Instrument]uint64)
	for at := l.at; ; at.Next() {
		rec, _, ok := at.Peek(it.view.tail)
		if !ok {
			break
		}
		if rec.Flag&ring.Echo == 0 {
			newest[rec.Of] = rec.Position
		}
	}
	for {
		rec, frame, ok := it.take(it.view.tail)
		if !ok {
			return dst
		}
		if (rec.Flag&ring.Echo != 0 || newest[rec.Of] == rec.Position) && it.wants(rec) {
			dst = append(dst, frame...)
		}
	}
}

// gatherNotices appends the waiting notices before a tail, and skips the other messages.
func (it *item) gatherNotices(dst []byte, tail hub.Cursor) []byte {
	for {
		rec, frame, ok := it.take(tail)
		if !ok {
			return dst
		}
		if rec.Flag&ring.Echo != 0 && it.wants(rec) {
			dst = append(dst, frame...)
		}
	}
}
