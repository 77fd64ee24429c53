package rest

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/ratelimit"
)

func TestQuotas(t *testing.T) {
	table := newQuotas()
	now := time.Now()
	for i := range 600 {
		if q := table.take("u1", 600, now); q.Wait != 0 || q.Remaining != 599-i {
			t.Fatalf("request %d: wait %v, %d remaining", i+1, q.Wait, q.Remaining)
		}
	}
	q := table.take("u1", 600, now)
	if q.Wait != 100*time.Millisecond || q.Remaining != 0 || q.Reset != time.Minute {
		t.Errorf("over the limit: %+v", q)
	}
	if q := table.take("u2", 600, now); q.Wait != 0 {
		t.Errorf("another key waits %v", q.Wait)
	}
	// A refused request is not charged: after exactly the wait one request is allowed.
	now = now.Add(100 * time.Millisecond)
	if q := table.take("u1", 600, now); q.Wait != 0 {
		t.Errorf("after the wait: %+v", q)
	}
	if q := table.take("u1", 600, now); q.Wait != 100*time.Millisecond {
		t.Errorf("and another: %+v", q)
	}
	if q := table.take("u1", 600, now.Add(time.Minute)); q.Remaining != 599 {
		t.Errorf("after a minute: %+v", q)
	}
	if q := table.take("one", 1, now); q.Wait != 0 || q.Remaining != 0 || q.Reset != time.Minute {
		t.Errorf("limit of one: %+v", q)
	}
}

// TestQuotasOverTime checks that in every span of time no more requests pass than the burst and the
// rate of the span.
func TestQuotasOverTime(t *testing.T) {
	table := newQuotas()
	start := time.Now()
	passed := 0
	for elapsed := time.Duration(0); elapsed < 10*time.Minute; elapsed += 70 * time.Millisecond {
		if table.take("u1", 60, start.Add(elapsed)).Wait == 0 {
			passed++
		}
		if most := 60 + int(elapsed/time.Second) + 1; passed > most {
			t.Fatalf("after %v %d requests went through, more than %d", elapsed, passed, most)
		}
	}
	if passed < 655 {
		t.Errorf("only %d requests went through", passed)
	}
}

// TestQuotasAbsurdLimits checks that a limit that means no limit does not divide by zero.
func TestQuotasAbsurdLimits(t *testing.T) {
	table := newQuotas()
	now := time.Now()
	for _, limit := range []int{math.MinInt, 0, 1, ratelimit.MaxPer(window), ratelimit.MaxPer(window) + 1, math.MaxInt} {
		q := table.take(fmt.Sprint(limit), limit, now)
		if q.Wait != 0 || q.Limit < 1 || q.Remaining != q.Limit-1 {
			t.Errorf("limit %d: %+v", limit, q)
		}
	}
}
