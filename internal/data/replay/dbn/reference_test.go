package dbn

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/internal/data/replay/replaytest"
	"github.com/ruedahq/rueda/market"
)

// reference is a plain reader of MBO and status records, made from the description of the format.
// It shares no code with the decoder.
type reference struct {
	books map[uint32]*referenceBook
}

type referenceBook struct {
	orders   map[uint64]referenceOrder
	known    bool
	snapshot bool // the newest record was part of one
	trades   []string
	shown    string   // the book at the end of the newest event
	out      []string // trades and statuses of complete events
}

type referenceOrder struct {
	side  byte
	price int64
	size  uint32
}

// record reads one record, and returns its instrument.
func (r *reference) record(m []byte) *referenceBook {
	le := binary.LittleEndian
	id := le.Uint32(m[4:])
	b := r.books[id]
	if b == nil {
		b = &referenceBook{orders: map[uint64]referenceOrder{}}
		r.books[id] = b
	}
	if m[1] == 0x12 {
		phase := map[uint16]string{1: "pre_open", 2: "auction", 7: "open", 8: "halt", 12: "closed"}[le.Uint16(m[24:])]
		b.out = append(b.out, fmt.Sprint("status ", phase, " ", le.Uint64(m[8:])))
		return b
	}
	order, price, size := le.Uint64(m[16:]), int64(le.Uint64(m[24:])), le.Uint32(m[32:])
	flags, action, side := m[36], m[38], m[39]
	if flags&4 != 0 {
		b.known = false
	}
	begins := flags&32 != 0 && !b.snapshot
	b.snapshot = flags&32 != 0
	if begins || action == 'R' {
		clear(b.orders)
		b.known = true
	}
	old, there := b.orders[order]
	switch action {
	case 'T':
		b.trades = append(b.trades, fmt.Sprint("trade ", price, " ", size, " ", string(side), " ", le.Uint64(m[8:])))
	case 'A', 'M':
		switch {
		case flags&64 != 0:
		case price%10 != 0, action == 'A' && there:
			b.known = false
		case side == 'N' || size == 0:
			delete(b.orders, order)
		default:
			b.orders[order] = referenceOrder{side, price, size}
		}
	case 'C':
		switch {
		case flags&64 != 0 || size == 0 && there:
		case !there || size > old.size:
			b.known = false
		case size == old.size:
			delete(b.orders, order)
		default:
			old.size -= size
			b.orders[order] = old
		}
	}
	if !b.known {
		clear(b.orders)
	}
	if flags&128 != 0 {
		b.out = append(b.out, b.trades...)
		b.trades, b.shown = nil, b.text()
	}
	return b
}

// text describes the levels of a book, in any fixed order.
func (b *referenceBook) text() string {
	if !b.known {
		return "unknown"
	}
	sizes, counts := map[string]int64{}, map[string]int{}
	for _, o := range b.orders {
		key := fmt.Sprintf("%c%012d", o.side, o.price/10)
		sizes[key] += int64(o.size)
		counts[key]++
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(sizes)) {
		out = append(out, fmt.Sprint(key, "=", sizes[key], "/", counts[key]))
	}
	return strings.Join(out, " ")
}

// played is what the decoder has published of an instrument.
type played struct {
	book  market.Book
	known bool
	out   []string
}

func (p *played) event(e *market.Event) {
	switch e.Kind {
	case market.KindTrade:
		side := [...]string{"N", "B", "A"}[e.Side]
		p.out = append(p.out, fmt.Sprint("trade ", int64(e.Price)*10, " ", int64(e.Size)/market.Scale, " ", side, " ", e.Time))
	case market.KindStatus:
		p.out = append(p.out, fmt.Sprint("status ", e.Phase, " ", e.Time))
	case market.KindGap:
		p.known = false
	case market.KindSnapshot, market.KindUpdate:
		if e.Kind == market.KindSnapshot {
			p.book.Reset()
			p.known = true
		}
		for _, l := range e.Bids {
			p.book.Set(market.Buy, l)
		}
		for _, l := range e.Asks {
			p.book.Set(market.Sell, l)
		}
	}
}

func (p *played) text() string {
	if !p.known {
		return "unknown"
	}
	var out []string
	for side, c := range map[market.Side]byte{market.Buy: 'B', market.Sell: 'A'} {
		for i := range p.book.Len(side) {
			l := p.book.At(side, i)
			out = append(out, fmt.Sprintf("%c%012d=%d/%d", c, int64(l.Price), int64(l.Size)/market.Scale, l.Orders))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// randomStream writes events of several instruments, whose records mix.
func randomStream(rng *rand.Rand, w *replaytest.DBN, n int) {
	const last, snapshot = replaytest.Last, replaytest.Snapshot
	var pending [3][]*rec // records of the event of each instrument
	ids := [3][]uint64{}
	next, at := uint64(1), int64(10)
	record := func(i int, r rec) { pending[i] = append(pending[i], &r) }
	add := func(i int, flags byte) {
		next++
		ids[i] = append(ids[i], next)
		record(i, rec{Action: 'A', Side: "BA"[rng.IntN(2)], OrderID: next, Price: nine(1000 + rng.Int64N(20)), Size: 1 + rng.Uint32N(5), Flags: flags})
	}
	for i := range pending {
		record(i, rec{Action: 'R', Side: 'N', Flags: last})
	}
	for range n {
		i := rng.IntN(len(pending))
		if len(pending[i]) > 0 {
			r := pending[i][0]
			pending[i] = pending[i][1:]
			at += rng.Int64N(3)
			r.Time, r.Receive, r.Instrument = begin+at, begin+at+700+rng.Int64N(2), uint32(32+i)
			if r.Flags&snapshot != 0 {
				r.Time -= 1_000_000 // when the order was entered
			}
			if w.MBO(r); rng.IntN(60) == 0 {
				w.Status(r, [...]uint16{1, 2, 7, 8, 12}[rng.IntN(5)], 0)
			}
			if rng.IntN(60) == 0 {
				w.Other(r, 0x18, 64) // statistics
			}
			continue
		}
		known := func() uint64 { return ids[i][rng.IntN(len(ids[i]))] }
		for range 1 + rng.IntN(5) {
			switch k := rng.IntN(100); {
			case k < 40 || len(ids[i]) == 0:
				add(i, 0)
			case k < 55:
				record(i, rec{Action: 'C', OrderID: known(), Size: 1})
			case k < 70:
				record(i, rec{Action: 'M', Side: "BA"[rng.IntN(2)], OrderID: known(), Price: nine(1000 + rng.Int64N(20)), Size: rng.Uint32N(6)})
			case k < 85:
				record(i, rec{Action: 'T', Side: "BAN"[rng.IntN(3)], Price: nine(1000 + rng.Int64N(20)), Size: 1 + rng.Uint32N(9)})
				record(i, rec{Action: 'F', Side: 'B', OrderID: known(), Price: nine(1000), Size: 1})
			case k < 90:
				record(i, rec{Action: 'N', Side: 'N'})
			case k < 93:
				record(i, rec{Action: 'A', Side: 'B', OrderID: 1, Price: nine(1000), Size: 1, Flags: replaytest.Top})
			case k < 94:
				record(i, rec{Action: 'N', Side: 'N', Flags: replaytest.BadBook})
			case k < 95:
				record(i, rec{Action: 'A', Side: 'A', OrderID: next + 1<<40, Price: nine(1000) + 1, Size: 1})
			case k < 97:
				record(i, rec{Action: 'R', Side: 'N'})
			}
		}
		if rng.IntN(8) == 0 { // a snapshot is an event of its own
			pending[i], ids[i] = nil, nil
			if rng.IntN(2) == 0 {
				record(i, rec{Action: 'R', Side: 'N', Flags: snapshot})
			}
			for range 1 + rng.IntN(6) {
				add(i, snapshot)
			}
		}
		record(i, rec{Action: 'N', Side: 'N', Flags: last})
		if k := len(pending[i]) - 2; k >= 0 && rng.IntN(2) == 0 { // another record ends the event
			pending[i] = pending[i][:k+1]
			pending[i][k].Flags |= last
		}
	}
}

// TestReference compares the decoder with a plain reader on random streams. After each record the
// published book of its instrument is that at the end of its newest event, and so are its trades.
func TestReference(t *testing.T) {
	seeds := 60
	if os.Getenv("RUEDA_SOAK") != "" {
		seeds = 3000
	}
	books, unknown, crossed := 0, 0, 0
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 5))
		w := replaytest.DBN{Version: 3}
		w.Header("XNAS.ITCH", replaytest.SchemaMBO)
		head := len(w.Bytes)
		randomStream(rng, &w, 400)
		d, r := New(Config{}), &reference{books: map[uint32]*referenceBook{}}
		var b decode.Batch
		var out []*played
		if _, err := d.Decode(w.Bytes[:head], &b); err != nil {
			t.Fatal(err)
		}
		for at := head; at < len(w.Bytes); {
			size := int(w.Bytes[at]) * 4
			m := w.Bytes[at : at+size]
			if n, err := d.Decode(m, &b); n != size || err != nil {
				t.Fatalf("seed %d: %d bytes of %d: %v", seed, n, size, err)
			}
			at += size
			for len(out) < len(b.Listed) {
				out = append(out, &played{})
			}
			for i := range b.Events {
				out[b.Events[i].Handle].event(&b.Events[i])
			}
			b.Reset()
			if m[1] != 0xa0 && m[1] != 0x12 {
				continue
			}
			want := r.record(m)
			h := slices.IndexFunc(b.Listed, func(in market.Instrument) bool {
				return in.ID.Symbol == fmt.Sprint(binary.LittleEndian.Uint32(m[4:]))
			})
			got := out[h]
			if want.shown == "" && !got.known {
				continue
			}
			books++
			if want.shown == "unknown" {
				unknown++
			}
			if got.book.Crossed() {
				crossed++
			}
			// A lost book may be reported before the end of the event.
			if text := got.text(); text != want.shown && (text != "unknown" || want.known) || !slices.Equal(got.out, want.out) {
				t.Fatalf("seed %d, byte %d, flags %#x:\n got %s\nwant %s\n%q\n%q", seed, at-size, m[36], text, want.shown, got.out, want.out)
			}
		}
		if err := d.End(nil, &b); err != nil {
			t.Fatal(err)
		}
		all := b.Stats.Used
		for _, n := range b.Stats.Skipped {
			all += n
		}
		if all != b.Stats.Lines {
			t.Errorf("seed %d: %d records of %d are counted", seed, all, b.Stats.Lines)
		}
	}
	if books < 100*seeds || unknown < seeds || crossed < seeds {
		t.Errorf("%d books compared, %d of them unknown, %d crossed", books, unknown, crossed)
	}
}
