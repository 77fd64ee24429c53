package hub

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/engine/bars"
	"github.com/ruedahq/rueda/internal/engine/book"
	"github.com/ruedahq/rueda/internal/engine/catalogue"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/internal/engine/steplock"
	"github.com/ruedahq/rueda/internal/engine/tier"
	"github.com/ruedahq/rueda/market"
)

// A hub is built in layers. Each layer embeds the one below, and calls nothing above it:
//
//	sequencer   turns events into rows: it assigns N and position, and appends to the journal
//	applier     applies rows: it changes the state of instruments, and encodes messages
//	publisher   appends messages to rings, commits rows, and wakes shards
//	directory   finds instruments and markets
//	core        configuration, the lock and the clock
//
// The lock of the core guards all layers, except where a comment states otherwise.

// core has what all layers use.
type core struct {
	cfg   Config
	log   *slog.Logger
	epoch atomic.Pointer[string]

	made   time.Time     // time of New, with the monotonic clock
	madeAt int64         // time of New by the wall clock, Unix ns; for a hub that follows another one, see LogTime
	cut    int64         // since when a hub that follows another one lacks its newest rows, Unix ns; or 0
	logAge int64         // of a hub that follows another one: the log's time since madeAt, in ns
	kick   chan struct{} // wakes Run: something is due earlier than Run expects

	mu steplock.Mutex
}

// clock returns the nanoseconds since the hub was made. A step of the wall clock does not change
// it.
func (h *core) clock() int64 { return int64(time.Since(h.made)) }

// now returns the time of publication, Unix ns.
func (h *core) now() int64 {
	if h.cfg.Now != nil {
		return h.cfg.Now()
	}
	return time.Now().UnixNano()
}

// age returns the time since madeAt by which data is delayed, in ns.
func (h *core) age() int64 {
	if h.cfg.Following {
		return h.logAge
	}
	return h.clock()
}

// present returns the time by which data is delayed, Unix ns.
func (h *core) present() int64 {
	if h.cfg.Following {
		return h.madeAt + h.logAge
	}
	return time.Now().UnixNano()
}

// kickClock wakes Run, which checks what is due.
func (h *core) kickClock() {
	select {
	case h.kick <- struct{}{}:
	default:
	}
}

func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Epoch returns the name of the numbering.
func (h *core) Epoch() string { return *h.epoch.Load() }

// publisher appends messages to the rings of topics. It shows them to shards when their rows are in
// the journal.
type publisher struct {
	directory

	position   uint64 // position of the newest row
	topics     map[Item]*Topic
	readBy     map[readKey][]*Topic                             // the topics of all tiers of a channel and identifier
	patterns   [state.MarketStatus + 1][catalogue.NumShapes]int // number of topics of patterns, by shape
	generation [state.MarketStatus + 1]uint32                   // increases when a topic of a pattern is added or removed
	ports      []*Port
	taken      chan struct{} // closed at a shard's next Turn; nil: nobody waits
	replicas   []*replica    // one for each delay that is served
	delays     []int         // in seconds; one for each replica
	reaches    []reach       // clients that wait for rows
	ending
	shared state.Shared
	commits
	memory  memory
	encoder tier.Encoder
	scratch scratch
}

// scratch is reused memory.
type scratch struct {
	changes []book.Change
	levels  book.Levels
	quote   [2]market.Level
	row     journal.Row
}

// applier applies rows of this hub, or of the hub that it follows.
type applier struct {
	publisher

	trading   bars.Clocks
	conflated tier.Schedule[dirtyTier]
}

// sequencer turns events into rows.
type sequencer struct {
	applier

	given   given
	untimed []*Instrument // defined, and published when the time of their virtual clocks is known
}

func newSequencer(cfg Config) sequencer {
	return sequencer{applier: applier{
		trading: bars.NewClocks(),
		publisher: publisher{
			topics:  make(map[Item]*Topic),
			readBy:  make(map[readKey][]*Topic),
			commits: commits{kicked: make(chan struct{}, 1)},
			memory:  memory{limit: cfg.Memory},
			shared:  state.NewShared(cfg.RecentBytes),
			directory: directory{
				venues:   make(map[string]*Instrument),
				unlisted: make(map[market.InstrumentID]*Instrument),
				zones:    make(map[string]*time.Location),
				core: core{cfg: cfg, log: cfg.Logger, made: time.Now(), madeAt: time.Now().UnixNano(),
					kick: make(chan struct{}, 1)},
			},
		},
	}}
}
