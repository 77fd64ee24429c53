package hub

import (
	"context"
	"hash/fnv"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// sourceNumbers are the newest numbers that the source of an instrument has given to its events.
type sourceNumbers struct {
	numbering uint64 // hash of its name
	last      [feed.NumChannels]uint64
}

// given is the number of the event that is being applied. The first row of its channel gets it.
type given struct {
	source  journal.Source
	channel wire.Channel
	open    bool // no row has it
}

// rowChannels returns the channel of rows, and that of the journal, of a channel of a source.
func rowChannels(c feed.Channel) (wire.Channel, journal.Channel) {
	switch c {
	case feed.Trades:
		return wire.Trades, journal.Trades
	case feed.Statuses:
		return wire.Status, journal.Statuses
	case feed.Quotes:
		return wire.Quotes, journal.Quotes
	case feed.Books:
		return wire.OrderBook, journal.Books
	}
	return wire.Summary, journal.Summaries
}

func hashOf(numbering string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(numbering)) // never fails
	return max(1, h.Sum64())
}

// beginSource notes the number of an event that is going to be applied.
func (h *sequencer) beginSource(in *Instrument, e *market.Event) {
	c, ok := feed.ChannelOf(e.Kind)
	if !ok {
		return
	}
	in.source.last[c] = max(in.source.last[c], e.Sequence)
	row, stored := rowChannels(c)
	h.given = given{journal.Source{Instrument: in.Number, Channel: stored, Numbering: in.source.numbering, Sequence: in.source.last[c]}, row, true}
}

// takeSource returns the number for a row of a channel, once.
func (h *sequencer) takeSource(in *Instrument, c wire.Channel) *journal.Source {
	g := &h.given
	if !g.open || c != g.channel || in.Number != g.source.Instrument {
		return nil
	}
	g.open = false
	return &g.source
}

// HoldSources sets numbers that the log has, at a restart. j has the definitions.
func (h *Hub) HoldSources(list []journal.Source, j *journal.Journal) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.holdSources(list, j)
}

// holdSources does the same as HoldSources. The hub's lock is held.
func (h *Hub) holdSources(list []journal.Source, j *journal.Journal) {
	for _, s := range list {
		in := h.stored(s.Instrument, j)
		if in == nil {
			continue
		}
		if in.source == nil || in.source.numbering != s.Numbering {
			in.source = &sourceNumbers{numbering: s.Numbering}
		}
		for c := range feed.NumChannels {
			if _, stored := rowChannels(c); stored == s.Channel {
				in.source.last[c] = s.Sequence
			}
		}
	}
}

// stored returns the instrument with a number in the journal. If it has no rows in this epoch, it
// is listed when a feed defines it.
func (h *Hub) stored(number uint32, j *journal.Journal) *Instrument {
	if int(number) < len(h.numbered) && h.numbered[number] != nil {
		return h.numbered[number]
	}
	def, ok := j.Instrument(number)
	if !ok {
		return nil
	}
	in := h.makeInstrument(def, nil)
	in.Number = number
	h.number(in)
	h.unlisted[in.id] = in
	return in
}

// Resume implements feed.Resumer.
func (h *Hub) Resume(numbering string) (list []feed.Held, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hash := hashOf(numbering)
	for i := 0; i < len(h.numbered); i++ {
		in := h.numbered[i]
		if in == nil || in.source == nil || in.source.numbering != hash {
			continue
		}
		for c, n := range in.source.last {
			if n > 0 {
				list = append(list, feed.Held{Handle: in.handle, ID: in.id, Channel: feed.Channel(c), Sequence: n})
			}
		}
		h.mu.Step(1)
	}
	return list, h.keepsRows()
}

// Number implements feed.Resumer.
func (h *Hub) Number(handle market.Handle, numbering string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if int(handle) >= len(h.handles) || h.handles[handle].Venue {
		return
	}
	in, hash := h.handles[handle], hashOf(numbering)
	switch {
	case numbering == "":
		in.source = nil
	case in.source == nil || in.source.numbering != hash:
		in.source = &sourceNumbers{numbering: hash}
	}
}

// SourcesOf returns numbers of Number in the form of the log.
func (h *Hub) SourcesOf(list []feed.Held) []journal.Source {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []journal.Source
	for _, x := range list {
		if int(x.Handle) >= len(h.handles) || h.handles[x.Handle].source == nil || x.Channel >= feed.NumChannels {
			continue
		}
		in := h.handles[x.Handle]
		in.source.last[x.Channel] = max(in.source.last[x.Channel], x.Sequence)
		_, stored := rowChannels(x.Channel)
		all = append(all, journal.Source{Instrument: in.Number, Channel: stored, Numbering: in.source.numbering, Sequence: in.source.last[x.Channel]})
	}
	return all
}

// AwaitStored implements feed.Resumer for a hub with a journal.
func (h *Hub) AwaitStored(ctx context.Context, list []feed.Held) error {
	j := h.cfg.Journal
	if j == nil {
		return feed.ErrNotStored
	}
	all := h.SourcesOf(list)
	h.mu.Lock()
	for i := range all {
		j.NoteSource(&all[i])
	}
	h.mu.Unlock()
	if err := h.AwaitCommit(ctx); err != nil {
		return err
	}
	if _, _, lost := j.Suspended(); lost {
		h.mu.Lock()
		h.commitSoon() // it may have space again, and perhaps nothing is published
		h.mu.Unlock()
		return feed.ErrNotStored
	}
	return nil
}
