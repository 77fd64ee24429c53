package ratelimit

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTake checks that between any two events that pass, no more pass than the burst and what the
// time between them allows, and that a wait is neither too short nor too long.
func TestTake(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, burst := rapid.IntRange(1, 60).Draw(rt, "a minute"), rapid.IntRange(1, 20).Draw(rt, "burst")
		r := Per(n, time.Minute, burst)
		l := NewLimiter[string](10)
		now := time.Unix(0, 0)
		var passed []time.Time
		for range rapid.IntRange(1, 80).Draw(rt, "attempts") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3_000).Draw(rt, "ms")) * time.Millisecond)
			_, would := l.Check("key", r, now)
			_, wait := l.Take("key", r, now)
			if wait != would {
				rt.Fatalf("Check says %v, Take %v", would, wait)
			}
			if wait > 0 {
				if _, early := l.Take("key", r, now.Add(wait-1)); early <= 0 {
					rt.Fatalf("passed 1 ns before the wait of %v was over", wait)
				}
				if _, late := l.Check("key", r, now.Add(wait)); late != 0 {
					rt.Fatalf("waits %v after the wait of %v", late, wait)
				}
				continue
			}
			passed = append(passed, now)
			for i, first := range passed {
				if got, most := len(passed)-i, burst+int(now.Sub(first)/r.Interval); got > most {
					rt.Fatalf("%d in %v, at most %d", got, now.Sub(first), most)
				}
			}
		}
		if len(passed) == 0 {
			rt.Fatal("none passed")
		}
	})
}

// TestCharge checks that charges beyond the burst make nobody wait for longer than one interval.
func TestCharge(t *testing.T) {
	r, l, now := Per(60, time.Minute, 3), NewLimiter[string](10), time.Unix(0, 0)
	for i, want := range []time.Duration{0, 0, time.Second, time.Second, time.Second} {
		if got := l.Charge("key", r, now); got != want {
			t.Errorf("charge %d: wait %v, want %v", i, got, want)
		}
	}
}

func TestRefund(t *testing.T) {
	r, l, now := Per(60, time.Minute, 1), NewLimiter[string](10), time.Unix(0, 0)
	l.Take("key", r, now)
	l.Refund("key", r)
	l.Refund("unknown", r)
	if _, wait := l.Take("key", r, now); wait != 0 {
		t.Errorf("waits %v after a refund", wait)
	}
}

// TestClockSetBack checks that a state from before the clock was set back drains in the time of a
// burst.
func TestClockSetBack(t *testing.T) {
	r, l, now := Per(60, time.Minute, 3), NewLimiter[string](10), time.Unix(1e9, 0)
	l.Take("key", r, now)
	now = now.Add(-time.Hour)
	if ahead, wait := l.Take("key", r, now); ahead != 3*time.Second || wait != time.Second {
		t.Errorf("ahead %v, wait %v", ahead, wait)
	}
	if _, wait := l.Take("key", r, now.Add(time.Second)); wait != 0 {
		t.Errorf("waits %v a second later", wait)
	}
}

func TestLimiterIsBounded(t *testing.T) {
	r, l, now := Per(600, time.Minute, 600), NewLimiter[int](200), time.Unix(0, 0)
	for i := range 10_000 {
		if _, wait := l.Take(i, r, now); wait != 0 {
			t.Fatalf("key %d waits %v", i, wait)
		}
		if l.Len() > 200 {
			t.Fatalf("%d keys", l.Len())
		}
	}
}

// TestAbsurdRates checks that a rate that is no limit, or none at all, does not divide by zero.
func TestAbsurdRates(t *testing.T) {
	for _, n := range []int{math.MinInt, 0, 1, MaxPer(time.Minute) + 1, math.MaxInt} {
		for _, burst := range []int{math.MinInt, 0, 1, 1000} {
			for _, r := range []Rate{Per(n, time.Minute, burst), Per(n, time.Minute, burst).Halve()} {
				if r.Interval <= 0 || r.Burst < r.Interval {
					t.Fatalf("%d a minute, burst %d: %+v", n, burst, r)
				}
				if _, wait := NewLimiter[string](10).Take("key", r, time.Now()); wait != 0 {
					t.Errorf("%d a minute, burst %d: the first event waits %v", n, burst, wait)
				}
			}
		}
	}
}
