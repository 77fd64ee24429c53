package store

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
)

// testDB is a database of numbers. let allows it to begin transactions.
type testDB struct {
	begin chan struct{} // one value for each transaction
	group groupCommit[*[]int]

	mu        sync.Mutex
	committed []int
	sizes     []int // of the transactions
	failing   error // for the next commits
}

func newTestDB() *testDB {
	l := &testDB{begin: make(chan struct{}, 1000)}
	l.group.transact = l.transact
	return l
}

func (l *testDB) transact(ctx context.Context, f func(*[]int) error) error {
	if ctx.Done() != nil {
		return errors.New("one caller's end would be that of others")
	}
	<-l.begin
	var changes []int
	if err := f(&changes); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing != nil {
		return l.failing
	}
	l.committed, l.sizes = append(l.committed, changes...), append(l.sizes, len(changes))
	return nil
}

func (l *testDB) let(n int) {
	for range n {
		l.begin <- struct{}{}
	}
}

// add adds a number; negative ones fail.
func (l *testDB) add(ctx context.Context, n int) error {
	return l.group.do(ctx, func(changes *[]int) error {
		if n < 0 {
			return errNegative
		}
		*changes = append(*changes, n)
		return nil
	})
}

var errNegative = errors.New("a negative number")

// together adds numbers concurrently, in a bubble: they wait in this order.
func (l *testDB) together(t *testing.T, numbers []int, want func(n int) error) (finish func()) {
	var all sync.WaitGroup
	for _, n := range numbers {
		all.Go(func() {
			if err := l.add(t.Context(), n); !errors.Is(err, want(n)) {
				t.Errorf("%d: %v, want %v", n, err, want(n))
			}
		})
		synctest.Wait()
	}
	return all.Wait
}

func fine(int) error { return nil }

func count(from, to int) (list []int) {
	for n := from; n < to; n++ {
		list = append(list, n)
	}
	return list
}

// TestGroupShares checks that all operations that wait when a transaction begins are in it, in
// order, up to a limit.
func TestGroupShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestDB()
		finish := l.together(t, count(0, 300), fine)
		l.let(3)
		finish()
		if !slices.Equal(l.committed, count(0, 300)) || !slices.Equal(l.sizes, []int{maxBatch, maxBatch, 300 - 2*maxBatch}) {
			t.Errorf("transactions of %v: %v", l.sizes, l.committed)
		}
		l.let(1)
		if err := l.add(t.Context(), 300); err != nil || len(l.sizes) != 4 {
			t.Errorf("the next: %v, %v", err, l.sizes)
		}
	})
}

// TestGroupFailure checks that only the failing operation of a shared transaction fails.
func TestGroupFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestDB()
		finish := l.together(t, []int{1, 2, -3, 4, -5}, func(n int) error {
			if n < 0 {
				return errNegative
			}
			return nil
		})
		l.let(6)
		finish()
		if !slices.Equal(l.committed, []int{1, 2, 4}) || !slices.Equal(l.sizes, []int{1, 1, 1}) {
			t.Errorf("transactions of %v: %v", l.sizes, l.committed)
		}
	})
}

// TestGroupCommitFails checks that every operation gets the error of a failed commit once, and that
// later commits work.
func TestGroupCommitFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestDB()
		l.failing = errors.New("the disk is full")
		finish := l.together(t, count(0, 10), func(int) error { return l.failing })
		l.let(1)
		finish()
		l.failing = nil
		l.let(1)
		if err := l.add(t.Context(), 10); err != nil || !slices.Equal(l.committed, []int{10}) {
			t.Errorf("afterwards: %v, %v", err, l.committed)
		}
	})
}

// TestGroupGivesUp checks that an operation canceled before the transaction is not in it, unless it
// leads.
func TestGroupGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestDB()
		finish := l.together(t, []int{1}, fine)
		var gone sync.WaitGroup
		giveUp := func(n int) context.CancelFunc {
			ctx, cancel := context.WithCancel(t.Context())
			gone.Go(func() {
				if err := l.add(ctx, n); !errors.Is(err, context.Canceled) {
					t.Errorf("%d: %v", n, err)
				}
			})
			synctest.Wait()
			return cancel
		}
		first := giveUp(2)
		rest := l.together(t, []int{3}, fine)
		giveUp(4)()
		first()
		gone.Wait()
		l.let(1)
		finish()
		rest()
		if !slices.Equal(l.committed, []int{1, 3}) {
			t.Errorf("committed %v", l.committed)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.add(ctx, 5); !errors.Is(err, context.Canceled) || l.group.hasLeader {
			t.Errorf("who had gone already: %v", err)
		}
	})
}

// TestGroupLeadPasses checks that a canceled caller never becomes or stays the leader.
func TestGroupLeadPasses(t *testing.T) {
	rounds := 20_000
	if os.Getenv("RUEDA_SOAK") != "1" {
		rounds /= 20
	}
	for range rounds {
		l := newTestDB()
		l.let(100)
		l.someGiveUp(t)
		if l.group.hasLeader || len(l.group.waiting) > 0 {
			t.Fatalf("led %v, with %d waiting", l.group.hasLeader, len(l.group.waiting))
		}
	}
}

// someGiveUp runs eight additions concurrently; the even ones are canceled at any time.
func (l *testDB) someGiveUp(t *testing.T) {
	var all sync.WaitGroup
	for n := range 8 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		all.Go(func() {
			if err := l.add(ctx, n); err != nil && (!errors.Is(err, context.Canceled) || n%2 == 1) {
				t.Errorf("%d: %v", n, err)
			}
		})
		if n%2 == 0 {
			all.Go(cancel)
		}
	}
	all.Wait()
	for n := 1; n < 8; n += 2 {
		if !slices.Contains(l.committed, n) {
			t.Fatalf("%d did not give up, and is not in %v", n, l.committed)
		}
	}
}

// TestGroupPanic checks that a panic reaches the leader's caller. The others get an error, and the
// next caller leads.
func TestGroupPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestDB()
		var all sync.WaitGroup
		all.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("there was no panic")
				}
			}()
			_ = l.group.do(t.Context(), func(*[]int) error { panic("on purpose") })
		})
		synctest.Wait()
		finish := l.together(t, []int{1, 2}, func(int) error { return errUnfinished })
		l.let(1)
		finish()
		all.Wait()
		l.let(1)
		if err := l.add(t.Context(), 3); err != nil || !slices.Equal(l.committed, []int{3}) {
			t.Errorf("afterwards: %v, %v", err, l.committed)
		}
	})
}
