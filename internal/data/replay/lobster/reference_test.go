package lobster

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
	"github.com/ruedahq/rueda/market"
)

// plainReader reads lines as LOBSTER describes its output.
type plainReader struct {
	books    []string // lines of the order book file; nil: there is none
	complete bool     // without books: every order is known
	count    int      // lines of the message file
	orders   map[string]plainOrder
	stock    *replaytest.Plain
}

type plainOrder struct{ price, size int64 }

// number returns a decimal number in units of 10^-decimals, rounded.
func number(text string, decimals int) int64 {
	whole, part, _ := strings.Cut(text, ".")
	part += strings.Repeat("0", decimals+1)
	n, err := strconv.ParseInt(whole+part[:decimals], 10, 64)
	if err != nil {
		panic(text)
	}
	if part[decimals] >= '5' {
		n++
	}
	return n
}

func (r *plainReader) read(record []byte) map[string]*replaytest.Plain {
	if r.stock == nil {
		r.stock = &replaytest.Plain{Known: r.complete}
	}
	known := map[string]*replaytest.Plain{"AAPL": r.stock}
	if record == nil {
		return known
	}
	f := strings.Split(strings.TrimSpace(string(record)), ",")
	if r.count++; r.count == 1 && f[0] == "Time" {
		return known
	}
	t := midnight + number(f[0], 9)
	size, price, sell := number(f[3], 8), number(f[4], 4), f[5] == "-1"
	switch aggressor := map[bool]string{false: "sell", true: "buy"}[sell]; {
	case f[1] == "7":
		s := map[string]string{"-1": "halt %d trading_halt", "0": "quoting %d", "1": "open %d"}[f[4]]
		r.stock.Log = append(r.stock.Log, "status "+fmt.Sprintf(s, t))
	case (f[1] == "4" || f[1] == "5") && size > 0:
		r.stock.Log = append(r.stock.Log, replaytest.Line("trade", "", price, size, 0, 0, t, aggressor))
	case f[1] == "6" && size > 0:
		r.stock.Log = append(r.stock.Log, replaytest.Line("trade", "", price, size, 0, 0, t, "", "cross"))
	}
	switch {
	case r.books != nil:
		r.book()
	case r.stock.Known && f[1] <= "4":
		r.order(f[1], f[2], plainOrder{price, size}, sell)
	}
	return known
}

// order applies a line to the orders of a file in which all are known.
func (r *plainReader) order(kind, id string, o plainOrder, sell bool) {
	old, there := r.orders[id]
	if kind == "1" {
		r.orders[id] = o
		r.stock.Set(sell, o.price, r.stock.Levels[replaytest.PlainLevel{Sell: sell, Price: o.price}]+o.size)
		return
	}
	if !there || o.size > old.size { // never added
		r.stock.Known = false
		r.stock.Log = append(r.stock.Log, "gap unknown_order")
		return
	}
	if kind == "3" {
		o.size = old.size
	}
	r.orders[id] = plainOrder{old.price, old.size - o.size}
	if o.size == old.size {
		delete(r.orders, id)
	}
	r.stock.Set(sell, old.price, r.stock.Levels[replaytest.PlainLevel{Sell: sell, Price: old.price}]-o.size)
}

// book reads the next line of the order book file.
func (r *plainReader) book() {
	if strings.HasPrefix(r.books[0], "Ask") {
		r.books = r.books[1:]
	}
	f := strings.Split(r.books[0], ",")
	r.books, r.stock.Levels, r.stock.Known = r.books[1:], nil, true
	for i := 0; i < len(f); i += 2 {
		if f[i] != "9999999999" && f[i] != "-9999999999" {
			r.stock.Set(i%4 == 0, number(f[i], 4), number(f[i+1], 8))
		}
	}
}

// randomFile writes lines of all types. Orders that exist before the file begins are never added.
type randomFile struct {
	rng    *rand.Rand
	w      replaytest.LOBSTER
	before int // orders that exist before the file begins
	ids    []uint64
	book   market.OrderBook
	t      int64
	id     uint64
}

func (x *randomFile) add(id uint64) (side market.Side, price int64, size uint32) {
	side, price, size = market.Side(1+x.rng.IntN(2)), 1_000_000+x.rng.Int64N(30)*100, 1+x.rng.Uint32N(300)
	if _, err := x.book.Add(id, side, market.Price(price*10_000), market.Size(size)*market.Scale); err != nil {
		panic(err)
	}
	x.ids = append(x.ids, id)
	return side, price, size
}

// line writes a line with a time of any precision, and the book after it.
func (x *randomFile) line(kind int, id uint64, size uint32, price int64, side market.Side) {
	x.t += 2 + x.rng.Int64N(1e9)
	text := fmt.Sprintf("%d.%09d", x.t/1e9, x.t%1e9)
	switch x.rng.IntN(4) {
	case 0: // as a program that computes with binary fractions writes it
		text += strconv.Itoa(x.rng.IntN(100_000))
	case 1:
		x.t = x.t/1e6*1e6 + 1e6
		text = fmt.Sprintf("%d.%03d", x.t/1e9, x.t%1e9/1e6)
	case 2:
		x.t = x.t/1e9*1e9 + 1e9
		text = strconv.FormatInt(x.t/1e9, 10)
	}
	direction := 1
	if side == market.Sell {
		direction = -1
	}
	if x.w.LineAt(text, kind, id, size, price, direction); x.w.Depth > 0 {
		x.w.Book(x.book.Book())
	}
}

func (x *randomFile) write(lines int) {
	if x.rng.IntN(3) == 0 {
		x.w.Header()
	}
	for id := range x.before {
		x.add(uint64(id) + 1)
	}
	x.t, x.id = open, 1000
	for range lines {
		x.event()
	}
}

func (x *randomFile) event() {
	roll := x.rng.IntN(100)
	if len(x.ids) == 0 && roll < 76 || roll < 40 {
		x.id++
		side, price, size := x.add(x.id)
		x.line(1, x.id, size, price, side)
		return
	}
	if roll >= 76 {
		x.other(roll)
		return
	}
	i := x.rng.IntN(len(x.ids))
	id := x.ids[i]
	side, p, z, _ := x.book.Order(id)
	price, size := int64(p)/10_000, uint32(z/market.Scale)
	part := 1 + x.rng.Uint32N(size)
	kind := [...]int{2, 3, 4}[x.rng.IntN(3)]
	switch {
	case kind == 2 && part == size:
		kind = 3
	case kind == 3:
		part = size
	}
	if part == size {
		x.ids = append(x.ids[:i], x.ids[i+1:]...)
	}
	if _, _, err := x.book.Fill(id, market.Size(part)*market.Scale); err != nil {
		panic(err)
	}
	x.line(kind, id, part, price, side)
}

func (x *randomFile) other(roll int) {
	side, price := market.Side(1+x.rng.IntN(2)), 1_000_000+x.rng.Int64N(30)*50
	switch {
	case roll < 86:
		x.line(5, 0, x.rng.Uint32N(3)*100, price, side)
	case roll < 92:
		x.line(6, ^uint64(0), x.rng.Uint32N(3)*1000, price, side)
	default:
		x.line(7, 0, 0, x.rng.Int64N(3)-1, market.Sell)
	}
}

// fault returns a line that ends the file with an error, nil half of the time.
func (x *randomFile) fault(complete bool) []byte {
	t := fmt.Sprint(x.t/1e9 + 1)
	switch x.rng.IntN(10) {
	case 0:
		return []byte("34000,1,5,1,1,1\n") // the time goes back
	case 1:
		return []byte(t + ",8,5,1,1,1\n")
	case 2:
		return []byte(t + ",1,5,1,1\n")
	case 3:
		return []byte(t + ".,1,5,1,1,1\n")
	case 4:
		if complete && len(x.ids) > 0 {
			return fmt.Appendf(nil, "%s,1,%d,1,1,1\n", t, x.ids[0])
		}
	}
	return nil
}

// TestReference compares the decoder with a plain reader on random files, with and without an order
// book file.
func TestReference(t *testing.T) {
	seeds := 300
	if os.Getenv("RUEDA_SOAK") != "" {
		seeds = 5000
	}
	books, lost, faults := 0, 0, 0
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 41))
		x := randomFile{rng: rng, w: replaytest.LOBSTER{CRLF: rng.IntN(3) == 0, More: []string{"", "", ",null"}[rng.IntN(3)]}}
		mode := rng.IntN(4)
		if x.before = rng.IntN(4); mode == 0 {
			x.w.Depth = 1 + rng.IntN(10)
		} else if mode == 1 {
			x.before = 0
		}
		x.write(300)
		r := &plainReader{complete: mode == 1 || mode == 2, orders: map[string]plainOrder{}}
		d := New(Config{Symbol: "AAPL", Midnight: midnight, Books: mode == 0, Complete: r.complete})
		c := replaytest.Comparison{Decoder: d, Records: bytes.SplitAfter(bytes.TrimSuffix(x.w.Messages, []byte("\n")), []byte("\n")), Fault: x.fault(mode == 1), Single: true}
		if last := len(c.Records) - 1; last >= 0 {
			c.Records[last] = append(bytes.Clone(c.Records[last]), '\n')
		}
		if mode == 0 {
			r.books = strings.Fields(string(x.w.Books))
			c.Decoder = &pair{d, append(bytes.Clone(x.w.Books), "1,1,1,1\n"...)}
		}
		c.Read = func(record []byte) map[string]*replaytest.Plain {
			defer func() { c.Count = r.count }()
			return r.read(record)
		}
		if err := c.Run(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if books += c.Books; d.Lost() {
			lost++
		}
		if c.Fault != nil {
			faults++
		}
	}
	if books < 100*seeds || lost < seeds/20 || faults < seeds/10 {
		t.Errorf("%d books compared, %d lost, %d faults", books, lost, faults)
	}
}

// TestOrdersNeverAdded checks orders that the file changes but does not add, because they were
// added before it begins or outside the levels that were requested: the order book file has them.
// Without it only their trades are known.
func TestOrdersNeverAdded(t *testing.T) {
	w := &replaytest.LOBSTER{}
	w.Line(open, 2, 5, 50, 1_000_000, 1)
	w.Line(open+1, 4, 5, 30, 1_000_000, 1)
	w.Line(open+2, 3, 6, 10, 1_000_100, -1)
	trade := fmt.Sprintf(`AAPL trade "" sell 30 at 100 +%d`, open+1)
	for _, complete := range []bool{false, true} {
		got := run(w, complete, 0)
		if want := []string{trade}; complete {
			expect(t, got, fmt.Sprintf("AAPL gap  unknown_order +%d", open), trade)
		} else {
			expect(t, got, want...)
		}
	}
	got := run(w, false, 0)
	if got.Stats.Used != 1 || got.Stats.Skipped.String() != "2 unknown_book" {
		t.Errorf("counted %+v", got.Stats)
	}
	w.Books = []byte("1000100,10,1000000,50\n1000100,10,1000000,20\n1000200,7,1000000,20\n")
	got = run(w, false, 0)
	expect(t, got,
		fmt.Sprintf("AAPL snapshot [50@100] [10@100.01] +%d", open), trade,
		fmt.Sprintf("AAPL update [20@100] [] +%d", open+1),
		fmt.Sprintf("AAPL update [] [0@100.01 7@100.02] +%d", open+2))
	if got.Stats.Used != 3 {
		t.Errorf("counted %+v", got.Stats)
	}
}
