package subscription

import (
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/wire"
)

// view is the state of a topic in a shard. It has the tail up to which the shard may read, and the
// readers. Only a Turn moves the tail, so live readers need no cursors. Each of them receives the
// messages between prev and tail.
type view struct {
	key        hub.Item
	topic      *hub.Topic // nil: the view is of an item that does not read
	prev, tail hub.Cursor
	pos        uint64 // position of the hub when tail was taken
	echoes     int    // number of echoes before tail
	mixed      bool   // true if there are echoes between prev and tail
	readers    []*item

	round uint64 // round of the shard's report that set low
	low   uint64 // the oldest segment that an item of the view holds

	plain []byte // the frames between prev and tail; nil: each record must be checked
	other map[wire.Format]*variant
}

// variant has plain in another format. It is made when the first reader of a turn needs it.
type variant struct {
	of    *byte  // first byte of the plain that it was made from
	bytes []byte // stays valid for its readers, because the memory is only appended to
	buf   []byte
}

// advance moves the tail to the tail of the ring. If most is not 0, it moves it by at most that
// many messages, unless more than maxPlain bytes wait. whole reports whether the tail is that of
// the ring. The hub's lock is held.
func (v *view) advance(pos uint64, most int) (whole bool) {
	r := v.topic
	v.prev, v.tail = v.tail, r.Tail()
	_, echoes := r.Echoes()
	v.mixed = v.echoes != echoes
	if most > 0 && v.more(most) {
		v.tail = v.prev.Ahead(most, v.tail)
		at := v.tail
		rec, _, _ := at.Peek(r.Tail())
		v.pos = max(v.pos, rec.Position-1) // conflated messages have the position of the newest row
		return false
	}
	v.echoes, v.pos = echoes, pos
	return true
}

// more reports whether more than n messages, but not too many bytes, are between prev and tail.
func (v *view) more(n int) bool {
	messages, bytes := v.prev.Waiting(v.tail)
	return messages > n && bytes <= maxPlain
}

const (
	// maxPlain limits the bytes between prev and tail that are sent as one piece.
	maxPlain = 64 << 10
	// maxReused limits the bytes of a piece for which the buffer of another format is reused.
	maxReused = 4 << 10
)

// join sets plain. It is memory of the ring itself, or a copy if a segment ends in between.
func (v *view) join() {
	v.plain = nil
	if v.mixed {
		return
	}
	v.plain = v.prev.Frames(v.tail, maxPlain)
}

// chunk returns plain in a format. The result is empty if plain is nil.
func (v *view) chunk(f wire.Format, t *wire.Transcoder) []byte {
	if f == wire.JSON || len(v.plain) == 0 {
		return v.plain
	}
	x := v.other[f]
	if x == nil {
		if v.other == nil {
			v.other = make(map[wire.Format]*variant)
		}
		x = &variant{}
		v.other[f] = x
	}
	switch {
	case x.of == &v.plain[0]:
	case len(v.plain) > maxReused: // rare, such as a whole book
		x.of, x.bytes, x.buf = &v.plain[0], t.Append(nil, v.plain, f), nil
	default:
		if cap(x.buf)-len(x.buf) < 2*len(v.plain) {
			x.buf = make([]byte, 0, max(4<<10, 8*len(v.plain)))
		}
		n := len(x.buf)
		buf := t.Append(x.buf[n:n], v.plain, f)
		x.of, x.bytes = &v.plain[0], buf[:len(buf):len(buf)]
		if n+len(buf) <= cap(x.buf) {
			x.buf = x.buf[:n+len(buf)]
		}
	}
	return x.bytes
}

// join makes an item a reader of a topic, from the tail of its ring on. The hub's lock is held.
func (s *Shard) join(it *item, key hub.Item) {
	v := s.view(key)
	s.hub.AddReader(v.topic)
	it.view, it.late, it.place = v, nil, int32(len(v.readers))
	it.flag |= reading
	v.readers = append(v.readers, it)
	v.tail.Forward()
	if v.tail != v.topic.Tail() {
		// Messages that the shard has not noted yet were published before the item joined.
		it.late = &late{at: v.tail, sent: v.topic.Tail().Offset(), sentPos: s.hub.Reached(key.Tier.Delay)}
	}
}

// view returns the shard's view of a topic. It makes the view and the topic if they do not exist.
// The hub's lock is held.
func (s *Shard) view(key hub.Item) *view {
	tp := s.hub.Topic(key)
	v := s.views[tp]
	if v == nil {
		v = &view{key: key, topic: tp, tail: tp.Tail(), pos: s.hub.Reached(key.Tier.Delay)}
		_, v.echoes = tp.Echoes()
		s.views[tp] = v
	}
	return v
}

// leave removes an item from the readers of its view. The hub's lock is held.
func (s *Shard) leave(it *item) {
	if it.flag&reading == 0 {
		return
	}
	v := it.view
	last := int32(len(v.readers) - 1)
	v.readers[it.place] = v.readers[last]
	v.readers[it.place].place = it.place
	v.readers[last] = nil
	v.readers = v.readers[:last]
	it.view, it.late = &view{key: v.key}, nil
	it.flag &^= reading
	s.unread(v)
}

// unread subtracts a reader of a view, and drops a view without readers. The hub's lock is held.
func (s *Shard) unread(v *view) {
	if s.hub.RemoveReader(v.topic) {
		delete(s.views, v.topic)
	}
}

// forget removes a subscriber from the shard's list. The hub's lock is held.
func (s *Shard) forget(sub *Subscriber) {
	last := len(s.subs) - 1
	s.subs[sub.slot] = s.subs[last]
	s.subs[sub.slot].slot = sub.slot
	s.subs[last] = nil
	s.subs = s.subs[:last]
	if last == 0 {
		s.unread(s.venue)
		s.venue = nil
	}
}
