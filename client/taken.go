package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"sync"
)

// taken has the entries that Events has taken from the queue, a few at a time, and what the program
// has processed. Its lock is taken before Client.mu.
type taken struct {
	mu      sync.Mutex
	entries []entry
	next    int  // entries before it were given to the program
	inUse   bool // the program processes the last of them
	done    progress
}

// progress is what a Checkpoint is made of.
type progress struct {
	epoch, position string
	epochs          int       // counts epochs, from 1
	series          []*series // of which the program has processed something in the epoch
}

// take returns the next event, after the program has processed the last one; nil: nothing for the
// program. ok is false if there is none. A merged book gets its state.
func (c *Client) take() (ev Event, ok bool) {
	t := &c.taken
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish()
	if t.next == len(t.entries) {
		clear(t.entries)
		t.next = 0
		c.mu.Lock()
		t.entries = c.queue.takeFew(t.entries[:0])
		if len(t.entries) > 0 && t.entries[0].merged {
			c.complete(&t.entries[0])
		}
		c.mu.Unlock()
		if len(t.entries) == 0 {
			return nil, false
		}
	}
	t.next++
	t.inUse = true
	return t.entries[t.next-1].event, true
}

// complete gives a merged book its state. The caller holds the lock.
func (c *Client) complete(e *entry) {
	u, b := e.event.(*BookUpdate), c.books[e.of.Series]
	if b == nil || !b.valid || b.n != u.N {
		e.event = nil // the queue has a BookInvalid after it
		return
	}
	u.Snapshot, u.Depth, u.Previous, u.Bids, u.Asks = true, b.depth, 0, b.Bids(0), b.Asks(0)
}

// processed records that the program has processed the event in use.
func (t *taken) processed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finish()
}

// finish is processed for a caller that holds the lock.
func (t *taken) finish() {
	if !t.inUse {
		return
	}
	t.inUse = false
	e := &t.entries[t.next-1]
	if m := e.mark; m != nil {
		if t.done.epoch != m.epoch {
			t.done = progress{epoch: m.epoch, epochs: t.done.epochs + 1}
		}
		t.done.position = cmp.Or(m.position, t.done.position)
		return
	}
	s := e.of
	if s == nil || e.n == 0 || e.old || !s.Channel.Replays() {
		return
	}
	if s.epoch != t.done.epochs {
		s.epoch = t.done.epochs
		t.done.series = append(t.done.series, s)
	}
	s.done = e.n
}

// Checkpoint is what a program has processed. Stored on disk, it lets a later run of the program
// continue without a loss: see Options.Resume. Its JSON is stable.
type Checkpoint struct {
	Epoch     string            `json:"epoch"`
	Position  string            `json:"position"`
	Sequences map[string]uint64 `json:"sequences"` // newest N by series: trades GGAL|BYMA|24hs
}

// UnmarshalJSON implements json.Unmarshaler. JSON that is not a checkpoint is an error: a bot that
// resumes from it would silently begin with new data.
func (k *Checkpoint) UnmarshalJSON(text []byte) error {
	var v struct {
		Epoch, Position *string
		Sequences       map[string]uint64
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	if v.Epoch == nil || v.Position == nil {
		return errors.New("client: a checkpoint has an epoch, a position and sequences")
	}
	*k = Checkpoint{Epoch: *v.Epoch, Position: *v.Position, Sequences: v.Sequences}
	return nil
}

// Checkpoint returns what the body of the loop over Events has processed, without the event in
// progress. An event is in progress until the loop asks for the next one. After a break, that is
// when the program calls Events again.
func (c *Client) Checkpoint() Checkpoint {
	t := &c.taken
	t.mu.Lock()
	defer t.mu.Unlock()
	k := Checkpoint{Epoch: t.done.epoch, Position: t.done.position, Sequences: make(map[string]uint64, len(t.done.series))}
	for _, s := range t.done.series {
		k.Sequences[s.String()] = s.done
	}
	return k
}
