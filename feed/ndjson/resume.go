package ndjson

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// ackPause is the shortest time between two Ack lines.
const ackPause = 20 * time.Millisecond

// resumption is the state of a producer whose numbers are stored.
type resumption struct {
	numbering string
	sink      feed.Resumer
	held      map[heldKey]uint64 // those of the answer to its Hello

	mu     sync.Mutex
	newest map[heldKey]feed.Held // published, and not acknowledged
	wake   chan struct{}         // has an element when newest has some
}

type heldKey struct {
	id      market.InstrumentID
	channel feed.Channel
}

// letter returns the type of the lines of a channel.
func letter(c feed.Channel) string { return [...]string{"T", "H", "Q", "O", "D"}[c] }

// resume answers a Hello with the newest numbers when they are stored: a producer forgets the lines
// up to them. While the log loses events, it does not wait. Without a member resume, it does
// nothing.
func (p *producer) resume(ctx context.Context) *wire.Fault {
	if p.numbering == "" {
		return nil
	}
	sink, ok := p.registry.sink.(feed.Resumer)
	var list []feed.Held
	if ok {
		list, ok = sink.Resume(p.numbering)
	}
	if !ok {
		return wire.NewFault(wire.BadField, "line 1: resume needs a gateway with a journal")
	}
	if err := awaitStored(ctx, sink, list); err != nil && !errors.Is(err, feed.ErrNotStored) {
		return wire.NewFault(wire.ShuttingDown, "")
	}
	r := &resumption{numbering: p.numbering, sink: sink, held: map[heldKey]uint64{}, newest: map[heldKey]feed.Held{}, wake: make(chan struct{}, 1)}
	for _, x := range list {
		r.held[heldKey{x.ID, x.Channel}] = x.Sequence
	}
	p.resumed = r
	b := wire.AppendString([]byte(`{"type":"Hello","resume":`), p.numbering)
	p.answer(append(appendHeld(b, list), '}'))
	if err := p.flush(); err != nil {
		return wire.NewFault(wire.ShuttingDown, "")
	}
	return nil
}

// awaitStored waits until numbers are stored, if there are any.
func awaitStored(ctx context.Context, sink feed.Resumer, list []feed.Held) error {
	if len(list) == 0 {
		return nil
	}
	return sink.AwaitStored(ctx, list)
}

// appendHeld appends the member last.
func appendHeld(b []byte, list []feed.Held) []byte {
	slices.SortFunc(list, func(x, y feed.Held) int {
		if c := x.ID.Compare(y.ID); c != 0 {
			return c
		}
		return strings.Compare(letter(x.Channel), letter(y.Channel))
	})
	b = append(b, `,"last":{`...)
	for i, x := range list {
		switch {
		case i == 0:
			b = append(wire.AppendString(b, x.ID.String()), `:{`...)
		case x.ID == list[i-1].ID:
			b = append(b, ',')
		default:
			b = append(wire.AppendString(append(b, `},`...), x.ID.String()), `:{`...)
		}
		b = fmt.Appendf(b, `"%s":%d`, letter(x.Channel), x.Sequence)
	}
	if len(list) > 0 {
		b = append(b, '}')
	}
	return append(b, '}')
}

// number begins to store the numbers of an instrument, and continues after those that are stored.
// For a producer that does not resume, it ends that: its SQ are not those of an earlier producer.
func (p *producer) number(i *instrument) {
	r := p.resumed
	if r == nil {
		if sink, ok := p.registry.sink.(feed.Resumer); ok {
			sink.Number(i.handle, "")
		}
		return
	}
	r.sink.Number(i.handle, r.numbering)
	for c, kind := range [...]market.Kind{market.KindTrade, market.KindStatus, market.KindQuote, market.KindUpdate, market.KindReference} {
		if n := r.held[heldKey{i.id, feed.Channel(c)}]; n > 0 {
			p.last[sequenceKey{i.handle, kind}] = n
		}
	}
}

// repeated reports whether the log has an event, which the producer sends again. A book may begin
// with the state after the number that is stored.
func (p *producer) repeated(i *instrument, e *market.Event) bool {
	if p.resumed == nil || e.Sequence == 0 {
		return false
	}
	c, ok := feed.ChannelOf(e.Kind)
	n := p.resumed.held[heldKey{i.id, c}]
	if e.Kind == market.KindSnapshot {
		return ok && e.Sequence < n
	}
	return ok && e.Sequence <= n
}

// published notes the numbers of a batch that was published. They are acknowledged when they are
// stored.
func (r *resumption) published(batch []entry) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range batch {
		e := &batch[k]
		if e.loss != nothingLost || e.instrument == nil || e.event.Sequence == 0 {
			continue
		}
		if c, ok := feed.ChannelOf(e.event.Kind); ok {
			r.newest[heldKey{e.instrument.id, c}] = feed.Held{Handle: e.instrument.handle, ID: e.instrument.id, Channel: c, Sequence: e.event.Sequence}
		}
	}
	if len(r.newest) > 0 {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// take returns the numbers that were published since the last call.
func (r *resumption) take() (list []feed.Held) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.newest {
		list = append(list, x)
	}
	clear(r.newest)
	return list
}

// acknowledge answers with the numbers that are stored, until ctx ends.
func (p *producer) acknowledge(ctx context.Context) {
	r := p.resumed
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		}
		list := r.take()
		for err := r.sink.AwaitStored(ctx, list); err != nil; err = r.sink.AwaitStored(ctx, list) {
			if pause(ctx, time.Second) != nil { // the journal may have space again
				return
			}
		}
		p.answer(append(appendHeld([]byte(`{"type":"Ack"`), list), '}'))
		if p.flush() != nil || pause(ctx, ackPause) != nil {
			return
		}
	}
}
