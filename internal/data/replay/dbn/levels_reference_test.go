package dbn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
	"github.com/ruedahq/rueda/market"
)

// plainLevels reads records of levels, trades and status as the specification of DBN describes
// them.
type plainLevels struct {
	version       byte
	schema        uint16
	count         int // records
	known         map[string]*replaytest.Plain
	names         map[uint32]string
	pending       map[uint32][]byte // the newest record of an event that has not ended
	quotes        map[uint32][]byte // the newest pair of levels
	time, receive uint64
}

// read reads the header or a record.
func (r *plainLevels) read(m []byte) map[string]*replaytest.Plain {
	le := binary.LittleEndian
	if m == nil {
		r.showAll()
		return r.known
	}
	if bytes.HasPrefix(m, []byte("DBN")) {
		return r.known
	}
	r.count++
	id := le.Uint32(m[4:])
	wanted := map[uint16]byte{replaytest.SchemaMBP10: 10, replaytest.SchemaMBP1: 1, replaytest.SchemaTBBO: 1, replaytest.SchemaTrades: 0}[r.schema]
	switch {
	case m[1] == 0x16: // symbol mapping
		symbol := m[38:60]
		if r.version > 1 {
			symbol = m[89:160]
		}
		r.names[id] = string(bytes.TrimRight(symbol, "\x00"))
		return r.known
	case m[1] != wanted && m[1] != 0x12:
		return r.known
	}
	t, receive := le.Uint64(m[8:]), le.Uint64(m[32:])
	if m[1] == 0x12 {
		receive = le.Uint64(m[16:])
	}
	if t != r.time && receive != r.receive { // the time has advanced: all events have ended
		r.showAll()
	}
	r.time, r.receive = t, receive
	if r.names[id] == "" {
		r.names[id] = fmt.Sprint(id)
	}
	s := r.known[r.names[id]]
	if s == nil {
		s = &replaytest.Plain{}
		r.known[r.names[id]] = s
	}
	if m[1] == 0x12 {
		phase := map[uint16]string{1: "pre_open", 2: "auction", 3: "quoting", 7: "open", 8: "halt", 9: "pause", 12: "closed", 13: "post_close"}[le.Uint16(m[24:])]
		reason := map[uint16]string{30: "news_pending", 50: "volatility_pause"}[le.Uint16(m[26:])]
		if phase != "" {
			s.Log = append(s.Log, replaytest.Line("status", phase, t, reason))
		}
		return r.known
	}
	r.record(id, s, m)
	return r.known
}

func (r *plainLevels) record(id uint32, s *replaytest.Plain, m []byte) {
	le := binary.LittleEndian
	price, size, action, side, flags := int64(le.Uint64(m[16:])), int64(le.Uint32(m[24:])), m[28], m[29], m[30]
	trade := func() {
		if size > 0 && price != replaytest.Undefined && price%10 == 0 {
			s.Log = append(s.Log, replaytest.Line("trade", "", price/10, size*1e8, 0, 0, le.Uint64(m[8:]), map[byte]string{'B': "buy", 'A': "sell"}[side]))
		}
	}
	switch {
	case r.schema == replaytest.SchemaTrades:
		trade()
		return
	case r.schema == replaytest.SchemaTBBO: // the quote before the trade
		r.show(id, m)
		trade()
		return
	case action == 'T':
		trade()
	}
	r.pending[id] = m
	if flags&(replaytest.Last|replaytest.BadBook) != 0 {
		r.show(id, m)
	}
}

// showAll ends all events.
func (r *plainLevels) showAll() {
	for id, m := range r.pending {
		r.show(id, m)
	}
}

// show ends the event of an instrument with its newest record.
func (r *plainLevels) show(id uint32, m []byte) {
	delete(r.pending, id)
	le, s := binary.LittleEndian, r.known[r.names[id]]
	field := func(at int) int64 { return int64(le.Uint64(m[at:])) }
	size := func(at int) int64 { return int64(le.Uint32(m[at:])) * 1e8 }
	if r.schema != replaytest.SchemaMBP10 {
		bid, ask := field(48), field(56)
		exact := (bid == replaytest.Undefined || bid%10 == 0) && (ask == replaytest.Undefined || ask%10 == 0)
		if exact && !bytes.Equal(m[48:80], r.quotes[id]) {
			r.quotes[id] = bytes.Clone(m[48:80])
			s.Log = append(s.Log, replaytest.Quote(field(8), bid/10, size(64), ask/10, size(68)))
		}
		return
	}
	levels, wrong := map[replaytest.PlainLevel]int64{}, ""
	for side, at := range []int{48, 56} {
		last := int64(0)
		for i := range 10 {
			p := field(at + 32*i)
			if p == replaytest.Undefined {
				continue
			}
			if p%10 != 0 && wrong == "" {
				wrong = "inexact_price"
			}
			if last != 0 && (p >= last) != (side == 1) && wrong == "" {
				wrong = "unordered_levels"
			}
			last = p
			levels[replaytest.PlainLevel{Sell: side == 1, Price: p / 10}] = size(64 + 4*side + 32*i)
		}
	}
	if m[30]&replaytest.BadBook != 0 {
		wrong = "upstream_gap"
	}
	if wrong != "" && s.Known {
		s.Log = append(s.Log, replaytest.Line("gap", wrong))
	}
	s.Known, s.Levels = wrong == "", levels
}

// randomLevels writes records of levels, trades and status of three instruments, and others.
func randomLevels(rng *rand.Rand, w *replaytest.DBN, schema uint16, n int) (records [][]byte) {
	from := 0
	cut := func() {
		records = append(records, w.Bytes[from:len(w.Bytes):len(w.Bytes)])
		from = len(w.Bytes)
	}
	w.Header("XNAS.ITCH", schema)
	cut()
	if rng.IntN(2) == 0 {
		w.SymbolMapping(&rec{Instrument: 33}, "LIVE")
		cut()
	}
	var books [3]market.OrderBook
	var live [3][]uint64
	at, receive, id := int64(1), int64(1), uint64(0)
	for range n {
		i := rng.IntN(len(books))
		if id++; len(live[i]) < 3 || rng.IntN(2) == 0 {
			side := market.Side(1 + rng.IntN(2))
			price := 1000 + market.Price(1+rng.IntN(14))*market.Price(2*int(side)-3)
			_, _ = books[i].Add(id, side, price*market.Scale/100, market.Size(1+rng.IntN(5))*market.Scale)
			live[i] = append(live[i], id)
		} else {
			k := rng.IntN(len(live[i]))
			_, _, _ = books[i].Delete(live[i][k])
			live[i] = append(live[i][:k], live[i][k+1:]...)
		}
		at, receive = at+rng.Int64N(2), receive+rng.Int64N(3)
		r := &rec{Instrument: uint32(32 + i), Time: begin + at, Receive: begin + receive, Sequence: uint32(id)}
		r.Action, r.Side, r.Price, r.Size = "ACMTT"[rng.IntN(5)], "BAN"[rng.IntN(3)], replaytest.Nano(market.Price(1000+rng.IntN(9))*market.Scale/100), rng.Uint32N(4)
		switch rng.IntN(40) {
		case 0:
			r.Price++
		case 1:
			r.Price = replaytest.Undefined
		case 2:
			w.Status(r, [...]uint16{0, 1, 2, 3, 7, 8, 9, 12, 13}[rng.IntN(9)], [...]uint16{0, 30, 50}[rng.IntN(3)])
			cut()
		case 3:
			w.Other(r, 0x18, 64) // statistics
			cut()
		case 4:
			w.MBO(r) // of another schema
			cut()
		}
		if rng.IntN(5) < 3 {
			r.Flags |= replaytest.Last
		}
		if rng.IntN(20) == 0 {
			r.Flags |= replaytest.Snapshot
		}
		pairs := replaytest.Pairs(books[i].Book())
		switch k := rng.IntN(60); {
		case k == 0:
			r.Flags |= replaytest.BadBook
		case k == 1 && len(pairs) > 0 && pairs[0].Bid != replaytest.Undefined:
			pairs[0].Bid++
		case k == 2 && len(pairs) > 1 && pairs[1].Ask != replaytest.Undefined:
			pairs[0].Ask, pairs[1].Ask = pairs[1].Ask, pairs[0].Ask
		}
		switch schema {
		case replaytest.SchemaMBP10:
			w.Levels(r, 10, pairs...)
		case replaytest.SchemaTrades:
			r.Action = 'T'
			w.Levels(r, 0)
		case replaytest.SchemaTBBO:
			r.Action = 'T'
			w.Levels(r, 1, pairs...)
		default:
			w.Levels(r, 1, pairs...)
		}
		cut()
	}
	return records
}

// TestReferenceLevels compares the decoder with a plain reader on random files of MBP-10, MBP-1,
// TBBO and trades.
func TestReferenceLevels(t *testing.T) {
	seeds := 300
	if os.Getenv("RUEDA_SOAK") != "" {
		seeds = 5000
	}
	books, gaps, quotes, trades := 0, 0, 0, 0
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 43))
		w := replaytest.DBN{Version: byte(1 + rng.IntN(3)), SendTime: rng.IntN(2) == 0}
		schema := [...]uint16{replaytest.SchemaMBP10, replaytest.SchemaMBP10, replaytest.SchemaMBP1, replaytest.SchemaTBBO, replaytest.SchemaTrades}[rng.IntN(5)]
		r := &plainLevels{version: w.Version, schema: schema, known: map[string]*replaytest.Plain{}, names: map[uint32]string{}, pending: map[uint32][]byte{}, quotes: map[uint32][]byte{}}
		c := replaytest.Comparison{Decoder: New(Config{}), Records: randomLevels(rng, &w, schema, 300), Read: r.read}
		c.Count = len(c.Records) - 1
		if err := c.Run(); err != nil {
			t.Fatalf("seed %d, schema %d: %v", seed, schema, err)
		}
		books, gaps, quotes, trades = books+c.Books, gaps+c.Stats.Gaps, quotes+c.Stats.Quotes, trades+c.Stats.Trades
	}
	if books < 100*seeds || gaps < seeds || quotes < 10*seeds || trades < 10*seeds {
		t.Errorf("%d books compared, %d gaps, %d quotes, %d trades", books, gaps, quotes, trades)
	}
}
