package stream

import (
	"github.com/ruedahq/rueda/internal/book"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Tier is the variant of a channel that a subscriber asked for or may have. Trades and
// status have one tier for each delay.
type Tier struct {
	Depth    int // of order_book: 1, 5, 10, 25, or 0 for all levels
	Conflate int // of quotes and order_book: at most one message in so many milliseconds; 0: every change
	Delay    int // seconds that the data are held back; one of Config.Delays, or 0: none
}

// marketStatus is the channel of market-wide statuses, *|MARKET|*. Clients do
// not name it: they get it with status, and its notices with any channel.
const marketStatus = wire.NumChannels

type topicKey struct {
	channel wire.Channel
	id      market.InstrumentID // exact, or the pattern of a group
	tier    Tier
}

// A topic is a ring and who reads it. It exists while it has readers. The topic of
// a pattern is a group: it takes the messages of all instruments it covers, so
// that a subscriber of hundreds follows one ring.
type topic struct {
	key    topicKey
	ring   ring
	covers []*instrument // whose messages it takes, by their listing
	seen   []shardSeen   // by shard; guarded by the hub's lock as everything here
	refs   int
}

type shardSeen struct {
	readers int32
	bytes   int32 // since the shard's last Turn
	touched bool  // listed for the shard's next Turn
}

// tierState is a channel's tier of one instrument: the topics that take its
// messages, and what the newest of them said.
type tierState struct {
	tier   Tier
	topics []*topic
	n      uint64 // of the newest message; the N that an R:true of this tier carries
	at     int64  // publication time of the newest message
	dirty  bool   // a conflated tier with something to say
	stamp  stamp  // of the newest message
	due    stamp  // of what it has to say

	// As of the newest message: of a quote tier bid and ask, of a book tier view.
	bid, ask market.Level
	view     book.View
}

func (h *Hub) emit(t *tierState, frame []byte, rec record) {
	for _, tp := range t.topics {
		h.append(tp, frame, rec)
	}
	t.n, t.at = rec.n, rec.at
}

func (h *Hub) append(tp *topic, frame []byte, rec record) {
	tp.ring.append(frame, rec)
	for i := range tp.seen {
		s := &tp.seen[i]
		if s.readers == 0 {
			continue
		}
		if !s.touched {
			s.touched = true
			h.shards[i].touch(tp)
		}
		if s.bytes += int32(min(len(frame), urgentBytes)); s.bytes >= urgentBytes {
			s.bytes = 0
			h.shards[i].press()
		}
	}
}

// topic finds or makes the topic of a key.
func (h *Hub) topic(key topicKey) *topic {
	if tp, ok := h.topics[key]; ok {
		return tp
	}
	tp := &topic{key: key, ring: newRing(), seen: make([]shardSeen, len(h.shards))}
	h.topics[key] = tp
	h.eachCovered(key, func(in *instrument) { h.attach(in, tp) })
	return tp
}

// release drops a topic without readers.
func (h *Hub) release(tp *topic) {
	if tp.refs > 0 {
		return
	}
	delete(h.topics, tp.key)
	h.eachCovered(tp.key, func(in *instrument) { h.detach(in, tp) })
}

// eachCovered goes through the instruments whose messages a topic takes.
func (h *Hub) eachCovered(key topicKey, f func(*instrument)) {
	if key.channel == marketStatus {
		for _, in := range h.venues {
			if key.id.Matches(in.id) || key.id.Market == market.Any {
				f(in)
			}
		}
		return
	}
	for i := range h.catalog.Match(key.id) {
		if in := h.listed[i].under(key.tier.Delay); in != nil {
			f(in)
		}
	}
}

func (h *Hub) attach(in *instrument, tp *topic) {
	tp.covers = append(tp.covers, in)
	c := &in.channels[tp.key.channel]
	for _, t := range c.tiers {
		if t.tier == tp.key.tier {
			t.topics = append(t.topics, tp)
			return
		}
	}
	t := &tierState{tier: tp.key.tier, topics: []*topic{tp}, n: c.n, at: c.at}
	in.startTier(tp.key.channel, t)
	c.tiers = append(c.tiers, t)
}

func (h *Hub) detach(in *instrument, tp *topic) {
	c := &in.channels[tp.key.channel]
	for i, t := range c.tiers {
		if t.tier != tp.key.tier {
			continue
		}
		for j := range t.topics {
			if t.topics[j] == tp {
				t.topics = append(t.topics[:j], t.topics[j+1:]...)
				break
			}
		}
		if len(t.topics) == 0 {
			c.tiers = append(c.tiers[:i], c.tiers[i+1:]...)
			t.dirty = false
		}
		return
	}
}
