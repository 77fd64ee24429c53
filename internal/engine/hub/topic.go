package hub

import (
	"slices"

	"github.com/ruedahq/rueda/internal/engine/catalogue"
	"github.com/ruedahq/rueda/internal/engine/ring"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/internal/engine/tier"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Tier is the variant of a channel that a subscription has.
type Tier = tier.Tier

// Item is an identifier of a subscription as the client wrote it. It is also the key of its topic.
type Item struct {
	Channel wire.Channel
	ID      market.InstrumentID // exact, or the pattern of a group
	Tier    Tier
}

// The records of rings refer to instruments.
type (
	Record = ring.Record[*Instrument]
	Cursor = ring.Cursor[*Instrument]
)

// Topic has a ring and the counts of its readers. It exists while it has readers. The topic of a
// pattern takes the messages of all instruments that the pattern covers. A subscriber of hundreds
// of instruments therefore reads one ring.
type Topic struct {
	key    Item
	ring   ring.Ring[*Instrument]
	group  *Group     // instruments whose messages it takes; nil: markets as a whole
	seen   []portSeen // by port; the hub's lock guards it, like all fields
	refs   int
	memory topicMemory
	grown  bool // listed for the next commit
	bytes  int  // bytes appended since the last commit began
}

// portSeen has the state of a topic for one port.
type portSeen struct {
	readers int32
	bytes   int32  // bytes shown since the shard's last turn
	oldest  uint64 // the oldest segment that the shard may hold, as of its last report
	touched bool   // listed for the shard's next turn
}

// tierState is a tier of a channel of one instrument, with the topics that take its messages.
type tierState struct {
	tier.State
	topics []*Topic
}

// emit appends the newest message of a tier to the rings of its topics.
func (h *publisher) emit(t *tierState, frame []byte, rec Record) {
	for _, tp := range t.topics {
		h.append(tp, frame, rec)
	}
	t.N, t.At = rec.N, rec.At
}

func (h *publisher) append(tp *Topic, frame []byte, rec Record) {
	if tp.ring.Append(frame, rec) {
		h.grew(tp)
	}
	if tp.key.Tier.Delay != 0 { // its rows are in the journal
		tp.ring.Commit(tp.ring.Mark())
		h.show(tp, len(frame))
		return
	}
	tp.bytes += len(frame)
	if tp.grown {
		return
	}
	tp.grown = true
	if h.grown = append(h.grown, tp); len(h.grown)%commitTopics == 0 && h.running {
		h.commitNow()
	}
	for i := range tp.seen {
		if tp.seen[i].readers > 0 && !h.ports[i].woken {
			h.wanted = true
		}
	}
}

// show marks a topic as having committed messages, so that shards read them at their next turn.
func (h *publisher) show(tp *Topic, bytes int) {
	for i := range tp.seen {
		s := &tp.seen[i]
		if s.readers == 0 {
			continue
		}
		if !s.touched {
			s.touched = true
			h.ports[i].touched = append(h.ports[i].touched, tp)
		}
		if s.bytes += int32(min(bytes, urgentBytes)); s.bytes >= urgentBytes {
			s.bytes = 0
			h.ports[i].wakeUrgently()
		}
	}
}

// topic returns the topic of a key. It makes the topic if there is none. Instruments find a new
// topic before their next message; see tiers.
func (h *publisher) topic(key Item) *Topic {
	if tp, ok := h.topics[key]; ok {
		return tp
	}
	tp := &Topic{key: key, ring: ring.New[*Instrument](), seen: make([]portSeen, len(h.ports))}
	if key.Channel != state.MarketStatus {
		if key.ID.IsPattern() {
			tp.group = h.group(key.ID)
		} else {
			tp.group = &Group{Members: h.members(key.ID)}
		}
		tp.group.Readers++
	}
	h.topics[key] = tp
	if c := h.replica(key.Tier.Delay); c != nil {
		c.topics++
	}
	place := readKey{key.Channel, key.ID}
	h.readBy[place] = append(h.readBy[place], tp)
	h.changed(tp, +1)
	h.backfill(tp)
	return tp
}

// release drops a topic without readers.
func (h *publisher) release(tp *Topic) {
	if tp.refs > 0 {
		return
	}
	delete(h.topics, tp.key)
	if c := h.replica(tp.key.Tier.Delay); c != nil {
		c.topics--
		c.used = h.clock()
		c.wake()
	}
	h.memory.release(tp)
	place := readKey{tp.key.Channel, tp.key.ID}
	if list := slices.DeleteFunc(h.readBy[place], func(x *Topic) bool { return x == tp }); len(list) > 0 {
		h.readBy[place] = list
	} else {
		delete(h.readBy, place)
	}
	h.changed(tp, -1)
	tp.ring = ring.New[*Instrument]() // instruments may point to the topic until their next message
	if tp.group != nil {
		tp.group.Readers--
	}
}

// changed makes instruments find their topics again after a topic was made or dropped. The
// instrument of an exact topic does so now. The instruments of a pattern do so before their next
// message.
func (h *publisher) changed(tp *Topic, by int) {
	c, id := tp.key.Channel, tp.key.ID
	if id.IsPattern() {
		h.patterns[c][catalogue.ShapeOf(id)] += by
		h.generation[c]++
		return
	}
	for _, in := range h.covered(Item{ID: id, Tier: tp.key.Tier}) {
		h.attach(in, c)
	}
}

// readKey has the parts of a topicKey that topics of all tiers have in common.
type readKey struct {
	channel wire.Channel
	id      market.InstrumentID
}

// tiers returns the tiers of a channel of an instrument that have readers. Call it before a change
// of the state, so that a new tier begins with the state before the change.
func (h *publisher) tiers(in *Instrument, c wire.Channel) []*tierState {
	ch := &in.channels[c]
	if ch.generation != h.generation[c] {
		h.attach(in, c)
	}
	return ch.tiers
}

// attach finds the topics that take the messages of a channel of an instrument.
func (h *publisher) attach(in *Instrument, c wire.Channel) {
	ch := &in.channels[c]
	ch.generation = h.generation[c]
	was := ch.tiers
	ch.tiers = nil
	for _, t := range was {
		h.memory.covers -= int64(len(t.topics))
		t.topics = nil
	}
	own := catalogue.ShapeOf(in.id)
	h.mu.Visit(1)
	for s := range catalogue.NumShapes {
		if s != 0 && h.patterns[c][s] == 0 || s&own != own {
			continue
		}
		for _, tp := range h.readBy[readKey{c, s.Pattern(in.id)}] {
			if tp.key.Tier.Delay == in.delay() {
				h.attachTopic(in, ch, was, tp)
			}
		}
	}
	for _, t := range was {
		if len(t.topics) == 0 {
			t.Dirty = false
		}
	}
	for _, t := range ch.tiers {
		h.memory.covers += int64(len(t.topics))
	}
}

func (h *publisher) attachTopic(in *Instrument, ch *channel, was []*tierState, tp *Topic) {
	same := func(t *tierState) bool { return t.Tier == tp.key.Tier }
	if i := slices.IndexFunc(ch.tiers, same); i >= 0 {
		ch.tiers[i].topics = append(ch.tiers[i].topics, tp)
		return
	}
	var t *tierState
	if i := slices.IndexFunc(was, same); i >= 0 {
		t = was[i]
	} else {
		t = &tierState{State: tier.New(tp.key.Tier, tp.key.Channel, &in.Instrument)}
	}
	t.topics = append(t.topics, tp)
	ch.tiers = append(ch.tiers, t)
}
