package stream

import "github.com/ruedahq/rueda/wire"

// view is what a shard knows of a topic: how far it may read, and who of its own
// reads it. Only a Turn moves the tail, so that the readers that keep up need no
// cursor of their own: each takes what lies between prev and tail.
type view struct {
	key        topicKey
	topic      *topic // nil: of an item that does not read
	prev, tail cursor
	pos        uint64 // of the hub when tail was taken
	echoes     int    // records with that flag before tail
	mixed      bool   // some of the present turn's are of that kind
	readers    []*item

	round uint64 // of the shard's report in which low was set
	low   uint64 // the oldest segment that an item of the view holds

	plain []byte // what lies between prev and tail; nil: each record has to be looked at
	other map[wire.Format]*variant
}

// variant is plain in another format, made when the first reader of a turn asks.
type variant struct {
	of    *byte  // of plain, that it was made from
	bytes []byte // as long as its readers need it, since it is only appended to
	room  []byte
}

// advance moves the tail to the ring's, or by as many messages at most where there is a limit. whole says
// that it came to the ring's. The hub's lock is held.
func (v *view) advance(pos uint64, most int) (whole bool) {
	r := &v.topic.ring
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

// more says whether more than n messages, but not very many, lie between prev and tail.
func (v *view) more(n int) bool {
	messages, bytes := v.prev.Waiting(v.tail)
	return messages > n && bytes <= maxPlain
}

const (
	// maxPlain is the most that is handed on in one piece.
	maxPlain = 64 << 10
	// maxRoomed is the largest piece that room for the next ones is kept for in other formats.
	maxRoomed = 4 << 10
)

// join makes plain: a piece of the ring's own memory, or where a segment ends in
// between a copy.
func (v *view) join() {
	v.plain = nil
	if v.mixed {
		return
	}
	v.plain = v.prev.Frames(v.tail, maxPlain)
}

// chunk is plain in a format; empty where there is no plain.
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
	case len(v.plain) > maxRoomed: // rare, such as a whole book: it leaves no room behind
		x.of, x.bytes, x.room = &v.plain[0], t.Append(nil, v.plain, f), nil
	default:
		if cap(x.room)-len(x.room) < 2*len(v.plain) {
			x.room = make([]byte, 0, max(4<<10, 8*len(v.plain)))
		}
		n := len(x.room)
		room := t.Append(x.room[n:n], v.plain, f)
		x.of, x.bytes = &v.plain[0], room[:len(room):len(room)]
		if n+len(room) <= cap(x.room) {
			x.room = x.room[:n+len(room)]
		}
	}
	return x.bytes
}
