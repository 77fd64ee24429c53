package market

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// schedule has the kind of each event of a period: T trade, X cancel, C correction, O book, Q
// quote, H status, D reference figures. Instruments that derive quotes from the book have no Q.
const schedule = "OTOQTOOTQTOXTOTQOTDTOOCTOTQTOHTO"

// Channels of an instrument, by which the source counts.
const (
	ChannelTrades  = 'T' // with cancels and corrections
	ChannelQuotes  = 'Q'
	ChannelBook    = 'O'
	ChannelStatus  = 'H'
	ChannelFigures = 'D'
)

// channelOf is the channel of a kind.
func channelOf(kind byte) byte {
	if kind == 'X' || kind == 'C' {
		return ChannelTrades
	}
	return kind
}

// Market is a market in which everything is a function of seed, instrument and event number.
type Market struct {
	Seed        uint64
	Start       time.Time     // before the first event; in UTC
	Step        time.Duration // between two events of an instrument
	Virtual     bool          // the clock of the market is not real time
	Instruments []*Instrument
	byID        map[string]*Instrument
}

// New returns a market with n instruments of market M1, term 24hs.
func New(seed uint64, start time.Time, step time.Duration, n int) *Market {
	m := &Market{Seed: seed, Start: start.UTC(), Step: step, byID: map[string]*Instrument{}}
	for i := range n {
		in := &Instrument{
			ID: fmt.Sprintf("I%02d|M1|24hs", i), market: m, seed: mix(seed, uint64(i)+1), base: 70_000 + 5_000*int64(i),
			PriceDecimals: 2 + i%2, SizeDecimals: i % 3, OwnQuotes: i%3 == 1, Orders: i%2 == 0,
		}
		m.Instruments = append(m.Instruments, in)
		m.byID[in.ID] = in
	}
	return m
}

// Instrument returns the instrument with an identifier, or nil.
func (m *Market) Instrument(id string) *Instrument { return m.byID[id] }

// Instrument is one instrument. Its events have numbers from 0 on.
type Instrument struct {
	ID            string
	PriceDecimals int
	SizeDecimals  int
	OwnQuotes     bool // quotes are events; otherwise they follow from the book
	Orders        bool // levels have a number of orders

	market *Market
	seed   uint64
	base   int64
	totals totals
}

// mix is a hash of its arguments.
func mix(values ...uint64) uint64 {
	h := uint64(0x9e3779b97f4a7c15)
	for _, v := range values {
		h ^= v + 0x9e3779b97f4a7c15
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	return h
}

func (in *Instrument) hash(kind byte, n int64) uint64 {
	return mix(in.seed, uint64(kind), uint64(n))
}

// Kind returns the kind of an event, or 0 if the instrument has none with this number.
func (in *Instrument) Kind(e int64) byte {
	kind := schedule[e%int64(len(schedule))]
	if kind == 'Q' && !in.OwnQuotes {
		return 0
	}
	return kind
}

// Channel returns the channel of an event, or 0 if the instrument has none with this number.
func (in *Instrument) Channel(e int64) byte { return channelOf(in.Kind(e)) }

// Time returns the time of an event. Times of an instrument increase.
func (in *Instrument) Time(e int64) time.Time {
	jitter := in.hash('t', e) % uint64(in.market.Step)
	return in.market.Start.Add(time.Duration(e)*in.market.Step + time.Duration(jitter))
}

// At returns the event that has exactly this time.
func (in *Instrument) At(t time.Time) (e int64, ok bool) {
	if t.Before(in.market.Start) {
		return 0, false
	}
	e = int64(t.Sub(in.market.Start) / in.market.Step)
	return e, in.Time(e).Equal(t) && in.Kind(e) != 0
}

// Until returns the number of the first event that is not before a time.
func (in *Instrument) Until(t time.Time) int64 {
	if t.Before(in.market.Start) {
		return 0
	}
	e := int64(t.Sub(in.market.Start) / in.market.Step)
	if in.Time(e).Before(t) {
		e++
	}
	return e
}

// Count returns how many events of a channel there are up to and including event e.
func (in *Instrument) Count(channel byte, e int64) int64 {
	if e < 0 {
		return 0
	}
	size := int64(len(schedule))
	count := int64(0)
	for i := range size {
		if in.Channel(i) != channel {
			continue
		}
		count += e / size
		if i <= e%size {
			count++
		}
	}
	return count
}

// Nth returns the event of a channel at which Count is n, which is at least 1.
func (in *Instrument) Nth(channel byte, n int64) int64 {
	size := int64(len(schedule))
	each := in.Count(channel, size-1)
	period := (n - 1) / each
	left := n - period*each
	for i := range size {
		if in.Channel(i) == channel {
			if left--; left == 0 {
				return period*size + i
			}
		}
	}
	panic("unreachable")
}

// Trade is a trade, a cancel or a correction.
type Trade struct {
	Kind   byte // T, X or C
	ID     string
	P, Z   int64
	XP, XZ int64  // of a correction: the old values
	G      string // B, S or unknown
	Of     int64  // event of the trade itself
}

// Trade returns the trade, cancel or correction of an event.
func (in *Instrument) Trade(e int64) Trade {
	size := int64(len(schedule))
	period := e / size
	of := func(same, earlier int64) int64 { // even periods: of the same period
		if period%2 == 0 || period < 5 {
			return period*size + same
		}
		return (period-5)*size + earlier
	}
	switch in.Kind(e) {
	case 'X':
		t := in.Trade(of(9, 7))
		t.Kind, t.Of = 'X', of(9, 7)
		return t
	case 'C':
		target := of(19, 17)
		t, h := in.Trade(target), in.hash('C', e)
		t.Kind, t.Of, t.XP, t.XZ = 'C', target, t.P, t.Z
		t.P += int64(h%9) - 4
		t.Z += 1 + int64(h>>8%50)
		return t
	}
	h := in.hash('T', e)
	t := Trade{Kind: 'T', Of: e, ID: "t" + strconv.FormatInt(e, 10), P: in.middle(in.Count(ChannelBook, e)) + int64(h%7) - 3, Z: 1 + int64(h>>8%2_000)}
	t.G = []string{"", "B", "S"}[h>>24%3]
	return t
}

// Conditions returns the conditions of a trade, also of one that is cancelled or corrected.
func (in *Instrument) Conditions(t Trade) (list []string) {
	h := in.hash('c', t.Of)
	for i := range h % 9 {
		list = append(list, fmt.Sprintf("condition-%d-%06x", i, mix(h, i)&0xffffff))
	}
	return list
}

// Phase is a trading status.
type Phase struct{ E, Y, U string }

// Phase returns the status of a status event.
func (in *Instrument) Phase(e int64) Phase {
	n, h := in.Count(ChannelStatus, e), in.hash('H', e)
	p := Phase{E: []string{"open", "halt", "open", "auction", "open", "pause", "quoting", "pre_open", "open", "suspended"}[n%10]}
	if p.E != "open" {
		p.Y = fmt.Sprintf("reason_%d", h%100)
		p.U = Stamp(in.Time(e).Add(time.Duration(h % uint64(time.Hour))))
	}
	return p
}

// Reference has figures that the market states; 0 means that it does not state one.
type Reference struct{ CL, SE, OI int64 }

// Reference returns the figures of an event.
func (in *Instrument) Reference(e int64) Reference {
	h := in.hash('D', e)
	r := Reference{SE: in.base + int64(h%100)}
	if h>>20%2 == 0 {
		r.CL = in.base - int64(h>>8%100)
	}
	if h>>21%2 == 0 {
		r.OI = 1 + int64(h>>30%10_000)
	}
	return r
}

// Stamp returns a time as the gateway writes it.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

// Definition returns the F line of the instrument.
func (in *Instrument) Definition() []byte {
	return line(map[string]any{
		"type": "F", "I": in.ID, "currency": "ARS", "price_decimals": in.PriceDecimals, "size_decimals": in.SizeDecimals,
		"own_quotes": in.OwnQuotes, "virtual_clock": in.market.Virtual, "name": "Instrument " + in.ID,
	})
}

// Line returns the line of an event. With whole, a book event is the whole book.
func (in *Instrument) Line(e int64, whole bool) []byte {
	kind := in.Kind(e)
	m := map[string]any{"type": string(kind), "I": in.ID, "T": Stamp(in.Time(e)), "SQ": in.Count(channelOf(kind), e)}
	set := func(name string, v int64, decimals int) { m[name] = json.Number(Decimal(v, decimals)) }
	switch kind {
	case 'T', 'X', 'C':
		t := in.Trade(e)
		m["X"] = t.ID
		set("P", t.P, in.PriceDecimals)
		set("Z", t.Z, in.SizeDecimals)
		if kind == 'C' {
			set("XP", t.XP, in.PriceDecimals)
			set("XZ", t.XZ, in.SizeDecimals)
		}
		if t.G != "" {
			m["G"] = t.G
		}
		if c := in.Conditions(t); c != nil {
			m["C"] = c
		}
	case 'Q':
		q := in.Quote(e)
		set("BP", q.Bid.P, in.PriceDecimals)
		set("BZ", q.Bid.Z, in.SizeDecimals)
		set("AP", q.Ask.P, in.PriceDecimals)
		set("AZ", q.Ask.Z, in.SizeDecimals)
		if in.Orders {
			m["BC"], m["AC"] = q.Bid.Orders, q.Ask.Orders
		}
	case 'O':
		in.bookLine(m, e, whole)
	case 'H':
		p := in.Phase(e)
		m["E"] = p.E
		if p.Y != "" {
			m["Y"], m["U"] = p.Y, p.U
		}
	case 'D':
		r := in.Reference(e)
		for name, v := range map[string]int64{"CL": r.CL, "SE": r.SE} {
			if v != 0 {
				set(name, v, in.PriceDecimals)
			}
		}
		if r.OI != 0 {
			set("OI", r.OI, 0)
		}
	}
	return line(m)
}

func line(m map[string]any) []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(err) // maps of texts and numbers
	}
	return append(b, '\n')
}
