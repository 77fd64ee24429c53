package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/bench/load"
)

// Run is what one window of one server gave.
type Run struct {
	Seconds    float64
	Deliveries uint64
	PerSecond  float64
	CPU        float64 // server's processor seconds for a million deliveries
	Cores      float64 // of the server
	LoadCPU    float64 // the load's, for a million
	PerRead    float64 // messages that the load read with one call
	Bytes      float64 // of a delivery on the wire
	P50        float64 // ms from event to receipt
	P99        float64
	P999       float64
	Max        float64
	Samples    uint64
	Resident   int64   `json:",omitempty"` // of the server, at the end
	Foreign    float64 // cores that others used
	PerWrite   float64 `json:",omitempty"` // messages that the gateway wrote with one call, about
	Allocs     float64 `json:",omitempty"` // of the gateway's memory, for a delivery, its publisher's included
	Error      string  `json:",omitempty"`
}

const ms = 1e6 // ns

// between is what happened between two marks of a load.
func between(a, b *load.Mark) *Run {
	r := &Run{Seconds: b.At - a.At, Deliveries: b.Deliveries - a.Deliveries}
	var server float64
	for i := range b.Servers {
		server += b.Servers[i] - a.Servers[i]
	}
	self := b.Self - a.Self
	r.PerSecond = float64(r.Deliveries) / r.Seconds
	r.Cores = server / r.Seconds
	r.Foreign = max(0, (b.Busy-a.Busy-server-self)/r.Seconds)
	if r.Deliveries > 0 {
		r.CPU = server / float64(r.Deliveries) * 1e6
		r.LoadCPU = self / float64(r.Deliveries) * 1e6
		r.Bytes = float64(b.Bytes-a.Bytes) / float64(r.Deliveries)
	}
	if reads := b.Reads - a.Reads; reads > 0 {
		r.PerRead = float64(r.Deliveries) / float64(reads)
	}
	if l := b.Latency; l != nil && l.Count() > 0 {
		r.setLatency(l)
	}
	return r
}

func (r *Run) setLatency(l *load.Latency) {
	r.Samples = l.Count()
	r.P50, r.P99, r.P999, r.Max = float64(l.At(0.50))/ms, float64(l.At(0.99))/ms, float64(l.At(0.999))/ms, float64(l.Max())/ms
}

// median of a value of the runs; 0 of none.
func median(runs []*Run, value func(*Run) float64) float64 {
	var list []float64
	for _, r := range runs {
		if r != nil && r.Error == "" {
			list = append(list, value(r))
		}
	}
	return middle(list)
}

func middle(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	list = slices.Sorted(slices.Values(list))
	n := len(list)
	if n%2 == 1 {
		return list[n/2]
	}
	return (list[n/2-1] + list[n/2]) / 2
}

// part is a as a part of b; 0 where there is no b.
func part(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// ratios is the median of the ratios pair by pair.
func ratios(a, b []*Run, value func(*Run) float64) float64 {
	var list []float64
	for i := range min(len(a), len(b)) {
		if a[i] == nil || b[i] == nil || a[i].Error != "" || b[i].Error != "" || value(b[i]) == 0 {
			continue
		}
		list = append(list, value(a[i])/value(b[i]))
	}
	return middle(list)
}

// Values of a run.
func perSecond(r *Run) float64 { return r.PerSecond }
func cpu(r *Run) float64       { return r.CPU }
func p50(r *Run) float64       { return r.P50 }
func p99(r *Run) float64       { return r.P99 }
func p999(r *Run) float64      { return r.P999 }
func foreign(r *Run) float64   { return r.Foreign }

// plural is a number of things.
func plural(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// span is a number of milliseconds for people.
func span(v float64) string {
	if v < 1000 {
		return fmt.Sprintf("%.1f ms", v)
	}
	return fmt.Sprintf("%.2f s", v/1e3)
}

// rate is a number of deliveries a second for people.
func rate(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0f k", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

// size is a number of bytes for people.
func size(v float64) string {
	switch a := math.Abs(v); {
	case a >= 10<<30:
		return fmt.Sprintf("%.1f GiB", v/(1<<30))
	case a >= 10<<20:
		return fmt.Sprintf("%.0f MiB", v/(1<<20))
	case a >= 1<<20:
		return fmt.Sprintf("%.1f MiB", v/(1<<20))
	case a >= 10<<10:
		return fmt.Sprintf("%.1f KiB", v/(1<<10))
	}
	return fmt.Sprintf("%.2f KiB", v/(1<<10))
}
