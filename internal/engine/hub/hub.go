package hub

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/readjob"
	"github.com/ruedahq/rueda/market"
)

// Config has the settings of a Hub. The zero value is ready for use.
type Config struct {
	Epoch       string                // name of the numbering; "": New makes a new one
	Markets     []market.Market       // known before their instruments are defined
	TradesKept  int                   // rows kept for each instrument for resume; 0: 10,000
	Delays      []time.Duration       // delays of delayed data, in whole seconds; needs Journal
	PerTurn     int                   // most messages of a topic that a shard takes in one turn, while at most 64 KiB of it wait; 0: all
	RecentBytes int64                 // bytes of rows kept for all instruments; trades that bars are counted from may use as much again; 0: 256 MiB
	Memory      int64                 // bytes of rings, rows kept, replays and the output of slow clients together; 0: 1 GiB
	Journal     *journal.Journal      // stores the numbered rows, and serves history; nil: no rows are stored
	Restoring   func(done, total int) // called during Restore with numbers of instruments; nil: no calls
	Logger      *slog.Logger          // nil: logs are discarded
	Following   bool                  // the hub applies the rows of another hub; callers use Follow instead of Publish
	Log         RowLog                // takes the numbered rows instead of Journal, which is then nil; nil: see Journal
	Now         func() int64          // time of publication, Unix ns, from any goroutine; nil: the clock of this machine
}

// RowLog takes the rows that a hub numbers, such as the log of a cluster. The hub calls it under
// its lock, so its methods must not block.
type RowLog interface {
	// Define returns the permanent number of an instrument in the log, and stores its definition,
	// which may change.
	Define(def market.Instrument) (number uint32)
	// Append adds a row and does not retain it.
	Append(r *journal.Row)
}

// Hub numbers market events, keeps the books, encodes each message once and appends it to the rings
// of its readers. It is a feed.Sink.
//
// layers.go describes its layers. Hub itself has the operations of feeds, restarts, replicas and
// readers of the journal.
type Hub struct {
	sequencer

	// feeding makes events of other feeds wait until an event has been applied, because an event of
	// a whole market releases mu now and then. It is taken before mu.
	feeding sync.Mutex

	restored uint64         // position at the end of Restore
	timed    bool           // LogTime was called
	followed []*Instrument  // by number in the journal of the hub that this one follows
	jobs     *readjob.Queue // reads of the journal for shards
}

// New returns a Hub. It logs the markets and time zones of cfg that it cannot use.
func New(cfg Config) *Hub {
	if cfg.TradesKept <= 0 {
		cfg.TradesKept = 10_000
	}
	if cfg.RecentBytes <= 0 {
		cfg.RecentBytes = 256 << 20
	}
	if cfg.Memory <= 0 {
		cfg.Memory = defaultMemory
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Epoch == "" {
		cfg.Epoch = "e" + strings.ToLower(rand.Text()[:12])
	}
	h := &Hub{sequencer: newSequencer(cfg), jobs: readjob.New()}
	h.epoch.Store(&cfg.Epoch)
	for _, d := range cfg.Delays {
		if d = d.Truncate(time.Second); d > 0 && cfg.Journal != nil && !h.Serves(int(d/time.Second)) {
			h.replicas = append(h.replicas, newReplica(h, int64(d), len(h.replicas)))
			h.delays = append(h.delays, int(d/time.Second))
		}
	}
	for _, m := range cfg.Markets {
		if err := h.PutMarket(m); err != nil {
			h.log.Error("market not listed as configured", "market", m.ID, "error", err)
		}
	}
	return h
}

// Define lists an instrument or changes its definition; see feed.Sink. A pattern *|MARKET|* lists a
// market as a whole. The error states why the definition is not valid.
func (h *Hub) Define(def market.Instrument) (market.Handle, error) {
	h.feeding.Lock()
	defer h.feeding.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.endOnPanic()
	def.Timezone = h.zoneOf(def.ID.Market).String()
	in, fresh, err := h.define(def)
	switch {
	case err != nil:
		return 0, err
	case in.Venue:
	case fresh:
		h.list(in)
		h.published()
	case slices.Contains(h.untimed, in) && (def.Listed != 0 || !def.VirtualClock):
		h.untimed = slices.DeleteFunc(h.untimed, func(x *Instrument) bool { return x == in })
		h.list(in)
		h.published()
	case in.unfed:
		h.fed(in)
	}
	return in.handle, nil
}

// PutMarket lists a market, or replaces what is known of one except for its time zone. An unknown
// zone is an error, and the trading days of a new market then go by UTC.
func (h *Hub) PutMarket(m market.Market) error {
	zone, unknown := time.LoadLocation(m.Timezone)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.HasMarket(m.ID) && (unknown != nil || cmp.Or(h.zones[m.ID], time.UTC).String() != zone.String()) {
		return fmt.Errorf("market %s: another time zone, %q, needs a restart", m.ID, m.Timezone)
	}
	if err := h.catalog.PutMarket(m); err != nil {
		return err
	}
	h.zones[m.ID] = zone
	h.version++
	return unknown
}

// define defines an instrument or a market as a whole, or changes its definition. fresh reports
// whether it is new. The hub's lock is held.
func (h *Hub) define(def market.Instrument) (in *Instrument, fresh bool, err error) {
	if def.ID.Symbol == market.Any && def.ID.Term == market.Any {
		return h.defineVenue(def)
	}
	i, err := h.catalog.Add(def)
	if err != nil {
		return nil, false, err
	}
	h.version++
	if i < len(h.groups.All()) {
		in := h.groups.All()[i]
		in.Def = def
		h.setClock(in)
		h.noteBook(in)
		h.enlist(in)
		for _, x := range in.later {
			x.Def = def
			h.setClock(x)
		}
		return in, false, nil
	}
	in = h.newInstrument(def)
	h.enter(in, i)
	return in, true, nil
}

func (h *Hub) defineVenue(def market.Instrument) (in *Instrument, fresh bool, err error) {
	if v, ok := h.venues[def.ID.Market]; ok {
		v.Def = def
		h.setClock(v)
		h.enlist(v)
		return v, false, nil
	}
	if _, ok := h.catalog.Market(def.ID.Market); !ok {
		if err := h.catalog.PutMarket(market.Market{ID: def.ID.Market}); err != nil {
			return nil, false, err
		}
	}
	in = h.newInstrument(def)
	h.venues[def.ID.Market] = in
	return in, true, nil
}

func (h *Hub) newInstrument(def market.Instrument) *Instrument {
	in := h.restoreInstrument(def)
	if in == nil {
		in = h.makeInstrument(def, nil)
	}
	in.handle = market.Handle(len(h.handles))
	h.handles = append(h.handles, in)
	h.enlist(in)
	h.followNew(in)
	return in
}
