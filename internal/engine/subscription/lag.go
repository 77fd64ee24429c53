package subscription

import (
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// maxBehindReplay limits the bytes that wait behind the replays of a connection. Above it, the
// messages are read from the journal later, or count as waiting if there is no journal.
const maxBehindReplay = 8 << 20

// Lag has the amount of data that waits for a subscriber. A replay counts only in Held and Pinned.
type Lag struct {
	Bytes, Messages int
	Oldest          int64 // publication time of the oldest waiting message, Unix ns; 0: none
	KeptBytes       int   // waiting bytes of trades, statuses and bars, which are never conflated
	OldestKept      int64
	Held            int // bytes that no other subscriber shares: encoded frames, rows read from the journal, lists
	Pinned          int // bytes of rings and recent rows that this subscriber keeps in memory, perhaps with others
}

// Lag returns the amount of data that waits for the socket. It visits the segments between each
// cursor and its tail. If maxBehindReplay or more waits behind replays, it releases the messages
// that the journal has.
func (s *Subscriber) Lag() Lag {
	s.hold()
	l, behind := s.lag()
	if behind < maxBehindReplay {
		return l
	}
	for _, it := range s.queue() {
		if it.reads() && it.state() == replaying {
			it.releaseWaiting()
		}
	}
	l, _ = s.lag()
	return l
}

// Backlog returns the bytes that wait for the socket, without those of replays and of the present
// turn.
func (s *Subscriber) Backlog() int {
	l, _ := s.lag()
	return l.Bytes
}

// lag returns the amount of waiting data, and the bytes that wait behind replays.
func (s *Subscriber) lag() (l Lag, behind int) {
	var late Lag // amount that waits behind replays
	if s.wait != nil {
		l.Held = len(s.wait.carry)
		l.Bytes = l.Held
	}
	for _, it := range s.queue() {
		if !it.reads() {
			continue
		}
		l.Held += it.late.size()
		at := it.late.at
		l.Pinned += int(it.view.tail.Segment() - at.Segment())
		messages, bytes := at.Waiting(it.view.tail)
		rec, _, ok := at.Peek(it.view.tail)
		to := &l
		if r := it.late.replay; r != nil {
			to = &late
			dropped := r.DroppedBytes(s.shard.hub, it.channel())
			l.Pinned += dropped
			l.Held += r.Held()
			n, size, first := r.Kept()
			messages, bytes = messages+n, bytes+size
			behind += bytes + dropped
			if first != nil {
				rec, ok = first, true
			}
		}
		if ok {
			to.add(it.channel(), messages, bytes, rec.At)
		}
	}
	if behind >= maxBehindReplay {
		l.Bytes += max(late.Bytes, behind)
		l.KeptBytes += max(late.KeptBytes, behind)
		l.Messages += late.Messages
		if late.Oldest != 0 && (l.Oldest == 0 || late.Oldest < l.Oldest) {
			l.Oldest = late.Oldest
		}
	}
	return l, behind
}

// sentBytes estimates the memory of an entry of sent.Rows.
const sentBytes = 96

// size returns the memory of an item that is not live in bytes, without its replay.
func (l *late) size() int {
	n := len(l.held) + sentBytes*l.elsewhere.Len()
	if l.progress != nil {
		n += 8 * cap(l.progress.unsent)
	}
	return n
}

// add counts the waiting messages of an item. oldest is the publication time of the first, Unix ns.
func (l *Lag) add(c wire.Channel, messages, bytes int, oldest int64) {
	l.Messages += messages
	l.Bytes += bytes
	if l.Oldest == 0 || oldest < l.Oldest {
		l.Oldest = oldest
	}
	if !c.Replays() {
		return
	}
	l.KeptBytes += bytes
	if l.OldestKept == 0 || oldest < l.OldestKept {
		l.OldestKept = oldest
	}
}

// Delivered calls f with the last N that was sent, for the instruments of a channel with waiting
// messages. The channel is one that replays: trades, status or bars. Delivered skips instruments of
// which nothing was sent. It makes up to most calls, and returns their number.
func (s *Subscriber) Delivered(c wire.Channel, most int, f func(id market.InstrumentID, n uint64)) (named int) {
	s.hold()
	seen := make(map[*hub.Instrument]bool)
	put := func(in *hub.Instrument, n uint64) {
		if !seen[in] && n > 0 && named < most {
			named++
			f(in.ID(), n)
		}
		seen[in] = true
	}
	for _, it := range s.queue() {
		if it.channel() != c || !it.reads() {
			continue
		}
		for in, r := range it.replayed() {
			put(in, r.N)
		}
		for at := it.late.at; named < most; at.Next() {
			rec, _, ok := at.Peek(it.view.tail)
			if !ok {
				break
			}
			if !at.Offset().Before(it.late.sent) && !it.suppresses(rec) && it.wants(rec) {
				put(rec.Of, rec.N-1)
			}
		}
	}
	return named
}

// QuietPlace is the position in the set at which Quiet continues. The zero QuietPlace is the
// beginning.
type QuietPlace struct{ item, instrument int }

// Quiet calls f for the instruments and channels of the set that had no message since before (Unix
// ns), except those of which a replay is not complete. n is the N of the last message, 0 if there
// was none. Quiet visits up to most instruments from place on, and sets place for the next call.
// The caller checks that Pending is false.
func (s *Subscriber) Quiet(before int64, place *QuietPlace, most int, f func(c wire.Channel, id market.InstrumentID, n uint64)) {
	h := s.shard.hub
	h.Lock()
	defer h.Unlock()
	if place.item >= len(s.items) {
		*place = QuietPlace{}
	}
	begin := *place
	for k := range len(s.items) + 1 { // the rest of the first one comes last
		if len(s.items) == 0 {
			break
		}
		i := (begin.item + k) % len(s.items)
		it := s.items[i]
		if !it.reads() || it.state() == replaying { // rows of the disk that it waits for are not pending
			continue
		}
		list, from := it.view.topic.Members(), 0
		switch k {
		case 0:
			from = min(begin.instrument, len(list))
		case len(s.items):
			list = list[:min(begin.instrument, len(list))]
		}
		for j, in := range list[from:] {
			if most--; most < 0 {
				*place = QuietPlace{i, from + j}
				return
			}
			if it.flag&overlap != 0 && s.owner(it.channel(), in.ID()) != it {
				continue
			}
			if in = in.AtDelay(it.tier().Delay); in == nil {
				continue
			}
			if n, at := in.Newest(it.channel(), it.tier()); at < before && in.Position() <= h.Committed() {
				f(it.channel(), in.ID(), n)
			}
		}
	}
	*place = QuietPlace{}
}
