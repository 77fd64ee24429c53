package store_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/identity/auth/throttle"
)

// testFailures checks that wrong passwords are bounded until there was none for a while.
func testFailures(t *testing.T, s backend) {
	const window = time.Hour
	account, other := hash("account"), hash("other")
	reserve := func(at time.Duration, most int, want time.Duration) {
		t.Helper()
		if wait, err := s.ReserveFailure(t.Context(), account, most, window, epoch.Add(at)); err != nil || wait != want {
			t.Errorf("at %v, at most %d: wait %v, %v; want %v", at, most, wait, err, want)
		}
	}
	settle := func(how throttle.Settlement) {
		t.Helper()
		if err := s.SettleFailure(t.Context(), account, how); err != nil {
			t.Error(err)
		}
	}
	reserve(0, 2, 0)
	reserve(time.Minute, 1, time.Hour-time.Minute)
	reserve(time.Minute, 2, 0)
	reserve(2*time.Minute, 2, time.Hour-time.Minute)
	if wait, err := s.ReserveFailure(t.Context(), other, 1, window, epoch); wait != 0 || err != nil {
		t.Errorf("another account: %v, %v", wait, err)
	}
	settle(throttle.Refunded)
	reserve(2*time.Minute, 2, 0)
	reserve(61*time.Minute, 2, time.Minute)
	reserve(62*time.Minute, 1, 0)              // none for the window
	reserve(63*time.Minute, 1, 59*time.Minute) // counted again
	reserve(-10*time.Hour, 1, 0)               // a clock that was wrong locks nobody out
	reserve(-10*time.Hour, 1, time.Hour)       //
	settle(throttle.Succeeded)                 //
	reserve(-10*time.Hour, 1, 0)               //
	settle(throttle.Refunded)                  //
	settle(throttle.Refunded)                  // one too many
	reserve(-10*time.Hour, 1, 0)               //
	reserve(-10*time.Hour+1, 1, time.Hour-1)   //
	settle(throttle.Succeeded)                 //
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			if wait, err := s.ReserveFailure(t.Context(), account, 2, window, epoch); err != nil {
				t.Error(err)
			} else if wait == 0 {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if passed.Load() != 2 {
		t.Errorf("%d of 32 at once, want 2", passed.Load())
	}
}

// testTrusted checks that the last used locations of an account are kept.
func testTrusted(t *testing.T, s backend) {
	at := func(account, location string, minutes int) throttle.TrustedLocation {
		return throttle.TrustedLocation{Account: hash(account), Location: hash(location), Used: epoch.Add(time.Duration(minutes) * time.Minute)}
	}
	trust := func(l throttle.TrustedLocation) {
		t.Helper()
		if err := s.TrustLocation(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	trust(at("maria", "office", 0))
	for i := range throttle.MaxLocations {
		trust(at("otto", fmt.Sprint(i), i))
	}
	trust(at("otto", "0", 1000)) // used again
	trust(at("otto", "new", 1001))
	list, err := s.TrustedLocations(t.Context(), time.Time{}, 1000)
	if err != nil || len(list) != 1+throttle.MaxLocations {
		t.Fatalf("%d locations, %v", len(list), err)
	}
	has := map[throttle.TrustedLocation]bool{}
	for i, l := range list {
		if i > 0 && l.Used.After(list[i-1].Used) {
			t.Error("the last used is not the first")
		}
		l.Used = l.Used.UTC()
		has[l] = true
	}
	for want, is := range map[throttle.TrustedLocation]bool{
		at("maria", "office", 0): true, at("otto", "0", 1000): true, at("otto", "new", 1001): true, at("otto", "1", 1): false, at("otto", "2", 2): true,
	} {
		want.Used = want.Used.UTC()
		if has[want] != is {
			t.Errorf("%v is there: %v", want.Used, has[want])
		}
	}
	if list, err = s.TrustedLocations(t.Context(), epoch.Add(1000*time.Minute), 1000); err != nil || len(list) != 2 {
		t.Errorf("%d since then, %v", len(list), err)
	}
	if list, err = s.TrustedLocations(t.Context(), time.Time{}, 3); err != nil || len(list) != 3 {
		t.Errorf("%d of at most 3, %v", len(list), err)
	}
}
