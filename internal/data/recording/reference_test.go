package recording

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
)

// plainReader reads lines as docs/record-and-verify.md and docs/protocol.md describe them.
type plainReader struct {
	hidden string // a symbol that is not selected
	epoch  string
	known  map[string]*replaytest.Plain
	states map[string]*plainState
}

type plainState struct {
	trade, status, book uint64
	phase, figures      string
}

// plainMessage has the members of all messages.
type plainMessage struct {
	Type, Recording, Epoch string
	S, T, X, E, Y, G       string
	N, L                   uint64
	R                      bool
	P, Z, XP, XZ           json.Number
	BP, BZ, AP, AZ         json.Number
	CL, SE, OI             json.Number
	B, A                   [][]json.Number
	C                      []string
}

// eighth returns a decimal number in units of 1e-8, 0 for none.
func eighth(text json.Number) int64 {
	whole, part, _ := strings.Cut(string(text), ".")
	n, _ := strconv.ParseInt(whole+(part + "00000000")[:8], 10, 64)
	return n
}

func (r *plainReader) stock(symbol string) (*replaytest.Plain, *plainState) {
	if r.known[symbol] == nil {
		r.known[symbol], r.states[symbol] = &replaytest.Plain{}, &plainState{}
	}
	return r.known[symbol], r.states[symbol]
}

func (r *plainReader) read(line []byte) map[string]*replaytest.Plain {
	if line == nil || bytes.HasPrefix(line, []byte(`{"rueda"`)) {
		return r.known
	}
	_, body, _ := bytes.Cut(line, []byte(" "))
	var m plainMessage
	if err := json.Unmarshal(body, &m); err != nil {
		panic(err)
	}
	switch {
	case m.Recording == "disconnected" || m.Recording == "connected":
		r.stale("*", "recording_interrupted")
	case m.Type == "Subscription" && m.Epoch != r.epoch:
		r.epoch = m.Epoch
		for _, state := range r.states {
			state.trade, state.status = 0, 0
		}
	case len(m.Type) == 1 && m.S != r.hidden:
		t, err := time.Parse(time.RFC3339Nano, m.T)
		if err != nil {
			panic(err)
		}
		r.data(&m, t.UnixNano())
	}
	return r.known
}

// stale makes books that are known stale: one, or all.
func (r *plainReader) stale(symbol, reason string) {
	for name, s := range r.known {
		if s.Known && (name == symbol || symbol == "*") {
			if s.Known = false; reason != "" {
				s.Log = append(s.Log, replaytest.Line("gap", reason))
			}
		}
	}
}

func (r *plainReader) data(m *plainMessage, t int64) {
	s, state := r.stock(m.S)
	log := func(words ...any) { s.Log = append(s.Log, replaytest.Line(words...)) }
	switch m.Type {
	case "T", "X", "C":
		if m.N > state.trade {
			state.trade = m.N
			kind := map[string]string{"T": "trade", "X": "cancel", "C": "correct"}[m.Type]
			side := map[string]string{"B": "buy", "S": "sell"}[m.G]
			log(kind, m.X, eighth(m.P), eighth(m.Z), eighth(m.XP), eighth(m.XZ), t, side, strings.Join(m.C, " "))
		}
	case "Q":
		s.Log = append(s.Log, replaytest.Quote(t, eighth(m.BP), eighth(m.BZ), eighth(m.AP), eighth(m.AZ)))
	case "D":
		if now := fmt.Sprint(eighth(m.CL), " ", eighth(m.SE), " ", eighth(m.OI)); now != state.figures && now != "0 0 0" {
			state.figures = now
			log("reference", now, t)
		}
	case "O":
		if !m.R && !s.Known {
			return
		}
		if !m.R && m.L != state.book {
			r.stale(m.S, "sequence_gap")
			return
		}
		if m.R {
			s.Known, s.Levels = true, nil
		}
		for side, levels := range [][][]json.Number{m.B, m.A} {
			for _, l := range levels {
				s.Set(side == 1, eighth(l[0]), eighth(l[1]))
			}
		}
		state.book = m.N
	case "H":
		switch {
		case m.E == "feed_down":
			r.stale(m.S, "feed_down")
		case m.E == "gap" && m.N > state.status:
			state.status = m.N
			r.stale(m.S, "")
			log("gap", m.Y)
		case m.E == "gap" || m.E == "feed_up" || m.N <= state.status && m.E == state.phase: // repeated
		case m.R && state.status == 0 && m.E == state.phase && m.Y == "": // in a new epoch
			state.status = m.N
		default:
			state.status, state.phase = m.N, m.E
			log("status", m.E, t, m.Y)
		}
	}
}

// randomStream writes what a recorder receives: messages of all types, lost and repeated ones, lost
// connections, and a server that starts again.
type randomStream struct {
	rng   *rand.Rand
	lines [][]byte
	at    int64
	epoch int
	n     [4]map[string]uint64 // by instrument and channel
	book  [4]map[string]int
}

func (x *randomStream) line(format string, args ...any) {
	x.at += x.rng.Int64N(1e6)
	x.lines = append(x.lines, fmt.Appendf(nil, "%d "+format+"\n", append([]any{x.at}, args...)...))
}

// message writes a message of a channel of an instrument.
func (x *randomStream) message(i int, kind, channel, more string) {
	x.n[i][channel]++
	x.again(i, kind, channel, more)
}

func (x *randomStream) again(i int, kind, channel, more string) {
	symbol, id := fmt.Sprintf("S%d", i), fmt.Sprintf("S%d|BYMA|24hs", i)
	if i == 3 {
		symbol, id = "*", "*|BYMA|*"
	}
	x.n[i][channel] = max(1, x.n[i][channel])
	at := time.Unix(0, x.at).UTC().Format("2006-01-02T15:04:05.000000000Z")
	x.line(`{"type":%q,"S":%q,"I":%q,"N":%d,"T":%q%s}`, kind, symbol, id, x.n[i][channel], at, more)
}

func (x *randomStream) price() string { return fmt.Sprintf("%d.%d", 99+x.rng.IntN(3), x.rng.IntN(9)) }

// state writes the whole book of an instrument.
func (x *randomStream) state(i int) {
	side := func(sell bool) string {
		var list []string
		for _, p := range slices.Sorted(maps.Keys(x.book[i])) {
			if (p[0] == '1') == sell {
				list = append(list, fmt.Sprintf("[%s,%d]", p, x.book[i][p]))
			}
		}
		if !sell {
			slices.Reverse(list)
		}
		return strings.Join(list, ",")
	}
	x.again(i, "O", "book", fmt.Sprintf(`,"R":true,"DL":0,"B":[%s],"A":[%s],"K":1`, side(false), side(true)))
}

// update changes the book of an instrument. Its message may be lost.
func (x *randomStream) update(i int) {
	previous := x.n[i]["book"]
	x.n[i]["book"] += uint64(x.rng.IntN(3)) // conflated
	var sides [2]string
	for range x.rng.IntN(4) {
		sell, size := x.rng.IntN(2), x.rng.IntN(3)
		p := fmt.Sprintf("%d.%d", 90+10*sell+x.rng.IntN(6), x.rng.IntN(2))
		if strings.Contains(sides[sell], p+",") {
			continue
		}
		if x.book[i][p] = size; size == 0 {
			delete(x.book[i], p)
		}
		sides[sell] += fmt.Sprintf(",[%s,%d]", p, size)
	}
	n := len(x.lines)
	more := fmt.Sprintf(`,"L":%d`, previous)
	for side, name := range []string{"B", "A"} {
		if sides[side] != "" {
			more += fmt.Sprintf(`,%q:[%s]`, name, sides[side][1:])
		}
	}
	if x.message(i, "O", "book", more); x.rng.IntN(30) == 0 {
		x.lines = x.lines[:n]
	}
}

func (x *randomStream) write(lines int) {
	x.lines = [][]byte{[]byte(`{"rueda":"recording","version":1,"began":"2026-11-20T14:30:00Z","epoch":"e0","channels":["trades","quotes","order_book","status","bars","summary"],"depth":0,"ids":["*|BYMA|*"],"instruments":[{"instrument":"S0|BYMA|24hs","price_decimals":2},{"instrument":"S1|BYMA|24hs","price_decimals":2}]}` + "\n")}
	x.at = 1795184400000000000
	for i := range x.n {
		x.n[i], x.book[i] = map[string]uint64{}, map[string]int{}
	}
	x.line(`{"type":"Subscription","code":200,"id":1,"epoch":"e0"}`)
	for len(x.lines) < lines {
		x.next(x.rng.IntN(3))
	}
	if x.rng.IntN(2) == 0 {
		x.line(`{"recording":"end","rows":%d}`, lines)
	}
}

func (x *randomStream) next(i int) {
	switch roll := x.rng.IntN(100); {
	case roll < 40:
		x.update(i)
	case roll < 50:
		x.message(i, "O", "book", `,"R":true,"DL":0,"B":[],"A":[]`)
		clear(x.book[i])
		x.state(i)
	case roll < 62:
		x.message(i, "T", "trades", fmt.Sprintf(`,"P":%s,"Z":%d,"X":"%d"%s`, x.price(), 1+x.rng.IntN(9), x.at, []string{"", `,"G":"B"`, `,"G":"S","C":["block","late"]`}[x.rng.IntN(3)]))
	case roll < 64 && x.n[i]["trades"] > 0:
		x.again(i, "T", "trades", `,"P":1,"Z":1,"X":"again"`)
	case roll < 66:
		x.message(i, "X", "trades", `,"P":7050,"Z":120,"X":"88","XN":1`)
	case roll < 68:
		x.message(i, "C", "trades", `,"P":7050,"Z":120,"XP":7051.5,"XZ":110,"X":"88","XN":1`)
	case roll < 75:
		x.message(i, "Q", "quotes", []string{"", fmt.Sprintf(`,"BP":%s,"BZ":3`, x.price()), `,"BP":1,"BZ":2,"AP":3.5,"AZ":4`}[x.rng.IntN(3)])
	case roll < 81:
		x.message(i+x.rng.IntN(2), "H", "status", []string{`,"E":"open"`, `,"E":"halt","Y":"news_pending"`, `,"E":"auction","U":"2026-11-20T15:00:00.000000000Z"`}[x.rng.IntN(3)])
	case roll < 82:
		x.message(i+x.rng.IntN(2), "H", "status", `,"E":"gap","Y":"line_lost"`)
	case roll < 84:
		x.again(i+x.rng.IntN(2), "H", "status", []string{`,"E":"gap","Y":"line_lost"`, `,"E":"feed_up"`, `,"E":"feed_down","Y":"line_lost"`, `,"R":true,"E":"halt"`}[x.rng.IntN(4)])
	case roll < 87:
		x.message(i, "D", "summary", []string{`,"OP":7100`, `,"CL":7089,"SE":7479`, `,"CL":7089,"SE":7480,"OI":12`}[x.rng.IntN(3)])
	case roll < 90:
		x.message(i, "K", "bars", `,"IV":"1m","OP":1,"HI":1,"LO":1,"CL":1,"TV":1,"TC":1`)
	case roll < 94:
		x.line([]string{`{"type":"CaughtUp","id":1}`, `{"type":"Alive"}`, `{"type":"Warning","reason":"slow_client"}`, `{"recording":"lost","channel":"trades"}`}[x.rng.IntN(4)])
	case roll < 97:
		x.reconnect()
	default:
		x.state(i)
	}
}

// reconnect loses the connection. The server may have started again with a new epoch.
func (x *randomStream) reconnect() {
	if x.rng.IntN(4) > 0 {
		x.line(`{"recording":"disconnected","reason":"connection broken"}`)
	}
	x.line(`{"recording":"connected","instruments":[{"instrument":"S2|BYMA|24hs","price_decimals":2}]}`)
	if x.rng.IntN(3) == 0 {
		x.epoch++
		for i := range x.n {
			clear(x.n[i])
		}
	}
	x.line(`{"type":"Subscription","code":200,"id":1,"epoch":"e%d"}`, x.epoch)
	for i := range x.n[:3] {
		if x.n[i]["book"]++; x.rng.IntN(3) > 0 {
			x.state(i)
		}
	}
	x.line(`{"type":"CaughtUp","id":1}`)
}

// TestReference compares Events with a plain reader on random recordings.
func TestReference(t *testing.T) {
	seeds := 200
	if os.Getenv("RUEDA_SOAK") != "" {
		seeds = 4000
	}
	books, gaps := 0, 0
	for seed := range uint64(seeds) {
		x := randomStream{rng: rand.New(rand.NewPCG(seed, 53))}
		x.write(300)
		r := &plainReader{epoch: "e0", known: map[string]*replaytest.Plain{}, states: map[string]*plainState{}}
		var e Events
		if x.rng.IntN(4) == 0 {
			r.hidden, e.Filter = "S2", decode.NewFilter([]string{"S0", "S1|BYMA|24hs"})
		}
		for _, symbol := range []string{"S0", "S1", "S2", "*"} {
			r.stock(symbol)
		}
		c := replaytest.Comparison{Decoder: &e, Records: x.lines, Read: r.read, Count: len(x.lines)}
		if err := c.Run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		books, gaps = books+c.Books, gaps+c.Stats.Gaps
	}
	if books < 50*seeds || gaps < seeds {
		t.Errorf("%d books compared, %d gaps", books, gaps)
	}
}
