package histogram

import (
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	var h, other Histogram
	h.Add(-time.Second, 1) // the wall clock was set back
	h.Add(50*time.Microsecond, 2)
	h.Add(51*time.Microsecond, 3)
	other.Add(time.Minute, 4)
	h.Merge(&other)
	if got, want := h.Count(), uint64(10); got != want {
		t.Errorf("%d durations, want %d", got, want)
	}
	if got, want := h.Sum(), 100*time.Microsecond+153*time.Microsecond+4*time.Minute; got != want {
		t.Errorf("sum %v, want %v", got, want)
	}
	up := h.Cumulative()
	if up[50e-6] != 3 || up[100e-6] != 6 || up[10] != 6 || len(up) != len(bounds) {
		t.Errorf("cumulative: %v", up)
	}
	if got := h.Quantile(0.5); got != 100*time.Microsecond {
		t.Errorf("median: %v", got)
	}
	if got := h.Quantile(0.99); got != 10*time.Second {
		t.Errorf("p99: %v", got)
	}
	if got := (&Histogram{}).Quantile(0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestAddAllocatesNothing(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Add(time.Millisecond, 16) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	var h Histogram
	for b.Loop() {
		h.Add(300*time.Microsecond, 16)
	}
}
