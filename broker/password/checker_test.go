package password

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/clientaddr"
)

func TestHashAndCheck(t *testing.T) {
	c := New(Config{})
	stored, err := c.Hash(t.Context(), "right password", nowhere)
	if err != nil || !strings.HasPrefix(stored, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Fatalf("%s, %v", stored, err)
	}
	if again, _ := c.Hash(t.Context(), "right password", nowhere); again == stored {
		t.Error("two hashes have one salt")
	}
	for password, want := range map[string]bool{"right password": true, "right password ": false, "Right password": false, "x": false} {
		if ok, rehash, err := c.Check(t.Context(), stored, password, nowhere); ok != want || rehash != "" || err != nil {
			t.Errorf("%q: %v, %q, %v", password, ok, rehash, err)
		}
	}
	for _, password := range []string{"", strings.Repeat("x", MaxLength+1)} {
		before := c.Stats().Hashed
		if ok, _, err := c.Check(t.Context(), stored, password, nowhere); ok || err != nil || c.Stats().Hashed != before {
			t.Errorf("%d bytes: %v, %v, %d hashes", len(password), ok, err, c.Stats().Hashed-before)
		}
		if _, err := c.Hash(t.Context(), password, nowhere); err == nil {
			t.Errorf("%d bytes: hashed", len(password))
		}
	}
}

// TestRehash checks that hashes of another scheme or a lower cost are replaced at a successful
// login only, and others are not.
func TestRehash(t *testing.T) {
	const password = "right password"
	c := New(Config{Cost: Cost{Memory: 128, Time: 2}})
	hash := func(c *Checker) string {
		s, err := c.Hash(t.Context(), password, nowhere)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	blow, err := bcrypt.GenerateFromPassword([]byte(password), 4)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		what, stored string
		replaced     bool
	}{
		{"its own", hash(c), false},
		{"bcrypt", string(blow), true},
		{"less memory", hash(New(Config{Cost: Cost{Memory: 64, Time: 2}})), true},
		{"fewer passes", hash(New(Config{Cost: Cost{Memory: 128, Time: 1}})), true},
		{"as much work in another shape", hash(New(Config{Cost: Cost{Memory: 256, Time: 1}})), false},
		{"more of all", hash(New(Config{Cost: Cost{Memory: 256, Time: 4, Threads: 2}})), false},
	} {
		if ok, rehash, err := c.Check(t.Context(), v.stored, password+"x", nowhere); ok || rehash != "" || err != nil {
			t.Errorf("%s, wrong password: %v, %q, %v", v.what, ok, rehash, err)
		}
		ok, rehash, err := c.Check(t.Context(), v.stored, password, nowhere)
		if !ok || err != nil || (rehash != "") != v.replaced {
			t.Errorf("%s: %v, %q, %v", v.what, ok, rehash, err)
		}
		if rehash == "" {
			continue
		}
		if ok, next, err := c.Check(t.Context(), rehash, password, nowhere); !ok || next != "" || err != nil {
			t.Errorf("%s, replaced: %v, %q, %v", v.what, ok, next, err)
		}
	}
}

// TestPepper checks that a copy of the table alone cannot verify passwords, that a pepper can be
// replaced, and that hashes without one get one.
func TestPepper(t *testing.T) {
	const password = "right password"
	first, second := bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	plain, old, rotated := cheap(), cheap(first), cheap(second, first)
	bare, err := plain.Hash(t.Context(), password, nowhere)
	if err != nil {
		t.Fatal(err)
	}
	peppered, err := old.Hash(t.Context(), password, nowhere)
	if err != nil || !strings.Contains(peppered, ",keyid=") {
		t.Fatalf("%s, %v", peppered, err)
	}
	for _, v := range []struct {
		what     string
		c        *Checker
		stored   string
		ok       bool
		replaced bool
		err      error
	}{
		{"the same pepper", old, peppered, true, false, nil},
		{"a pepper now, none then", old, bare, true, true, nil},
		{"another pepper now, this one kept", rotated, peppered, true, true, nil},
		{"no pepper now", plain, peppered, false, false, ErrHash},
		{"another pepper now, this one gone", cheap(second), peppered, false, false, ErrHash},
	} {
		ok, rehash, err := v.c.Check(t.Context(), v.stored, password, nowhere)
		if ok != v.ok || (rehash != "") != v.replaced || !errors.Is(err, v.err) {
			t.Errorf("%s: %v, %q, %v", v.what, ok, rehash, err)
		}
		if rehash != "" {
			if ok, again, err := v.c.Check(t.Context(), rehash, password, nowhere); !ok || again != "" || err != nil {
				t.Errorf("%s, replaced: %v, %q, %v", v.what, ok, again, err)
			}
		}
	}
	// Without the keyid the hash is that of another input.
	if ok, _, err := plain.Check(t.Context(), strings.Replace(peppered, ",keyid="+old.peppers[0].id, "", 1), password, nowhere); ok || err != nil {
		t.Errorf("the pepper is in the name alone: %v, %v", ok, err)
	}
}

// TestThreat05IdenticalWork checks that failed logins cannot be distinguished by their time: each
// computes one hash of the same work.
func TestThreat05IdenticalWork(t *testing.T) {
	c := New(Config{})
	stored, err := c.Hash(t.Context(), "right password", nowhere)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct{ what, stored, password string }{
		{"right", stored, "right password"},
		{"wrong password", stored, "wrong password"},
		{"unknown user", "", "right password"},
		{"a row that asks for 4 GiB", strings.Replace(stored, "m=19456", "m=4194304", 1), "right password"},
		{"a plain password", "right password", "right password"},
		{"a damaged row", stored[:40], "right password"},
	} {
		before := c.Stats()
		ok, _, _ := c.Check(t.Context(), v.stored, v.password, nowhere)
		after := c.Stats()
		if ok != (v.what == "right") || after.Hashed-before.Hashed != 1 || after.Work-before.Work != 2*19456<<10 {
			t.Errorf("%s: %v, %d hashes, %d bytes worked through", v.what, ok, after.Hashed-before.Hashed, after.Work-before.Work)
		}
	}
}

// TestThreat04KDFExhaustion starts 1,000 concurrent logins from many networks: there are never more
// hashes than slots, so that memory is bounded; the queue is bounded, and every login gets an
// answer.
func TestThreat04KDFExhaustion(t *testing.T) {
	const slots, queue, all = 2, 128, 1000
	c := New(Config{Slots: slots, Queue: queue, QueueWait: time.Minute})
	var running, most, right, unavailable atomic.Int32
	full := make(chan struct{})
	c.matches = func(*parsed, string) bool {
		n := running.Add(1)
		defer running.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-full
		return true
	}
	stored := "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			from := netip.AddrFrom4([4]byte{10, byte(i), 0, 1})
			switch ok, _, err := c.Verify(t.Context(), stored, "password", from); {
			case ok && err == nil:
				right.Add(1)
			case errors.Is(err, broker.ErrUnavailable):
				if unavailable.Add(1) == all-slots-queue {
					close(full) // all that did not fit have been refused during the first hashes
				}
			default:
				t.Errorf("%v, %v", ok, err)
			}
		})
	}
	wg.Wait()
	s := c.Stats()
	if most.Load() != slots || right.Load() != slots+queue || s.Refused != all-slots-queue || s.Running != 0 || s.Waiting != 0 {
		t.Errorf("%d at once, %d right, %d refused, now %+v; want %d, %d, %d", most.Load(), right.Load(), unavailable.Load(), s, slots, slots+queue, all-slots-queue)
	}
}

// TestMemoryOfFlood computes 15 hashes in one slot and checks that their garbage stays close to the
// memory of two.
func TestMemoryOfFlood(t *testing.T) {
	c := New(Config{Slots: 1, QueueWait: time.Minute})
	var wg sync.WaitGroup
	var worst atomic.Uint64
	for range 15 {
		wg.Go(func() {
			if _, _, err := c.Verify(t.Context(), "", "some password", nowhere); err != nil {
				t.Error(err)
			}
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			for old := worst.Load(); m.HeapAlloc > old && !worst.CompareAndSwap(old, m.HeapAlloc); old = worst.Load() {
			}
		})
	}
	wg.Wait()
	if got := worst.Load(); got > 120<<20 {
		t.Errorf("heap of %d MiB; 15 hashes without bounds are 285", got>>20)
	}
}

// TestCanceledWaiter checks that a canceled call leaves the queue without a slot, and that one with
// a slot computes its hash.
func TestCanceledWaiter(t *testing.T) {
	c := New(Config{Slots: 1, Cost: Cost{Memory: 64, Time: 1}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ok, _, err := c.Verify(ctx, "", "x", nowhere); ok || err != nil {
		t.Errorf("with a free slot: %v, %v", ok, err)
	}
	if err := c.slots.acquire(t.Context(), clientaddr.Network(nowhere)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Verify(ctx, "", "x", nowhere); !errors.Is(err, broker.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("without: %v", err)
	}
	c.slots.release()
	if s := c.Stats(); s.Running != 0 || s.Waiting != 0 || s.Hashed != 1 {
		t.Errorf("%+v", s)
	}
}

func BenchmarkCheck(b *testing.B) {
	c := New(Config{})
	stored, err := c.Hash(b.Context(), "right password", nowhere)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("right", func(b *testing.B) {
		for b.Loop() {
			if ok, _, err := c.Check(b.Context(), stored, "right password", nowhere); !ok || err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("raw", func(b *testing.B) { // the hash alone
		h, err := c.parse(stored)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if !h.matches("right password") {
				b.Fatal(fmt.Errorf("wrong"))
			}
		}
	})
}
