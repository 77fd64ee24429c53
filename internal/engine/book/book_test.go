package book

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// reader maintains a book as a client does, from the messages alone.
type reader struct {
	market.Book
	depth int
}

func (r *reader) take(t *testing.T, l *Levels) {
	t.Helper()
	for side, list := range map[market.Side][]market.Level{market.Buy: l.Bids, market.Sell: l.Asks} {
		for i, x := range list {
			if i > 0 && (side == market.Buy) != (x.Price < list[i-1].Price) {
				t.Fatalf("levels are not best first: %v", list)
			}
			if _, changed := r.Set(side, x); !changed {
				t.Fatalf("%v is told and no change", x)
			}
		}
	}
}

func (r *reader) check(t *testing.T, what string, want *Levels) {
	t.Helper()
	var got Levels
	got.Bids = r.Append(nil, market.Buy, 0)
	got.Asks = r.Append(nil, market.Sell, 0)
	if !slices.Equal(got.Bids, want.Bids) || !slices.Equal(got.Asks, want.Asks) {
		t.Fatalf("%s, depth %d: got %v, want %v", what, r.depth, got, *want)
	}
}

// random generates events, some of which are invalid.
type random struct {
	*rand.Rand
	ids uint64
}

func (r *random) level() market.Level {
	n := r.IntN(4)
	return market.Level{Price: market.Price(100 + r.IntN(30)), Size: market.Size(n), Orders: uint32(n)}
}

func (r *random) levels(n int) (list []market.Level) {
	for range r.IntN(n) {
		list = append(list, r.level())
	}
	return list
}

func (r *random) order() market.Event {
	kinds := [...]market.Kind{market.KindOrderAdd, market.KindOrderAdd, market.KindOrderModify, market.KindOrderDelete, market.KindOrderFill, market.KindOrderReplace}
	l := r.level()
	e := market.Event{Kind: kinds[r.IntN(len(kinds))], Price: l.Price, Size: l.Size + 1, Side: market.Buy}
	if e.Kind == market.KindOrderAdd {
		r.ids++
		if e.OrderID = r.ids; r.IntN(2) == 0 {
			e.Side = market.Sell
		}
		return e
	}
	e.OrderID = 1 + r.Uint64N(r.ids+1)
	if e.Kind == market.KindOrderReplace {
		r.ids++
		e.NewID = r.ids
	}
	return e
}

// TestReadersFollow has readers of every kind of view follow a random book from their messages,
// sent at every change or now and then.
func TestReadersFollow(t *testing.T) {
	for seed := range uint64(8) {
		rng := &random{Rand: rand.New(rand.NewPCG(seed, 5))}
		byOrder := seed%2 == 1
		var b Book
		b.Replace(rng.start(byOrder))
		views := follow(&b)
		for range 3000 {
			if rng.IntN(200) == 0 {
				b.Replace(rng.start(byOrder))
				for _, v := range views {
					v.renew(&b)
				}
				continue
			}
			var before Levels
			before.Read(&b, 0)
			changes, err := rng.act(&b, byOrder)
			if err != nil {
				var after Levels
				if after.Read(&b, 0); !slices.Equal(after.Bids, before.Bids) || !slices.Equal(after.Asks, before.Asks) {
					t.Fatalf("refused with %v, and changed", err)
				}
				continue
			}
			changes = Compact(changes)
			for _, v := range views {
				v.follow(t, &b, changes, rng.IntN(9) == 0)
			}
		}
	}
}

// start returns the levels of a random snapshot, best first, or none if the feed is order by order.
func (r *random) start(byOrder bool) (bids, asks []market.Level) {
	if byOrder {
		return nil, nil
	}
	for p := market.Price(110); p > 100; p -= market.Price(1 + r.IntN(5)) {
		bids = append(bids, market.Level{Price: p, Size: 1, Orders: 1})
		asks = append(asks, market.Level{Price: 230 - p, Size: 2, Orders: 1})
	}
	return bids, asks
}

func (r *random) act(b *Book, byOrder bool) ([]Change, error) {
	if byOrder {
		e := r.order()
		return b.Order(nil, &e)
	}
	n := 6
	if r.IntN(10) == 0 {
		n = 3 * manyLevels
	}
	return b.Update(nil, r.levels(n), r.levels(n))
}

// follower is a view with its reader.
type follower struct {
	view      View
	reader    reader
	conflated bool
	out, top  Levels
}

func follow(b *Book) (list []*follower) {
	for _, depth := range []int{0, 1, 5, 25} {
		for _, conflated := range []bool{false, true} {
			f := &follower{reader: reader{depth: depth}, conflated: conflated}
			f.view.Begin(b, depth, conflated)
			f.renew(b)
			list = append(list, f)
		}
	}
	return list
}

// renew sends the whole view.
func (f *follower) renew(b *Book) {
	f.view.Reset(b)
	f.out.Read(b, f.reader.depth)
	f.reader.Reset()
	for _, x := range f.out.Bids {
		f.reader.Set(market.Buy, x)
	}
	for _, x := range f.out.Asks {
		f.reader.Set(market.Sell, x)
	}
}

// follow sends changes, or notes them if a conflated view is not due.
func (f *follower) follow(t *testing.T, b *Book, changes []Change, due bool) {
	t.Helper()
	var now Levels
	now.Read(b, f.reader.depth)
	switch {
	case f.conflated:
		f.view.Record(changes)
		if !due {
			f.view.Last(&now)
			f.reader.check(t, "what was told last", &now)
			return
		}
		f.view.Advance(&f.out, &f.top, b)
	case f.reader.depth == 0:
		f.out.Split(changes)
	case f.view.Sees(changes):
		f.view.Advance(&f.out, &f.top, b)
	default:
		f.reader.check(t, "out of sight", &now)
		return
	}
	f.reader.take(t, &f.out)
	f.reader.check(t, "what is told", &now)
}

// TestCompact checks that changes are sorted by side and best first, with one change per price.
func TestCompact(t *testing.T) {
	at := func(p market.Price, s market.Size) market.Level { return market.Level{Price: p, Size: s} }
	got := Compact([]Change{
		{market.Sell, at(7, 1), at(7, 2)},
		{market.Buy, at(3, 0), at(3, 5)},
		{market.Sell, at(6, 1), at(6, 0)},
		{market.Buy, at(4, 1), at(4, 2)},
		{market.Buy, at(3, 5), at(3, 6)},
		{market.Buy, at(4, 2), at(4, 1)},
	})
	want := []Change{
		{market.Buy, at(3, 0), at(3, 6)},
		{market.Sell, at(6, 1), at(6, 0)},
		{market.Sell, at(7, 1), at(7, 2)},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestFeeds checks that a book holds levels or orders and that a snapshot switches between them.
func TestFeeds(t *testing.T) {
	var b Book
	one := []market.Level{{Price: 5, Size: 1}}
	add := market.Event{Kind: market.KindOrderAdd, OrderID: 1, Side: market.Buy, Price: 4, Size: 1}
	act := func(want error, byOrder bool) {
		t.Helper()
		var err error
		if byOrder {
			_, err = b.Order(nil, &add)
			add.OrderID++
		} else {
			_, err = b.Update(nil, one, nil)
		}
		if !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
	act(nil, false)
	act(ErrLevels, true)
	b.Replace(nil, nil)
	act(nil, true)
	act(ErrOrders, false)
	b.Replace(one, nil)
	act(nil, false)
	act(ErrLevels, true)
	if n := b.Levels().Len(market.Buy); n != 1 {
		t.Errorf("%d bids", n)
	}
}

// TestBounds checks that a book that would be too deep is unchanged, and that orders with too large
// a sum are reported.
func TestBounds(t *testing.T) {
	var b Book
	deep := make([]market.Level, MaxLevels)
	for i := range deep {
		deep[i] = market.Level{Price: market.Price(i + 1), Size: 1}
	}
	if _, err := b.Update(nil, deep, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Update(nil, []market.Level{{Price: 1e6, Size: 1}}, nil); !errors.Is(err, ErrDepth) || b.Levels().Len(market.Buy) != MaxLevels {
		t.Errorf("%v, %d levels", err, b.Levels().Len(market.Buy))
	}
	b = Book{}
	most := market.Size(999_999_999_999_999)
	for i := range uint64(2) {
		e := market.Event{Kind: market.KindOrderAdd, OrderID: i + 1, Side: market.Buy, Price: 4, Size: most}
		if _, err := b.Order(nil, &e); (i == 1) != errors.Is(err, ErrSum) {
			t.Errorf("order %d: %v", i, err)
		}
	}
}

// TestNoAllocation checks that a book does not allocate in the steady state.
func TestNoAllocation(t *testing.T) {
	var b Book
	b.Replace((&random{Rand: rand.New(rand.NewPCG(1, 1))}).start(false))
	views := follow(&b)
	var changes []Change
	n := market.Size(1)
	got := testing.AllocsPerRun(200, func() {
		n++
		bids := [...]market.Level{{Price: 110, Size: n, Orders: 1}, {Price: 50, Size: n % 2}}
		changes, _ = b.Update(changes[:0], bids[:], nil)
		changes = Compact(changes)
		for _, f := range views {
			switch {
			case f.conflated:
				f.view.Record(changes)
				f.view.Advance(&f.out, &f.top, &b)
			case f.reader.depth == 0:
				f.out.Split(changes)
			case f.view.Sees(changes):
				f.view.Advance(&f.out, &f.top, &b)
			}
		}
	})
	if got > 0 {
		t.Errorf("%v allocations", got)
	}
}
