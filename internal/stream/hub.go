package stream

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/book"
	"github.com/ruedahq/rueda/internal/catalogue"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/position"
	"github.com/ruedahq/rueda/internal/state"
	"github.com/ruedahq/rueda/market"
)

// Config of a Hub. The zero value is ready for use.
type Config struct {
	Epoch      string           // of the numbering; "" makes a new one
	Markets    []market.Market  // known before their instruments are defined
	TradesKept int              // rows an instrument kept for resume; 0: 10,000
	Delays     []time.Duration  // delays that data are served at besides at once, in whole seconds; not without Journal
	PerTurn    int              // messages of a topic that a shard takes in one turn at most, while few wait; 0: all
	TapeBytes  int64            // bytes of rows kept for all instruments, and once more of trades that bars are counted from; 0: 256 MiB
	Memory     int64            // bytes of rings, rows kept, replays and the output of slow clients together; 0: 1 GiB
	Journal    *journal.Journal // of what is numbered, and where history comes from; nil: none is kept
	Logger     *slog.Logger     // nil discards
	Following  bool             // the hub applies the rows of another one: Follow is called instead of Publish
}

// Hub numbers market events, keeps the books, encodes each message once and puts
// it where its readers are. It is a feed.Sink.
type Hub struct {
	cfg   Config
	log   *slog.Logger
	epoch string

	made   time.Time     // with the monotonic clock
	madeAt int64         // the same by the wall clock, Unix ns
	kick   chan struct{} // the clocks have something to do

	// An event of a whole market releases mu now and then. Events of other feeds wait until it has
	// been applied. It is taken before mu.
	feeding sync.Mutex

	mu         lock
	position   uint64 // of the newest message of the whole stream
	catalog    catalogue.Catalogue
	listed     []*instrument             // by index in the catalogue
	handles    []*instrument             // by handle: listed instruments and venues
	venues     map[string]*instrument    // a market as a whole, *|MARKET|*
	zones      map[string]*time.Location // of markets; nil where it is not known
	numbered   []*instrument             // by number in the journal, those not defined again yet too
	topics     map[topicKey]*topic
	readBy     map[readKey][]*topic                             // the same, of all tiers
	patterns   [state.MarketStatus + 1][catalogue.NumShapes]int // topics of patterns, by shape
	generation [state.MarketStatus + 1]uint32                   // rises when a topic of a pattern comes or goes
	groups
	listings listings
	shards   []*Shard
	version  uint64 // of the catalogue, for ETags
	clocks   [len(conflations)]clock
	replicas []*replica // one for each delay that is served
	restored uint64     // the position when the journal was taken up
	trading  tradingClocks
	shared   state.Shared
	commits
	asleep   map[market.InstrumentID]*instrument // of the journal, which has no row of them any more; not defined again yet
	fetches  []fetch                             // rows of the journal that items wait for
	searches []*Search                           // starts that are to be found in the journal
	followed map[uint32]*instrument              // by number in the journal of the hub that this one follows
	readers  bool                                // Run answers those
	fetching chan struct{}                       // there are some
	taken    chan struct{}                       // closed at a shard's next Turn; nil: nobody waits
	scratch  scratch
	memory   memory
}

// scratch is the hub's reused memory; guarded by its lock.
type scratch struct {
	payload, frame, sum []byte
	changes             []book.Change
	levels, top         book.Levels
	quote               [2]market.Level
	row                 journal.Row
}

// New makes a Hub.
func New(cfg Config) *Hub {
	if cfg.TradesKept <= 0 {
		cfg.TradesKept = 10_000
	}
	if cfg.TapeBytes <= 0 {
		cfg.TapeBytes = 256 << 20
	}
	if cfg.Memory <= 0 {
		cfg.Memory = defaultMemory
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Hub{
		cfg: cfg, log: cfg.Logger, epoch: cfg.Epoch,
		venues:   make(map[string]*instrument),
		zones:    make(map[string]*time.Location),
		topics:   make(map[topicKey]*topic),
		readBy:   make(map[readKey][]*topic),
		kick:     make(chan struct{}, 1),
		commits:  commits{kicked: make(chan struct{}, 1)},
		fetching: make(chan struct{}, 1),
		made:     time.Now(),
		madeAt:   time.Now().UnixNano(),
		memory:   memory{limit: cfg.Memory},
		shared:   state.NewShared(cfg.TapeBytes),
		trading:  tradingClocks{byKey: make(map[clockKey]*tradingClock)},
	}
	if h.epoch == "" {
		h.epoch = "e" + strings.ToLower(rand.Text()[:12])
	}
	for _, d := range cfg.Delays {
		if d = d.Truncate(time.Second); d > 0 && cfg.Journal != nil && h.replica(int(d/time.Second)) == nil {
			h.replicas = append(h.replicas, newReplica(h, int64(d), len(h.replicas)))
		}
	}
	for _, m := range cfg.Markets {
		if err := h.catalog.PutMarket(m); err != nil {
			h.log.Error("market not listed", "market", m.ID, "error", err)
			continue
		}
		zone, err := time.LoadLocation(m.Timezone)
		if err != nil {
			h.log.Error("trading days go by UTC", "market", m.ID, "error", err)
		}
		h.zones[m.ID] = zone
	}
	return h
}

// Epoch names the numbering.
func (h *Hub) Epoch() string { return h.epoch }

// Position returns the epoch, and the position of the newest message that is committed.
func (h *Hub) Position() (epoch, pos string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.commit()
	return h.epoch, position.At(h.committed).Text(h.epoch)
}

// Define lists an instrument or changes its definition; see feed.Sink. A pattern
// *|MARKET|* lists a market as a whole.
func (h *Hub) Define(def market.Instrument) (market.Handle, error) {
	h.feeding.Lock()
	defer h.feeding.Unlock()
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.endOnPanic()
	in, fresh, err := h.define(def)
	switch {
	case err != nil:
		return 0, err
	case in.Venue:
	case fresh:
		h.list(in)
		h.published()
	case in.unfed:
		h.fed(in)
	}
	return in.handle, nil
}

// define defines an instrument or a market as a whole, or changes its definition; fresh is false
// then. The hub's lock is held.
func (h *Hub) define(def market.Instrument) (in *instrument, fresh bool, err error) {
	if def.ID.Symbol == market.Any && def.ID.Term == market.Any {
		return h.defineVenue(def)
	}
	i, err := h.catalog.Add(def)
	if err != nil {
		return nil, false, err
	}
	h.version++
	if i < len(h.listed) {
		in := h.listed[i]
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
	h.enterCatalogue(in, i)
	return in, true, nil
}

// enterCatalogue puts an instrument where all are found that have an index in the catalogue.
func (h *Hub) enterCatalogue(in *instrument, index int) {
	in.index = uint32(index)
	for _, x := range in.later {
		x.index = in.index
	}
	h.listed = append(h.listed, in)
	h.enterGroups(in)
}

func (h *Hub) defineVenue(def market.Instrument) (in *instrument, fresh bool, err error) {
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

func (h *Hub) newInstrument(def market.Instrument) *instrument {
	in := h.wakeUp(def)
	if in == nil {
		in = h.makeInstrument(def, nil)
	}
	in.handle = market.Handle(len(h.handles))
	h.handles = append(h.handles, in)
	h.enlist(in)
	h.followNew(in)
	return in
}

// list tells what an instrument is when it is listed: its status is number 1 of
// that channel, and a book known to be empty is number 1 of that. One that the journal
// knows goes on with its numbers, and tells its status where it is another.
func (h *Hub) list(in *instrument) {
	now := time.Now().UnixNano()
	at := now
	if in.Def.Listed != 0 {
		at = in.Def.Listed
	}
	was := in.Phase
	switch {
	case in.Def.Phase != market.NoPhase:
		in.Phase = in.Def.Phase
	case was == market.NoPhase:
		in.Phase = market.Open
	}
	if was != in.Phase || in.Statuses.Last == 0 {
		in.Reason, in.Until = "", 0
		h.status(in, &market.Event{Kind: market.KindStatus, Phase: in.Phase, Receive: at}, now)
	}
	if in.Def.StartsEmpty && !in.Def.NoBook {
		h.bookState(in, state.Stamp{Time: at, Latency: -1}, now)
	}
}

// AwaitTurn waits until every shard has taken note of all that was published until
// now, but for the newest messages, as many as it may be behind. A feed whose events are not bound to
// time holds itself back by it. The error is that of ctx.
func (h *Hub) AwaitTurn(ctx context.Context, behind uint64) error {
	h.mu.Lock()
	until := h.position - min(h.position, behind)
	for !h.takenUpTo(until) {
		if h.taken == nil {
			h.taken = make(chan struct{})
		}
		taken := h.taken
		h.mu.Unlock()
		select {
		case <-taken:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		h.mu.Lock()
	}
	h.mu.Unlock()
	return nil
}

// takenUpTo says whether no shard has yet to take note of something up to a position.
func (h *Hub) takenUpTo(pos uint64) bool {
	if pos > h.committed && len(h.grown)+len(h.marks) > 0 {
		return false
	}
	for _, s := range h.shards {
		if len(s.touched) > 0 && s.position < pos {
			return false
		}
	}
	return true
}

func (h *Hub) wakeShards() {
	for _, s := range h.shards {
		s.wakeIfTouched()
	}
}
