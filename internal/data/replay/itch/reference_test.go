package itch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
)

// plainReader reads messages as NASDAQ's specification of TotalView-ITCH 5.0 describes them.
type plainReader struct {
	whole  bool   // the file covers a whole day
	hidden string // a stock that is not selected
	known  map[string]*replaytest.Plain
	stocks map[uint16]string
	halted map[string]bool   // at NASDAQ alone
	state  map[string]string // of all markets
	orders map[uint64]plainOrder
	prints map[uint64]string // trades, without their kind and time
}

type plainOrder struct {
	sell          bool
	price, shares int64
}

func newPlainReader(hidden string) *plainReader {
	return &plainReader{hidden: hidden, known: map[string]*replaytest.Plain{}, stocks: map[uint16]string{}, halted: map[string]bool{},
		state: map[string]string{}, orders: map[uint64]plainOrder{}, prints: map[uint64]string{}}
}

// list names a stock by its locate code.
func (r *plainReader) list(locate uint16, name []byte) {
	symbol := string(bytes.TrimRight(name, " "))
	if r.stocks[locate] = symbol; symbol != r.hidden && r.known[symbol] == nil {
		r.known[symbol] = &replaytest.Plain{Known: r.whole}
	}
}

// read reads a message with its length.
func (r *plainReader) read(record []byte) map[string]*replaytest.Plain {
	if record == nil {
		return r.known
	}
	be := binary.BigEndian
	m := record[2:]
	locate, t := be.Uint16(m[1:]), midnight+int64(be.Uint16(m[5:]))<<32+int64(be.Uint32(m[7:]))
	if m[0] == 'S' {
		if m[11] == 'O' {
			r.whole = true
		}
		if phase := map[byte]string{'S': "pre_open", 'Q': "open", 'M': "post_close", 'E': "closed"}[m[11]]; phase != "" {
			if r.known["*"] == nil {
				r.known["*"] = &replaytest.Plain{}
			}
			r.known["*"].Log = append(r.known["*"].Log, replaytest.Line("status", phase, t))
		}
		return r.known
	}
	// The stock directory names a stock, and so do these messages, in a file that lacks it.
	if at := map[byte]int{'R': 11, 'A': 24, 'F': 24, 'P': 24, 'Q': 19, 'H': 11, 'h': 11}[m[0]]; at > 0 && r.stocks[locate] == "" {
		r.list(locate, m[at:at+8])
	}
	if s := r.known[r.stocks[locate]]; s != nil {
		r.stock(s, r.stocks[locate], m, t)
	}
	return r.known
}

func (r *plainReader) stock(s *replaytest.Plain, symbol string, m []byte, t int64) {
	be := binary.BigEndian
	at := func(n int) int64 { return int64(be.Uint32(m[n:])) }
	price := func(n int) int64 { return at(n) * 10_000 }
	traded := func(match uint64, price, shares int64, more string) {
		text := replaytest.Line(match, price, shares*1e8, 0, 0, t)
		r.prints[match] = replaytest.Line(match, price, shares*1e8, 0, 0)
		s.Log = append(s.Log, replaytest.Line("trade", text+more))
	}
	change := func(o plainOrder, by int64) {
		if r.whole {
			s.Set(o.sell, o.price, s.Levels[replaytest.PlainLevel{Sell: o.sell, Price: o.price}]+by*1e8)
		}
	}
	var id uint64
	if len(m) >= 19 {
		id = be.Uint64(m[11:])
	}
	old, there := r.orders[id]
	take := func(shares int64) {
		change(old, -shares)
		if old.shares -= shares; old.shares == 0 {
			delete(r.orders, id)
		} else {
			r.orders[id] = old
		}
	}
	switch m[0] {
	case 'A', 'F':
		o := plainOrder{m[19] == 'S', price(32), at(20)}
		r.orders[id] = o
		change(o, o.shares)
	case 'E', 'C':
		if !there {
			return
		}
		p, aggressor := old.price, " sell"
		if old.sell {
			aggressor = " buy"
		}
		if m[0] == 'C' {
			p = price(32)
		}
		if m[0] == 'E' || m[31] == 'Y' {
			traded(be.Uint64(m[23:]), p, at(19), aggressor)
		}
		take(at(19))
	case 'X':
		if there {
			take(at(19))
		}
	case 'D':
		if there {
			take(old.shares)
		}
	case 'U':
		if there {
			take(old.shares)
			o := plainOrder{old.sell, price(31), at(27)}
			r.orders[be.Uint64(m[19:])] = o
			change(o, o.shares)
		}
	case 'P':
		traded(be.Uint64(m[36:]), price(32), at(20), "")
	case 'Q':
		if shares := int64(be.Uint64(m[11:])); shares > 0 {
			cross := map[byte]string{'O': " opening_cross", 'C': " closing_cross", 'H': " halt_cross", 'I': " intraday_cross"}[m[39]]
			traded(be.Uint64(m[31:]), price(27), shares, " "+cross)
		}
	case 'B':
		if text := r.prints[id]; text != "" {
			s.Log = append(s.Log, replaytest.Line("cancel", text, t))
		}
	case 'H', 'h':
		r.status(s, symbol, m, t)
	}
}

func (r *plainReader) status(s *replaytest.Plain, symbol string, m []byte, t int64) {
	reason := ""
	if m[0] == 'h' {
		if m[19] != 'Q' { // of another market
			return
		}
		before := r.halted[symbol]
		if r.halted[symbol] = m[20] == 'H'; r.halted[symbol] {
			reason = "operational_halt"
		}
		if r.halted[symbol] == before {
			return
		}
	} else {
		r.state[symbol] = map[byte]string{'H': "halt", 'P': "pause", 'Q': "quoting", 'T': "open"}[m[19]]
		reason = map[string]string{"T1  ": "news_pending", "LUDP": "volatility_pause", "    ": ""}[string(m[21:25])]
	}
	phase := r.state[symbol]
	if phase == "" {
		phase = "unknown"
	}
	if r.halted[symbol] {
		phase = "halt"
	}
	s.Log = append(s.Log, replaytest.Line("status", phase, t, reason))
}

// randomDay writes messages of all types. Files of a part of a day refer to orders before it.
type randomDay struct {
	rng   *rand.Rand
	w     replaytest.ITCH
	live  [4]map[uint64]uint32
	t     int64
	id    uint64
	match uint64
}

func (d *randomDay) symbol(i int) string { return fmt.Sprintf("S%d", i) }

func (d *randomDay) order(i int) (id uint64, shares uint32, ok bool) {
	ids := make([]uint64, 0, len(d.live[i]))
	for id := range d.live[i] {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return 0, 0, false
	}
	slices.Sort(ids)
	id = ids[d.rng.IntN(len(ids))]
	return id, d.live[i][id], true
}

func (d *randomDay) write(whole bool) {
	if whole {
		d.w.System(1, 'O')
	}
	for i := range d.live {
		d.live[i] = map[uint64]uint32{}
		if whole || d.rng.IntN(2) == 0 {
			d.w.Directory(2, uint16(i+1), d.symbol(i))
		}
	}
	d.t, d.id, d.match = 3, 100, 5
	for range 400 {
		d.t += d.rng.Int64N(3)
		d.message(d.rng.IntN(len(d.live)), whole)
	}
	if d.rng.IntN(2) == 0 {
		d.w.System(d.t, 'C')
	}
}

func (d *randomDay) add(i int) {
	d.id += 1 + d.rng.Uint64N(3)
	shares := 1 + d.rng.Uint32N(500)
	who := ""
	if d.rng.IntN(4) == 0 {
		who = "NSDQ"
	}
	d.w.Add(d.t, uint16(i+1), d.id, "BS"[d.rng.IntN(2)], shares, d.symbol(i), d.price(), who)
	d.live[i][d.id] = shares
}

func (d *randomDay) price() uint32 { return 100_000 + d.rng.Uint32N(20)*100 }

func (d *randomDay) message(i int, whole bool) {
	locate, roll := uint16(i+1), d.rng.IntN(100)
	id, shares, ok := d.order(i)
	if roll < 55 && !ok {
		if d.add(i); !whole && d.rng.IntN(4) == 0 {
			d.unknown(locate)
		}
		return
	}
	part := 1 + d.rng.Uint32N(max(1, shares))
	take := func() {
		if d.live[i][id] -= part; d.live[i][id] == 0 {
			delete(d.live[i], id)
		}
	}
	switch {
	case roll < 25:
		d.add(i)
	case roll < 33:
		d.match++
		d.w.Execute(d.t, locate, id, part, d.match)
		take()
	case roll < 38:
		d.match++
		d.w.ExecuteAt(d.t, locate, id, part, d.match, "YN"[d.rng.IntN(2)], d.price())
		take()
	case roll < 43:
		d.w.Cancel(d.t, locate, id, part)
		take()
	case roll < 48:
		d.w.Delete(d.t, locate, id)
		delete(d.live[i], id)
	case roll < 55:
		d.id++
		next := 1 + d.rng.Uint32N(500)
		d.w.Replace(d.t, locate, id, d.id, next, d.price())
		delete(d.live[i], id)
		d.live[i][d.id] = next
	case roll < 60:
		d.match++
		d.w.Trade(d.t, locate, part, d.symbol(i), d.price(), d.match)
	case roll < 65:
		d.match++
		d.w.Cross(d.t, locate, uint64(d.rng.IntN(3)*1000), d.symbol(i), d.price(), d.match, "OCHI"[d.rng.IntN(4)])
	case roll < 70:
		if whole || d.rng.IntN(2) == 0 {
			d.w.Broken(d.t, locate, d.rng.Uint64N(d.match+2))
		}
	case roll < 76:
		d.w.Action(d.t, locate, d.symbol(i), "HPQT"[d.rng.IntN(4)], []string{"", "T1", "LUDP"}[d.rng.IntN(3)])
	case roll < 80:
		d.w.Halt(d.t, locate, d.symbol(i), "QBX"[d.rng.IntN(3)], "HT"[d.rng.IntN(2)])
	case roll < 83:
		d.w.System(d.t, "SQMEC"[d.rng.IntN(5)])
	case roll < 88 && !d.w.NoLength:
		d.w.Other(d.t, locate, "zxc"[d.rng.IntN(3)], 11+d.rng.IntN(30)) // of a later version
	case roll < 92 && !whole:
		d.unknown(locate)
	case roll < 94:
		d.w.Directory(d.t, locate, d.symbol(i)) // repeated
	default:
		kind := "LVWYKJINO"[d.rng.IntN(9)]
		d.w.Other(d.t, locate, kind, int(lengths[kind]))
	}
}

// unknown writes a message of an order that was added before the file began.
func (d *randomDay) unknown(locate uint16) {
	switch d.rng.IntN(5) {
	case 0:
		d.match++
		d.w.Execute(d.t, locate, 7, 10, d.match)
	case 1:
		d.match++
		d.w.ExecuteAt(d.t, locate, 7, 10, d.match, 'Y', d.price())
	case 2:
		d.w.Cancel(d.t, locate, 7, 10)
	case 3:
		d.w.Delete(d.t, locate, 7)
	default:
		d.w.Replace(d.t, locate, 7, 8, 10, d.price())
	}
}

// fault returns a message that contradicts those of a whole day, nil half of the time.
func (d *randomDay) fault() []byte {
	w := replaytest.ITCH{}
	switch d.rng.IntN(12) {
	case 0:
		w.Delete(d.t, 1, 7)
	case 1:
		w.Execute(d.t, 1, 7, 1, 1)
	case 2:
		w.Replace(d.t, 1, 7, 8, 1, 1)
	case 3:
		w.System(0, 'Q') // the time goes back
	case 4:
		w.Add(d.t, 99, 1<<40, 'B', 1, "NEW", 1, "") // not in the directory
	case 5:
		if id, shares, ok := d.order(0); ok {
			w.Cancel(d.t, 1, id, shares+1)
		}
	}
	return w.Bytes
}

// messagesOf splits a file into messages.
func messagesOf(data []byte) (list [][]byte) {
	for len(data) > 0 {
		size := 2 + int(binary.BigEndian.Uint16(data))
		if size == 2 {
			size += int(lengths[data[2]])
		}
		list, data = append(list, data[:size:size]), data[size:]
	}
	return list
}

// TestReference compares the decoder with a plain reader on random days and parts of days.
func TestReference(t *testing.T) {
	seeds := 300
	if os.Getenv("RUEDA_SOAK") != "" {
		seeds = 5000
	}
	books, faults := 0, 0
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 31))
		d := randomDay{rng: rng, w: replaytest.ITCH{NoLength: rng.IntN(4) == 0}}
		whole := rng.IntN(3) > 0
		d.write(whole)
		hidden, filter := "", []string(nil)
		if rng.IntN(4) == 0 {
			hidden, filter = "S3", []string{"S0", "S1|NASDAQ|24hs", "S2"}
		}
		r := newPlainReader(hidden)
		c := replaytest.Comparison{Decoder: New(Config{Midnight: midnight, Filter: decode.NewFilter(filter)}), Records: messagesOf(d.w.Bytes), Read: r.read, Single: true}
		if c.Count = len(c.Records); whole {
			c.Fault = d.fault()
		}
		if err := c.Run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if books += c.Books; c.Fault != nil {
			faults++
		}
	}
	if books < 500*seeds || faults < seeds/10 {
		t.Errorf("%d books compared, %d faults", books, faults)
	}
}
