package iex

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
)

// plainReader reads packets as the specifications of IEX-TP, TOPS 1.6 and DEEP 1.0 describe them.
type plainReader struct {
	deep     bool
	count    int // messages, and packets without any
	channels map[uint32]*plainChannel
	known    map[string]*replaytest.Plain
	stocks   map[string]*plainStock
}

type plainChannel struct {
	session    uint32
	next       uint64
	sent, time int64
	complete   bool // nothing is missing since message 1
	symbols    map[string]bool
}

type plainStock struct {
	state   string // of all markets
	stopped bool   // at IEX alone
	levels  [][]byte
}

// read reads a packet of a pcap file: Ethernet, IPv4, UDP.
func (r *plainReader) read(record []byte) map[string]*replaytest.Plain {
	const headers, segment = 16 + 14 + 20 + 8, 40
	if record == nil || len(record) == 24 { // the end, or the header of the file
		return r.known
	}
	protocol := uint16(replaytest.TOPS)
	if r.deep {
		protocol = replaytest.DEEP
	}
	le := binary.LittleEndian
	if len(record) < headers+segment || record[headers] != 1 || le.Uint16(record[headers+2:]) != protocol || int(le.Uint16(record[headers+12:])) > len(record)-headers-segment {
		r.count++
		return r.known
	}
	p := record[headers:]
	var messages [][]byte
	for at := segment; at < segment+int(le.Uint16(p[12:])); {
		size := int(le.Uint16(p[at:]))
		messages = append(messages, p[at+2:at+2+size])
		at += 2 + size
	}
	r.count += len(messages)
	r.segment(p, messages)
	return r.known
}

func (r *plainReader) segment(p []byte, messages [][]byte) {
	le := binary.LittleEndian
	id, session, first, sent := le.Uint32(p[4:]), le.Uint32(p[8:]), le.Uint64(p[24:]), int64(le.Uint64(p[32:]))
	c := r.channels[id]
	if c == nil {
		c = &plainChannel{session: session, next: first, complete: first == 1, symbols: map[string]bool{}}
		r.channels[id] = c
	}
	switch {
	case sent < c.sent && (session != c.session || first > c.next):
		return // a late packet of a session that has ended
	case session != c.session, first < c.next && len(messages) > 0 && sent > c.sent && int64(le.Uint64(messages[0][2:])) > c.time:
		r.lost(c, "session_changed", first == 1)
		*c = plainChannel{session: session, next: first, complete: first == 1, symbols: c.symbols}
	case first > c.next:
		r.lost(c, "sequence_gap", false)
		c.next, c.complete = first, false
	}
	c.sent = max(c.sent, sent)
	for i, m := range messages {
		if first+uint64(i) >= c.next {
			c.next++
			c.time = max(c.time, int64(le.Uint64(m[2:])))
			r.message(c, m)
		}
	}
}

// lost makes the books of a channel stale, or empty.
func (r *plainReader) lost(c *plainChannel, reason string, empty bool) {
	for symbol := range c.symbols {
		s := r.known[symbol]
		s.Log = append(s.Log, replaytest.Line("gap", reason))
		s.Known, s.Levels, r.stocks[symbol].levels = empty && r.deep, nil, nil
	}
}

func (r *plainReader) message(c *plainChannel, m []byte) {
	le := binary.LittleEndian
	t := int64(le.Uint64(m[2:]))
	if m[0] == 'S' {
		if phase := map[byte]string{'S': "pre_open", 'R': "open", 'M': "post_close", 'E': "closed"}[m[1]]; phase != "" {
			if r.known["*"] == nil {
				r.known["*"] = &replaytest.Plain{}
			}
			r.known["*"].Log = append(r.known["*"].Log, replaytest.Line("status", phase, t))
		}
		return
	}
	if !strings.ContainsRune("DHIOPEQ85TBXA", rune(m[0])) {
		return // of a later version
	}
	symbol := strings.TrimRight(string(m[10:18]), " ")
	s, state := r.known[symbol], r.stocks[symbol]
	if s == nil {
		s, state = &replaytest.Plain{Known: r.deep && c.complete}, &plainStock{}
		r.known[symbol], r.stocks[symbol], c.symbols[symbol] = s, state, true
	}
	size := func(at int) int64 { return int64(le.Uint32(m[at:])) * 1e8 }
	price := func(at int) int64 { return int64(le.Uint64(m[at:])) * 10_000 }
	switch m[0] {
	case 'D':
		if price(22) > 0 {
			s.Log = append(s.Log, replaytest.Line("reference", price(22), 0, 0, t))
		}
	case 'X':
		if m[1] == 'M' && price(18) > 0 {
			s.Log = append(s.Log, replaytest.Line("reference", 0, price(18), 0, t))
		}
	case 'H', 'O':
		state.status(s, m, t)
	case 'Q':
		if !r.deep {
			s.Log = append(s.Log, replaytest.Quote(t, price(22), size(18), price(30), size(38)))
		}
	case 'T', 'B':
		kind, words := map[byte]string{'T': "trade", 'B': "cancel"}[m[0]], []string{}
		for bit, word := range []string{3: "single_price_cross", 4: "trade_through_exempt", 5: "odd_lot", 6: "extended_hours", 7: "intermarket_sweep"} {
			if m[1]>>bit&1 == 1 && word != "" {
				words = append(words, word)
			}
		}
		if size(18) > 0 {
			s.Log = append(s.Log, replaytest.Line(kind, le.Uint64(m[30:]), price(22), size(18), 0, 0, t, "", strings.Join(words, " ")))
		}
	case '8', '5':
		if state.levels = append(state.levels, m); !r.deep || !s.Known {
			state.levels = nil
		}
		if m[1]&1 == 1 { // the event is complete
			for _, m := range state.levels {
				s.Set(m[0] == '5', int64(le.Uint64(m[22:]))*10_000, int64(le.Uint32(m[18:]))*1e8)
			}
			state.levels = nil
		}
	}
}

func (state *plainStock) status(s *replaytest.Plain, m []byte, t int64) {
	now := func() string {
		switch {
		case state.stopped:
			return "halt"
		case state.state == "":
			return "unknown"
		}
		return state.state
	}
	before, reason := now(), ""
	if m[0] == 'O' {
		if state.stopped = m[1] == 'O'; state.stopped {
			reason = "operational_halt"
		}
	} else {
		state.state = map[byte]string{'T': "open", 'H': "halt", 'P': "pause", 'O': "auction"}[m[1]]
		reason = map[string]string{"T1  ": "news_pending", "MCB3": "market_wide_circuit_breaker"}[string(m[18:22])]
	}
	if now() != before || reason != "" {
		s.Log = append(s.Log, replaytest.Line("status", now(), t, reason))
	}
}

// randomCapture writes packets with messages of all types, gaps, repetitions, late packets,
// sessions that begin again, and packets of others.
type randomCapture struct {
	rng     *rand.Rand
	c       replaytest.Capture
	w       []*replaytest.IEX // channels
	t       int64
	trade   uint64
	old     [][]byte // segments that were written
	dropped [][]byte // segments that were not
	packets [][]byte
}

func (x *randomCapture) packet(payload []byte, cut int) {
	from := len(x.c.Bytes)
	x.c.Packet(x.t, x.c.Frame(payload), cut)
	x.packets = append(x.packets, x.c.Bytes[from:len(x.c.Bytes):len(x.c.Bytes)])
}

func (x *randomCapture) write(n int) {
	x.c.Head()
	x.packets = [][]byte{x.c.Bytes}
	x.t, x.trade = begin, 1
	for range n {
		x.t += 10
		w := x.w[x.rng.IntN(len(x.w))]
		switch roll := x.rng.IntN(100); {
		case roll < 6 && len(x.old) > 0:
			x.packet(x.old[x.rng.IntN(len(x.old))], 0)
			continue
		case roll < 9 && len(x.dropped) > 0: // late
			x.packet(x.dropped[x.rng.IntN(len(x.dropped))], 0)
			continue
		case roll < 12 && len(x.old) > 0:
			x.other()
			continue
		case roll < 14: // the session begins again
			w.Next = 1
		case roll < 16:
			w.Session++
			w.Next = [...]uint64{1, 50}[x.rng.IntN(2)]
		case roll < 20 && w.Next > 2: // its first message was sent before
			w.Next--
			w.System(begin, 'C')
		}
		for range x.rng.IntN(6) {
			x.message(w)
		}
		segment := w.Segment(x.t)
		switch roll := x.rng.IntN(100); {
		case roll < 3:
			x.dropped = append(x.dropped, segment)
		case roll < 5 && len(segment) > 60:
			x.packet(segment, 5)
		default:
			x.old = append(x.old, segment)
			x.packet(segment, 0)
		}
	}
}

// other writes a packet that has no messages of the feed.
func (x *randomCapture) other() {
	switch x.rng.IntN(4) {
	case 0:
		x.packet([]byte("not IEX-TP"), 0)
	case 1:
		x.packet(make([]byte, 60), 0)
	case 2:
		w := replaytest.IEX{Protocol: 0x9000, Session: 1}
		w.System(x.t, 'R')
		x.packet(w.Segment(x.t), 0)
	default:
		w := replaytest.IEX{Protocol: x.w[0].Protocol ^ replaytest.TOPS ^ replaytest.DEEP, Session: 1}
		w.Trade(x.t, "C", 'T', 0, 1, 1, 1)
		x.packet(w.Segment(x.t), 0)
	}
}

func (x *randomCapture) message(w *replaytest.IEX) {
	x.t++
	symbol, price := fmt.Sprintf("S%d.%d", w.Channel, x.rng.IntN(3)), 10_000+x.rng.Int64N(12)*100
	switch roll := x.rng.IntN(100); {
	case roll < 45:
		w.Level(x.t, symbol, "85"[x.rng.IntN(2)], byte(x.rng.IntN(2)), x.rng.Uint32N(4)*50, price)
	case roll < 60:
		w.Quote(x.t, symbol, x.rng.Uint32N(3)*100, price, price+100, x.rng.Uint32N(3)*100)
	case roll < 70:
		x.trade++
		w.Trade(x.t, symbol, 'T', byte(x.rng.IntN(32))<<3, x.rng.Uint32N(4)*10, price, x.trade)
	case roll < 73:
		w.Trade(x.t, symbol, 'B', 0, 10, price, x.rng.Uint64N(x.trade))
	case roll < 79:
		w.Status(x.t, symbol, "THPO"[x.rng.IntN(4)], []string{"", "T1", "MCB3"}[x.rng.IntN(3)])
	case roll < 83:
		w.Operational(x.t, symbol, "ON"[x.rng.IntN(2)])
	case roll < 87:
		w.System(x.t, "OSRMEC"[x.rng.IntN(6)])
	case roll < 90:
		w.Directory(x.t, symbol, price*x.rng.Int64N(2))
	case roll < 93:
		w.Official(x.t, symbol, "QM"[x.rng.IntN(2)], price)
	case roll < 97:
		kind := "IPEA"[x.rng.IntN(4)]
		w.Other(x.t, symbol, kind, int(lengths[kind])+x.rng.IntN(9))
	default:
		w.Other(x.t, symbol, 'z', 12)
	}
}

// TestReference compares the decoder with a plain reader on random captures of TOPS and DEEP.
func TestReference(t *testing.T) {
	seeds := 300
	if os.Getenv("RUEDA_SOAK") != "" {
		seeds = 5000
	}
	books, gaps, late := 0, 0, 0
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 37))
		protocol := uint16(replaytest.TOPS + rng.IntN(2))
		x := randomCapture{rng: rng, c: replaytest.Capture{Nano: rng.IntN(2) == 0}}
		for i := range 1 + rng.IntN(2) {
			x.w = append(x.w, &replaytest.IEX{Protocol: protocol, Channel: uint32(i + 1), Session: 5, Next: [...]uint64{1, 1, 1, 40}[rng.IntN(4)]})
		}
		x.write(120)
		r := &plainReader{deep: protocol == replaytest.DEEP, channels: map[uint32]*plainChannel{}, known: map[string]*replaytest.Plain{}, stocks: map[string]*plainStock{}}
		c := replaytest.Comparison{Decoder: New(nil), Records: x.packets}
		c.Read = func(record []byte) map[string]*replaytest.Plain {
			defer func() { c.Count = r.count }()
			return r.read(record)
		}
		if err := c.Run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		books, gaps, late = books+c.Books, gaps+c.Stats.Gaps, late+c.Stats.Skipped[decode.Late]
	}
	if books < 50*seeds || gaps < 5*seeds || late < seeds/20 {
		t.Errorf("%d books compared, %d gaps, %d late messages", books, gaps, late)
	}
}
