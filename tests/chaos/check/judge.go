package check

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/market"
	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// Judge checks messages against the market. Its methods may be called at the same time.
type Judge struct {
	Market  *market.Market
	Report  *Report
	Epochs  bool // there may be further epochs
	Missing bool // rows may be missing: lost is allowed, and so is complete_from

	mu     sync.Mutex
	seed   maphash.Seed
	epochs map[string]*epoch
	first  string
	final  map[string]int64
	bars   map[string]map[market.Figures]bool
}

// epoch has what is known of the numbers of an epoch.
type epoch struct {
	complete bool                        // it has every event from the first one on
	offset   map[string]int64            // by series: N less the count of the source
	seen     map[string]map[int64]uint64 // by series and N: hash of the message
	lost     map[string][]stream.Range   // by series: what a resume said
}

// NewJudge returns a judge that has seen nothing.
func NewJudge(m *market.Market, r *Report) *Judge {
	return &Judge{
		Market: m, Report: r, seed: maphash.MakeSeed(), epochs: map[string]*epoch{}, final: map[string]int64{},
		bars: map[string]map[market.Figures]bool{},
	}
}

// Clone returns a judge that knows what this one has seen, and reports elsewhere.
func (j *Judge) Clone(r *Report) *Judge {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := NewJudge(j.Market, r)
	c.Epochs, c.Missing, c.first, c.seed, c.final = j.Epochs, j.Missing, j.first, j.seed, maps.Clone(j.final)
	for name, e := range j.epochs {
		d := &epoch{complete: e.complete, offset: maps.Clone(e.offset), seen: map[string]map[int64]uint64{}, lost: map[string][]stream.Range{}}
		for series, list := range e.seen {
			d.seen[series] = maps.Clone(list)
		}
		c.epochs[name] = d
	}
	return c
}

// Epoch adds an epoch, unless it is known. The first one has every event. A further one is a
// violation unless Epochs is true.
func (j *Judge) Epoch(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.epochs[name] != nil {
		return
	}
	j.epochs[name] = &epoch{offset: map[string]int64{}, seen: map[string]map[int64]uint64{}, lost: map[string][]stream.Range{}}
	if j.first == "" {
		j.first, j.epochs[name].complete = name, true
		return
	}
	j.Report.Count("new epochs", 1)
	if !j.Epochs {
		j.Report.Violation("epoch", "%s after %s", name, j.first)
	}
}

// Lost records rows that a resume cannot replay. History must not have them.
func (j *Judge) Lost(epochName, series string, gap stream.Range) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if e := j.epochs[epochName]; e != nil && gap.Reason == "buffer_exceeded" && gap.From != 0 && gap.To != 0 {
		e.lost[series] = append(e.lost[series], gap)
	}
}

// First returns the name of the first epoch.
func (j *Judge) First() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.first
}

// Series returns the name of the series of a data message: its channel and identifier. That of bars
// has the interval as its fourth part.
func Series(m *stream.Message) string {
	switch m.Type {
	case "T", "X", "C":
		return "trades " + m.I
	case "Q":
		return "quotes " + m.I
	case "O":
		return "order_book " + m.I
	case "H":
		return "status " + m.I
	case "D":
		return "summary " + m.I
	case "K":
		return "bars " + m.I + "|" + m.IV
	}
	return ""
}

// Message checks a data message without regard to others of its connection. The book of an O is the
// whole book of the client after the message, and depth that of the last R:true.
func (j *Judge) Message(epochName string, m *stream.Message, book market.Book, depth int) {
	j.Report.Count("messages", 1)
	if wrong := j.judge(epochName, m, book, depth); wrong != "" {
		kind, _, _ := strings.Cut(wrong, ":")
		j.Report.Violation(m.Type+" "+kind, "epoch %s: %s: %s", epochName, wrong, m.Text)
	}
}

// ofGateway reports whether a status is one that the gateway makes: of a feed, or the first one of
// an instrument whose definition has none.
func ofGateway(m *stream.Message) bool {
	return m.E == "feed_down" || m.E == "feed_up" || m.E == "gap" || m.E == "unknown" ||
		m.E == "open" && m.D == nil && m.N != nil && *m.N <= 1
}

// judge returns what is wrong with a message.
func (j *Judge) judge(epochName string, m *stream.Message, book market.Book, depth int) string {
	if m.N == nil || *m.N < 0 || *m.N == 0 && !m.Snapshot() {
		return "number: N"
	}
	if m.S+strings.TrimPrefix(m.I, m.S) != m.I {
		return "symbol: S"
	}
	at, err := time.Parse(time.RFC3339Nano, m.T)
	if err != nil || market.Stamp(at) != m.T {
		return "time: T has another form"
	}
	if m.D != nil && (*m.D < 0 || at.Add(time.Duration(*m.D)).After(time.Now().Add(time.Second))) {
		return "latency: D"
	}
	if m.Type == "H" && ofGateway(m) {
		if m.E == "gap" && !j.Missing && !j.Epochs {
			return "gap: nothing was lost"
		}
		return j.same(epochName, m)
	}
	in := j.Market.Instrument(m.I)
	if in == nil {
		return "instrument: not of the market"
	}
	if m.Type == "K" {
		if wrong := j.bar(epochName, in, m, at); wrong != "" {
			return wrong
		}
		return j.same(epochName, m)
	}
	e, ok := in.At(at)
	if !ok {
		return j.without(in, m, at)
	}
	if wrong := values(in, m, e, book, depth); wrong != "" {
		return wrong
	}
	if m.Type == "D" {
		if wrong := j.summary(epochName, in, m, e); wrong != "" {
			return wrong
		}
	}
	if wrong := j.numbers(epochName, in, m, e); wrong != "" {
		return wrong
	}
	return j.same(epochName, m)
}

// without judges a message whose time is not that of an event.
func (j *Judge) without(in *market.Instrument, m *stream.Message, at time.Time) string {
	midnight := at.Equal(at.Truncate(24 * time.Hour))
	switch {
	case m.Type == "D" && m.Snapshot() && midnight:
		return "" // of a day without an event
	case m.Type == "H" && m.E == "open" && m.D == nil && in.Count(market.ChannelStatus, in.Until(at)-1) == 0:
		return "" // the market has stated no phase yet, and another sequencer of a cluster has begun
	}
	return "time: the market has no event of " + in.ID + " at " + m.T
}

// kinds has the kinds of events that make messages of a type. A quote follows from a book, and also
// from a status that ends an auction.
var kinds = map[string]string{"T": "T", "X": "X", "C": "C", "H": "H", "D": "TXCD", "O": "O", "Q": "QOH"}

// values compares a message with the event at its time.
func values(in *market.Instrument, m *stream.Message, e int64, book market.Book, depth int) string {
	kind := in.Kind(e)
	if !strings.ContainsRune(kinds[m.Type], rune(kind)) || m.Type == "Q" && (kind == 'Q') != in.OwnQuotes {
		return fmt.Sprintf("kind: event %d is %c", e, kind)
	}
	price := func(v int64) string { return market.Decimal(v, in.PriceDecimals) }
	size := func(v int64) string { return market.Decimal(v, in.SizeDecimals) }
	switch m.Type {
	case "T", "X", "C":
		t := in.Trade(e)
		want, have := []string{t.ID, price(t.P), size(t.Z), t.G}, []string{m.X, string(m.P), string(m.Z), m.G}
		if m.Type == "C" {
			want, have = append(want, price(t.XP), size(t.XZ)), append(have, string(m.XP), string(m.XZ))
		}
		if !slices.Equal(append(want, in.Conditions(t)...), append(have, m.C...)) {
			return fmt.Sprintf("trade: event %d is %+v, conditions %v", e, t, in.Conditions(t))
		}
	case "Q":
		q := in.Quote(e)
		if want, have := fmt.Sprint(price(q.Bid.P), size(q.Bid.Z), price(q.Ask.P), size(q.Ask.Z), q.Bid.Orders, q.Ask.Orders),
			fmt.Sprint(string(m.BP), string(m.BZ), string(m.AP), string(m.AZ), m.BC, m.AC); want != have {
			return fmt.Sprintf("quote: event %d is %s", e, want)
		}
	case "H":
		if p := in.Phase(e); p != (market.Phase{E: m.E, Y: m.Y, U: m.U}) {
			return fmt.Sprintf("status: event %d is %+v", e, p)
		}
	case "O":
		want := in.Book(in.Count(market.ChannelBook, e)).Top(depth)
		if !slices.Equal(want.Bids, book.Bids) || !slices.Equal(want.Asks, book.Asks) {
			return fmt.Sprintf("book: event %d is %v, the client has %v", e, want, book)
		}
		if m.K == nil || *m.K != want.Checksum(depth) {
			return fmt.Sprintf("checksum: event %d has %d", e, want.Checksum(depth))
		}
	}
	return ""
}

// summary compares a D with the day up to event e.
func (j *Judge) summary(epochName string, in *market.Instrument, m *stream.Message, e int64) string {
	if !j.isComplete(epochName) {
		return ""
	}
	want := in.Summary(e)
	have := market.Summary{
		Figures: market.Figures{
			OP: string(m.OP), HI: string(m.HI), LO: string(m.LO), Last: string(m.LA),
			TV: string(m.TV), EV: string(m.EV), VW: string(m.VW), TC: string(m.TC),
		},
		CL: string(m.CL), SE: string(m.SE), OI: string(m.OI),
	}
	if want != have {
		return fmt.Sprintf("summary: event %d has %+v", e, want)
	}
	return ""
}

// bar checks that a bar has the figures of its interval after one of the events that changed it.
func (j *Judge) bar(epochName string, in *market.Instrument, m *stream.Message, at time.Time) string {
	length := market.Length(m.IV)
	if length == 0 || !at.Equal(at.Truncate(length)) || m.R == nil {
		return "interval: of a bar"
	}
	if !j.isComplete(epochName) {
		return ""
	}
	have := barFigures(m)
	key := Series(m) + m.T
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.bars[key][have] { // computed again, because later events have come
		if len(j.bars) > 2_000 {
			clear(j.bars)
		}
		j.bars[key] = map[market.Figures]bool{}
		for _, f := range in.Bar(at, length, in.Until(time.Now())+1) {
			j.bars[key][f] = true
		}
	}
	if !j.bars[key][have] {
		return "bar: no event of the interval leads to these figures"
	}
	return ""
}

func barFigures(m *stream.Message) market.Figures {
	return market.Figures{
		OP: string(m.OP), HI: string(m.HI), LO: string(m.LO), Last: string(m.CL),
		TV: string(m.TV), EV: string(m.EV), VW: string(m.VW), TC: string(m.TC),
	}
}

func (j *Judge) isComplete(epochName string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	e := j.epochs[epochName]
	return e != nil && e.complete && !j.Missing
}

// numbers checks that N counts the events: of trades, and of summaries.
func (j *Judge) numbers(epochName string, in *market.Instrument, m *stream.Message, e int64) string {
	count := in.Count(market.ChannelTrades, e)
	switch m.Type {
	case "T", "X", "C":
	case "D":
		count += in.Count(market.ChannelFigures, e)
	default:
		return ""
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	ep := j.epochs[epochName]
	if ep == nil {
		return "epoch: the connection has not stated it"
	}
	series := Series(m)
	offset, known := ep.offset[series]
	if ep.complete {
		offset, known = 0, true
	}
	if !known {
		offset = *m.N - count
		ep.offset[series] = offset
	}
	if *m.N != count+offset {
		return fmt.Sprintf("number: event %d has N %d", e, count+offset)
	}
	if m.Type == "X" || m.Type == "C" {
		of := max(in.Count(market.ChannelTrades, in.Trade(e).Of)+offset, 0)
		if m.XN != of && !(j.Missing && m.XN == 0) {
			return fmt.Sprintf("reference: XN is %d", of)
		}
	}
	return ""
}

// same checks that a series and N always name the same message. Snapshots, books, quotes and
// summaries have the same time; others are equal.
func (j *Judge) same(epochName string, m *stream.Message) string {
	text := []byte(m.Text)
	switch {
	case m.Type == "O" || m.Type == "Q" || m.Type == "D":
		text = []byte(m.T)
	case m.Type == "H" && m.Snapshot():
		return ""
	}
	sum := maphash.Bytes(j.seed, text)
	j.mu.Lock()
	defer j.mu.Unlock()
	ep := j.epochs[epochName]
	if ep == nil {
		return "epoch: the connection has not stated it"
	}
	series := Series(m)
	if ep.seen[series] == nil {
		ep.seen[series] = map[int64]uint64{}
	}
	before, seen := ep.seen[series][*m.N]
	ep.seen[series][*m.N] = sum
	if seen && before != sum {
		return "content: this N had another one"
	}
	return ""
}
