package hub

import (
	"errors"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/engine/position"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Wanted is an instrument of a Snapshot, with the data that may be sent.
type Wanted struct {
	ID     market.InstrumentID
	Trades bool
	Quotes bool
	Delay  int // seconds; one of Config.Delays, or 0
}

// Snapshot appends a JSON object for each listed instrument of list (state.AppendSnapshot),
// separated by commas. The objects have the state at the position that Snapshot returns, so that a
// client can resume from it. They may contain uncommitted rows: call AwaitCommit before you send
// them.
func (h *Hub) Snapshot(dst []byte, list []Wanted) (_ []byte, epoch, pos string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	comma := false
	places := []position.Delayed{}
	for _, w := range list {
		i := slices.IndexFunc(places, func(x position.Delayed) bool { return x.Delay == w.Delay })
		if i < 0 {
			i = len(places)
			places = append(places, position.Delayed{Delay: w.Delay, Position: h.reached(w.Delay)})
		}
		in := h.lookupItem(Item{ID: w.ID, Tier: Tier{Delay: w.Delay}})
		if in == nil {
			continue
		}
		places[i].Position = max(places[i].Position, in.pos)
		if comma {
			dst = append(dst, ',')
		}
		comma = true
		dst = in.AppendSnapshot(dst, w.Trades, w.Quotes)
	}
	if len(places) == 0 {
		return dst, h.Epoch(), position.At(h.committed).Text(h.Epoch())
	}
	return dst, h.Epoch(), position.Of(places).Text(h.Epoch())
}

// Figures are figures of a Hub for monitoring.
type Figures struct {
	Instruments, Topics int
	Position, Committed uint64        // of the newest row, and of the newest one that clients receive
	Memory, MemoryLimit int64         // bytes that count toward Config.Memory, and that limit
	Relief              int           // level of relief
	LongestWait         time.Duration // for the lock; see steplock.Mutex.Longest
}

// Figures returns the present figures.
func (h *Hub) Figures() Figures {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Figures{
		Instruments: len(h.groups.All()), Topics: len(h.topics), Position: h.position, Committed: h.committed,
		Memory: h.used(), MemoryLimit: h.memory.limit, Relief: int(h.memory.level.Load()), LongestWait: h.mu.Longest(),
	}
}

// ErrStale states that a book is not known at present. Its feed has sent no snapshot yet, or has
// lost events and has not sent a snapshot since.
var ErrStale = errors.New("order book not known at present")

// AppendBook appends an O message with R:true. It contains the book of an instrument at the depth
// and the delay of a tier. Call AwaitCommit before you send it. AppendBook returns
// market.ErrUnknownInstrument, ErrNoBook or ErrStale if there is no such book.
func (h *Hub) AppendBook(dst []byte, id market.InstrumentID, tier Tier) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	in := h.lookupItem(Item{ID: id, Tier: tier})
	switch {
	case in == nil:
		return dst, market.ErrUnknownInstrument
	case in.Def.NoBook:
		return dst, ErrNoBook
	case in.Stale, in.Sequences[wire.OrderBook].N == 0:
		return dst, ErrStale
	}
	return h.encoder.AppendBook(dst, &in.Instrument, tier.Depth), nil
}

// ErrNoBook states that an instrument has no order book.
var ErrNoBook = errors.New("the instrument has no order book")
