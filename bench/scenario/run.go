package scenario

import (
	"fmt"
	"math"
	"strings"

	"github.com/ruedahq/rueda/bench/load"
	"github.com/ruedahq/rueda/bench/pairs"
)

// Run is the result of one window of a server.
type Run struct {
	Seconds    float64
	Deliveries uint64
	PerSecond  float64
	CPU        float64 // of the server, seconds per million deliveries
	Cores      float64 // used by the server
	LoadCPU    float64 // of the load, seconds per million deliveries
	PerRead    float64 // messages in one read of the load
	Bytes      float64 // of a delivery on the wire
	P50        float64 // ms from event to receipt
	P99        float64
	P999       float64
	Max        float64
	Samples    uint64
	Resident   int64   `json:",omitempty"` // memory of the server at the end
	Foreign    float64 // cores used by other processes
	PerWrite   float64 `json:",omitempty"` // messages in one write of the gateway, approximately
	Empty      int64   `json:",omitempty"` // memory of an idle server before its connections
	Each       float64 `json:",omitempty"` // memory of an idle connection, in bytes
	Allocs     float64 `json:",omitempty"` // allocated by the gateway for a delivery, including its publisher
	Error      string  `json:",omitempty"`
}

const ms = 1e6 // ns

// between returns the result between two marks of a load.
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

// median returns the median of a value of the runs; 0 without runs.
func median(runs []*Run, value func(*Run) float64) float64 {
	var list []float64
	for _, r := range runs {
		if r != nil && r.Error == "" {
			list = append(list, value(r))
		}
	}
	return pairs.Median(list)
}

// part returns a/b; 0 if b is 0.
func part(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// ratios returns the median of the ratios of the pairs.
func ratios(a, b []*Run, value func(*Run) float64) float64 {
	var list []float64
	for i := range min(len(a), len(b)) {
		if a[i] == nil || b[i] == nil || a[i].Error != "" || b[i].Error != "" || value(b[i]) == 0 {
			continue
		}
		list = append(list, value(a[i])/value(b[i]))
	}
	return pairs.Median(list)
}

// Values of a run.
func perSecond(r *Run) float64 { return r.PerSecond }
func cpu(r *Run) float64       { return r.CPU }
func cores(r *Run) float64     { return r.Cores }
func p50(r *Run) float64       { return r.P50 }
func p99(r *Run) float64       { return r.P99 }
func p999(r *Run) float64      { return r.P999 }
func foreign(r *Run) float64   { return r.Foreign }

// plural formats a count.
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

// span formats milliseconds.
func span(v float64) string {
	if v < 1000 {
		return fmt.Sprintf("%.1f ms", v)
	}
	return fmt.Sprintf("%.2f s", v/1e3)
}

// rate formats deliveries per second.
func rate(v float64) string {
	switch {
	case v >= 1e6:
		return fmt.Sprintf("%.2f M", v/1e6)
	case v >= 1e4:
		return fmt.Sprintf("%.0f k", v/1e3)
	}
	return fmt.Sprintf("%.0f", v)
}

// size formats bytes.
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
