package password

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/clientaddr"
)

func TestSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFairSemaphore(2, 3, 2*time.Second)
		var refused, timedOut, canceled atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			if err := s.acquire(ctx, netip.Prefix{}); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		wait := func(ctx context.Context, count *atomic.Int32) {
			wg.Go(func() {
				if err := s.acquire(ctx, netip.Prefix{}); errors.Is(err, broker.ErrUnavailable) {
					count.Add(1)
				} else if err == nil {
					s.release()
				}
			})
		}
		wait(ctx, &canceled)
		wait(t.Context(), &timedOut)
		wait(t.Context(), &timedOut)
		synctest.Wait()
		for range 10 {
			wait(t.Context(), &refused)
		}
		synctest.Wait()
		if refused.Load() != 10 {
			t.Errorf("%d of 10 were refused while the queue was full", refused.Load())
		}
		cancel()
		synctest.Wait()
		if canceled.Load() != 1 {
			t.Error("one that gave up still waits")
		}
		time.Sleep(2 * time.Second)
		wg.Wait()
		if timedOut.Load() != 2 {
			t.Errorf("%d of 2 were refused after their wait", timedOut.Load())
		}
		s.release()
		if err := s.acquire(t.Context(), netip.Prefix{}); err != nil {
			t.Errorf("a slot that was given back is gone: %v", err)
		}
		if running, waiting, refused := s.stats(); running != 2 || waiting != 0 || refused != 13 {
			t.Errorf("%d run, %d wait, %d were refused", running, waiting, refused)
		}
	})
}

// TestFairness has one network flood a Checker of one slot, whose hashes take 20 ms, while others
// log in. The flood gets a quarter of the queue, and each of the others waits for one hash of each
// network, not for the flood.
func TestFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(Config{Slots: 1, Queue: 64})
		c.matches = func(*parsed, string) bool { time.Sleep(20 * time.Millisecond); return true }
		const stored = "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
		var (
			wg        sync.WaitGroup
			mu        sync.Mutex
			order     []string
			turnedOff int
		)
		login := func(name string, from netip.Addr) {
			wg.Go(func() {
				_, _, err := c.Verify(t.Context(), stored, "password", from)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					order = append(order, name)
				} else {
					turnedOff++
				}
			})
			synctest.Wait() // one after another, so that only the queue decides the order
		}
		for i := range 100 { // all of one /24: one runs, 16 wait, the others are refused
			login("flood", netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}))
		}
		if turnedOff != 100-1-16 {
			t.Errorf("%d of the flood were turned off", turnedOff)
		}
		for i := range 4 {
			login(fmt.Sprint("ana ", i), netip.AddrFrom4([4]byte{198, 51, 100, byte(i)}))
		}
		login("otto", netip.MustParseAddr("2001:db8:1::1"))
		login("otto", netip.MustParseAddr("2001:db8:1:ffff::2")) // of the same /48
		login("nobody knows", netip.Addr{})
		wg.Wait()
		want := []string{
			"flood", // it had the slot when the others came
			"flood", "ana 0", "otto", "nobody knows",
			"flood", "ana 1", "otto",
			"flood", "ana 2",
			"flood", "ana 3",
		}
		if got := order[:len(want)]; !slices.Equal(got, want) {
			t.Errorf("turns %q, want %q", got, want)
		}
		if turnedOff != 83 || len(order) != 24 {
			t.Errorf("%d turned off, %d logged in", turnedOff, len(order))
		}
	})
}

// TestQueueIsBounded checks the limit of the queue with many networks.
func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFairSemaphore(1, 8, time.Second)
		if err := s.acquire(t.Context(), netip.Prefix{}); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var refused atomic.Int32
		for i := range 100 {
			wg.Go(func() {
				if err := s.acquire(t.Context(), clientaddr.Network(netip.AddrFrom4([4]byte{10, 0, byte(i), 1}))); err != nil {
					refused.Add(1)
				}
			})
		}
		synctest.Wait()
		if _, waiting, _ := s.stats(); waiting != 8 || refused.Load() != 92 {
			t.Errorf("%d wait, %d were refused", waiting, refused.Load())
		}
		time.Sleep(time.Second)
		wg.Wait()
		if len(s.queues) != 0 || len(s.order) != 0 {
			t.Errorf("%d lines and %d turns are left of those who went", len(s.queues), len(s.order))
		}
	})
}
