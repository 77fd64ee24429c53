package market

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// modelBook is a straightforward implementation of a book.
type modelBook map[Side]map[Price]Level

func newModelBook() modelBook {
	return modelBook{Buy: {}, Sell: {}}
}

// levels returns a side, best first.
func (m modelBook) levels(side Side) []Level {
	return slices.SortedFunc(maps.Values(m[side]), func(a, b Level) int {
		if side == Sell {
			return cmp.Compare(a.Price, b.Price)
		}
		return cmp.Compare(b.Price, a.Price)
	})
}

func checkBook(t *testing.T, b *Book, m modelBook) {
	t.Helper()
	for _, side := range []Side{Buy, Sell} {
		want := m.levels(side)
		if got := b.Append(nil, side, 0); !slices.Equal(got, want) {
			t.Fatalf("side %d:\n got %v\nwant %v", side, got, want)
		}
		if b.Len(side) != len(want) {
			t.Fatalf("Len(%d) = %d, want %d", side, b.Len(side), len(want))
		}
		best, ok := b.Best(side)
		if ok != (len(want) > 0) || (ok && best != want[0]) {
			t.Fatalf("Best(%d) = %v, %v, want the first of %v", side, best, ok, want)
		}
		for i := range want {
			if b.At(side, i) != want[i] {
				t.Fatalf("At(%d, %d) = %v, want %v", side, i, b.At(side, i), want[i])
			}
		}
		if n := len(want) / 2; n > 0 {
			if got := b.Append(nil, side, n); !slices.Equal(got, want[:n]) {
				t.Fatalf("Append(%d, %d) = %v, want %v", side, n, got, want[:n])
			}
		}
	}
	bids, asks := m.levels(Buy), m.levels(Sell)
	crossed := len(bids) > 0 && len(asks) > 0 && bids[0].Price >= asks[0].Price
	if b.Crossed() != crossed {
		t.Fatalf("Crossed() = %v, want %v", b.Crossed(), crossed)
	}
}

func TestBookModel(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		// Small books use the scan near the best price, large ones the binary search.
		width := []int{3, 12, 200}[seed%3]
		var b Book
		m := newModelBook()
		for range 1500 {
			side := Buy + Side(rng.IntN(2))
			l := Level{Price: Price(rng.IntN(width) - width/2), Orders: uint32(rng.IntN(3))}
			if rng.IntN(3) > 0 {
				l.Size = Size(1 + rng.IntN(4))
			}
			before, had := m[side][l.Price]
			wantOld, wantChanged := Level{Price: l.Price}, l.Size > 0
			if had {
				wantOld, wantChanged = before, before != l
			}
			if l.Size == 0 {
				delete(m[side], l.Price)
			} else {
				m[side][l.Price] = l
			}
			old, changed := b.Set(side, l)
			if old != wantOld || changed != wantChanged {
				t.Fatalf("seed %d: Set(%d, %v) = %v, %v, want %v, %v", seed, side, l, old, changed, wantOld, wantChanged)
			}
			found, ok := b.Find(side, l.Price)
			if ok != (l.Size > 0) || (ok && found != l) {
				t.Fatalf("seed %d: Find(%d, %v) = %v, %v after Set %v", seed, side, l.Price, found, ok, l)
			}
			if rng.IntN(50) == 0 {
				checkBook(t, &b, m)
			}
		}
		checkBook(t, &b, m)
		b.Reset()
		checkBook(t, &b, newModelBook())
	}
}

type modelOrder struct {
	side  Side
	price Price
	size  Size
}

// bookOf builds the book from all orders each time.
func bookOf(orders map[uint64]modelOrder) modelBook {
	m := newModelBook()
	for _, o := range orders {
		l := m[o.side][o.price]
		m[o.side][o.price] = Level{Price: o.price, Size: l.Size + o.size, Orders: l.Orders + 1}
	}
	return m
}

// levelOf returns a level of the model, with size 0 if there is none.
func levelOf(m modelBook, side Side, price Price) Level {
	l := m[side][price]
	l.Price = price
	return l
}

// orderModel is an order book together with the model it is compared with.
type orderModel struct {
	book   OrderBook
	orders map[uint64]modelOrder
}

func TestOrderBookModel(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 2))
		// Few ids make duplicates and long clusters; multiples of a large power of two share the
		// low bits.
		ids := uint64([]int{8, 60, 2000}[seed%3])
		stride := []uint64{1, 1 << 40}[seed%2]
		m := orderModel{orders: map[uint64]modelOrder{}}
		for range 1200 {
			id := rng.Uint64N(ids) * stride
			o := modelOrder{Buy + Side(rng.IntN(2)), Price(rng.IntN(12)), Size(rng.IntN(5))}
			switch rng.IntN(5) {
			case 0, 1:
				m.add(t, id, o)
			case 2:
				next := id
				if rng.IntN(2) == 0 {
					next = rng.Uint64N(ids) * stride
				}
				m.modify(t, id, next, o)
				id = next
			case 3:
				m.delete(t, id)
			case 4:
				m.fill(t, id, o.size)
			}
			if m.book.Len() != len(m.orders) {
				t.Fatalf("seed %d: Len() = %d, want %d", seed, m.book.Len(), len(m.orders))
			}
			side, price, size, ok := m.book.Order(id)
			want, wantOK := m.orders[id]
			if ok != wantOK || (modelOrder{side, price, size}) != want {
				t.Fatalf("seed %d: Order(%d) = %d, %v, %v, %v, want %v", seed, id, side, price, size, ok, want)
			}
		}
		checkBook(t, m.book.Book(), bookOf(m.orders))
		m.book.Reset()
		checkBook(t, m.book.Book(), newModelBook())
		if _, _, err := m.book.Delete(0); err != ErrUnknownOrder {
			t.Fatalf("Delete after Reset: %v", err)
		}
	}
}

func (m *orderModel) add(t *testing.T, id uint64, o modelOrder) {
	t.Helper()
	_, had := m.orders[id]
	l, err := m.book.Add(id, o.side, o.price, o.size)
	switch {
	case o.size == 0:
		wantError(t, err, ErrBadOrder)
	case had:
		wantError(t, err, ErrDuplicateOrder)
	default:
		wantError(t, err, nil)
		m.orders[id] = o
		wantLevel(t, l, levelOf(bookOf(m.orders), o.side, o.price))
	}
}

// modify changes an order, which then has the id next.
func (m *orderModel) modify(t *testing.T, id, next uint64, o modelOrder) {
	t.Helper()
	old, had := m.orders[id]
	_, taken := m.orders[next]
	side, from, to, err := m.book.Replace(id, next, o.price, o.size)
	switch {
	case next != id && taken:
		wantError(t, err, ErrDuplicateOrder)
	case o.size == 0:
		wantError(t, err, ErrBadOrder)
	case !had:
		wantError(t, err, ErrUnknownOrder)
	default:
		wantError(t, err, nil)
		delete(m.orders, id)
		m.orders[next] = modelOrder{old.side, o.price, o.size}
		model := bookOf(m.orders)
		if side != old.side {
			t.Fatalf("Modify: side %d, want %d", side, old.side)
		}
		wantLevel(t, from, levelOf(model, old.side, old.price))
		wantLevel(t, to, levelOf(model, old.side, o.price))
	}
}

func (m *orderModel) delete(t *testing.T, id uint64) {
	t.Helper()
	old, had := m.orders[id]
	side, l, err := m.book.Delete(id)
	if !had {
		wantError(t, err, ErrUnknownOrder)
		return
	}
	wantError(t, err, nil)
	delete(m.orders, id)
	if side != old.side {
		t.Fatalf("Delete: side %d, want %d", side, old.side)
	}
	wantLevel(t, l, levelOf(bookOf(m.orders), old.side, old.price))
}

func (m *orderModel) fill(t *testing.T, id uint64, size Size) {
	t.Helper()
	old, had := m.orders[id]
	side, l, err := m.book.Fill(id, size)
	switch {
	case size == 0:
		wantError(t, err, ErrBadOrder)
	case !had:
		wantError(t, err, ErrUnknownOrder)
	case size > old.size:
		wantError(t, err, ErrOverfill)
	default:
		wantError(t, err, nil)
		old.size -= size
		if m.orders[id] = old; old.size == 0 {
			delete(m.orders, id)
		}
		if side != old.side {
			t.Fatalf("Fill: side %d, want %d", side, old.side)
		}
		wantLevel(t, l, levelOf(bookOf(m.orders), old.side, old.price))
	}
}

func wantError(t *testing.T, got, want error) {
	t.Helper()
	if got != want {
		t.Fatalf("error %v, want %v", got, want)
	}
}

func wantLevel(t *testing.T, got, want Level) {
	t.Helper()
	if got != want {
		t.Fatalf("level %v, want %v", got, want)
	}
}

func TestOrderBookRange(t *testing.T) {
	var b OrderBook
	if _, err := b.Add(1, Buy, 5, maxSize-3); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Add(2, Buy, 5, 4); err != ErrRange {
		t.Errorf("Add past the range: %v, want ErrRange", err)
	}
	if _, err := b.Add(2, Buy, 5, 3); err != nil {
		t.Errorf("Add up to the range: %v", err)
	}
	if _, _, _, err := b.Modify(2, 5, 4); err != ErrRange {
		t.Errorf("Modify past the range: %v, want ErrRange", err)
	}
	if _, _, _, err := b.Modify(1, 5, maxSize-4); err != nil {
		t.Errorf("Modify within the range: %v", err)
	}
	if _, err := b.Add(3, NoSide, 5, 1); err != ErrBadOrder {
		t.Errorf("Add without a side: %v, want ErrBadOrder", err)
	}
	if l, _ := b.Book().Best(Buy); l != (Level{Price: 5, Size: maxSize - 1, Orders: 2}) {
		t.Errorf("level %v", l)
	}
}

// bookOp is an event of the benchmarks, by level and by order.
type bookOp struct {
	kind  Kind
	id    uint64
	side  Side
	price Price
	size  Size // of the order
	level Level
}

// bookEvents returns events that can be repeated without end: what they add to a standing book they
// remove before the last event. One event in ten is a fill. Adds and deletes balance at about 100
// live orders, most of them within a few levels of the best price, like a share of the leading
// panel.
func bookEvents(n int) (standing, ops []bookOp) {
	rng := rand.New(rand.NewPCG(1, 2))
	var b OrderBook
	var live []uint64
	next := uint64(1)
	record := func(kind Kind, id uint64, side Side, price Price, size Size) bookOp {
		return bookOp{kind: kind, id: id, side: side, price: price, size: size, level: levelAt(&b, side, price)}
	}
	add := func(id uint64, side Side, price Price, size Size) bookOp {
		if _, err := b.Add(id, side, price, size); err != nil {
			panic(err)
		}
		return record(KindOrderAdd, id, side, price, size)
	}
	remove := func(i int) bookOp {
		id := live[i]
		side, price, size, _ := b.Order(id)
		live[i] = live[len(live)-1]
		live = live[:len(live)-1]
		if _, _, err := b.Delete(id); err != nil {
			panic(err)
		}
		return record(KindOrderDelete, id, side, price, size)
	}
	const mid, depth, target = 10_000, 10, 80
	for i := range Price(depth) {
		standing = append(standing, add(next, Buy, mid-1-i, 500), add(next+1, Sell, mid+1+i, 500))
		next += 2
	}
	for len(ops) < n {
		switch {
		case len(live) > 0 && rng.IntN(10) == 0:
			id := live[rng.IntN(len(live))]
			side, price, size, _ := b.Order(id)
			if size < 2 {
				continue
			}
			if _, _, err := b.Fill(id, size/2); err != nil {
				panic(err)
			}
			ops = append(ops, record(KindOrderFill, id, side, price, size/2))
		case rng.IntN(target+len(live)) < target:
			side, away := Buy, Price(min(30, rng.ExpFloat64()*4))
			price := mid - 1 - away
			if rng.IntN(2) == 0 {
				side, price = Sell, mid+1+away
			}
			live = append(live, next)
			ops = append(ops, add(next, side, price, Size(100+rng.IntN(400))))
			next++
		default:
			ops = append(ops, remove(rng.IntN(len(live))))
		}
	}
	for len(live) > 0 {
		ops = append(ops, remove(len(live)-1))
	}
	return standing, ops
}

func levelAt(b *OrderBook, side Side, price Price) Level {
	l, _ := b.Book().Find(side, price)
	l.Price = price
	return l
}

func (op *bookOp) apply(b *OrderBook) error {
	var err error
	switch op.kind {
	case KindOrderAdd:
		_, err = b.Add(op.id, op.side, op.price, op.size)
	case KindOrderDelete:
		_, _, err = b.Delete(op.id)
	case KindOrderFill:
		_, _, err = b.Fill(op.id, op.size)
	}
	return err
}

// bestOf is the best bid and offer, which every event of the benchmarks compares.
type bestOf struct{ bid, ask Level }

func (q *bestOf) read(b *Book) (changed bool) {
	was := *q
	q.bid, _ = b.Best(Buy)
	q.ask, _ = b.Best(Sell)
	return *q != was
}

// BenchmarkBookInterleaved measures one event and the new best bid and offer when events of 400
// instruments alternate, so that each finds its book cold in the cache. Each instrument starts at a
// different event, so that the branch predictor does not learn from the previous one; the events
// are close together in memory, as if just decoded. The budget is 80 ns and no allocation.
func BenchmarkBookInterleaved(b *testing.B) {
	const instruments = 400
	standing, ops := bookEvents(4096)
	b.Run("levels", func(b *testing.B) {
		books := make([]Book, instruments)
		runInterleaved(b, standing, ops, instruments,
			func(i int, op *bookOp) { books[i].Set(op.side, op.level) },
			func(i int) *Book { return &books[i] })
	})
	b.Run("orders", func(b *testing.B) {
		books := make([]OrderBook, instruments)
		runInterleaved(b, standing, ops, instruments,
			func(i int, op *bookOp) {
				if err := op.apply(&books[i]); err != nil {
					b.Fatal(err)
				}
			},
			func(i int) *Book { return books[i].Book() })
	})
}

func runInterleaved(b *testing.B, standing, ops []bookOp, instruments int, apply func(int, *bookOp), book func(int) *Book) {
	quotes, cursors := make([]bestOf, instruments), make([]int, instruments)
	for i := range instruments {
		for j := range standing {
			apply(i, &standing[j])
		}
		for j := range ops { // one full pass to grow the memory
			apply(i, &ops[j])
		}
		cursors[i] = i * 997 % 509
		for j := range cursors[i] {
			apply(i, &ops[j])
		}
	}
	b.ReportAllocs()
	i, changes := 0, 0
	for b.Loop() {
		apply(i, &ops[cursors[i]])
		if quotes[i].read(book(i)) {
			changes++
		}
		if cursors[i]++; cursors[i] == len(ops) {
			cursors[i] = 0
		}
		if i++; i == instruments {
			i = 0
		}
	}
	b.ReportMetric(float64(changes)/float64(b.N), "bbo-changes/op")
}

func TestBookAllocs(t *testing.T) {
	standing, ops := bookEvents(1000)
	var orders OrderBook
	var levels Book
	play := func(ops []bookOp) {
		for i := range ops {
			if err := ops[i].apply(&orders); err != nil {
				t.Fatal(err)
			}
			levels.Set(ops[i].side, ops[i].level)
		}
	}
	play(standing)
	play(ops)
	if n := testing.AllocsPerRun(5, func() { play(ops) }); n != 0 {
		t.Errorf("%v allocations in %d events, want 0", n, len(ops))
	}
	if got, want := orders.Book().Append(nil, Buy, 0), levels.Append(nil, Buy, 0); !slices.Equal(got, want) {
		t.Errorf("bids by order %v, by level %v", got, want)
	}
}
