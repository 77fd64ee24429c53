package stream

// Shard is the hub's counterpart of one goroutine that owns connections. All
// methods of it and its subscribers are called by that goroutine.
type Shard struct {
	hub   *Hub
	index int
	wake  func()

	touched []*topic // since the last Turn; guarded by the hub's lock
	told    bool     // wake was called since the last Turn; guarded by the hub's lock

	views    map[*topic]*view
	position uint64   // of the hub at the last Turn
	turn     []*topic // reused
	ready    []*Subscriber
}

// view is what a shard knows of a topic: how far it may read, and who of its own reads it.
type view struct {
	topic   *topic
	tail    cursor
	pos     uint64 // of the hub when tail was taken
	readers []*item
}

// NewShard adds a shard. wake is called, under the hub's lock, when there is
// something new for it; it must not block nor call back.
func (h *Hub) NewShard(wake func()) *Shard {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &Shard{hub: h, index: len(h.shards), wake: wake, views: make(map[*topic]*view), position: h.position}
	h.shards = append(h.shards, s)
	for _, tp := range h.topics {
		tp.seen = append(tp.seen, shardSeen{})
	}
	return s
}

func (s *Shard) touch(tp *topic) { s.touched = append(s.touched, tp) }

func (s *Shard) wakeIfTouched() {
	if len(s.touched) > 0 && !s.told {
		s.told = true
		s.wake()
	}
}

// Turn takes note of what was published since the last Turn and calls f once
// for each subscriber for whom there is something to gather.
func (s *Shard) Turn(f func(*Subscriber)) {
	h := s.hub
	h.mu.Lock()
	s.turn, s.touched = s.touched, s.turn[:0]
	s.told = false
	s.position = h.position
	for _, tp := range s.turn {
		tp.seen[s.index].touched = false
		if v := s.views[tp]; v != nil {
			v.tail, v.pos = tp.ring.tail(), h.position
		}
	}
	h.mu.Unlock()
	s.ready = s.ready[:0]
	for _, tp := range s.turn {
		v := s.views[tp]
		if v == nil {
			continue
		}
		for _, it := range v.readers {
			it.enqueue()
			if !it.sub.called {
				it.sub.called = true
				s.ready = append(s.ready, it.sub)
			}
		}
	}
	clear(s.turn)
	for _, sub := range s.ready {
		sub.called = false
		if !sub.closed {
			f(sub)
		}
	}
	clear(s.ready)
}

// join makes an item a reader of a topic from its present tail on. The hub's lock is held.
func (s *Shard) join(it *item, key topicKey) {
	tp := s.hub.topic(key)
	v := s.views[tp]
	if v == nil {
		v = &view{topic: tp}
		s.views[tp] = v
	}
	v.tail, v.pos = tp.ring.tail(), s.hub.position
	tp.refs++
	tp.seen[s.index].readers++
	it.view, it.at, it.place = v, v.tail, len(v.readers)
	v.readers = append(v.readers, it)
}

// leave ends an item's reading. The hub's lock is held.
func (s *Shard) leave(it *item) {
	v := it.view
	if v == nil {
		return
	}
	last := len(v.readers) - 1
	v.readers[it.place] = v.readers[last]
	v.readers[it.place].place = it.place
	v.readers[last] = nil
	v.readers = v.readers[:last]
	it.view, it.at = nil, cursor{}
	v.topic.refs--
	v.topic.seen[s.index].readers--
	if last == 0 {
		delete(s.views, v.topic)
	}
	s.hub.release(v.topic)
}

// NewSubscriber adds a connection. key is what the host finds it by.
func (s *Shard) NewSubscriber(key any) *Subscriber {
	return &Subscriber{hub: s.hub, shard: s, key: key}
}
