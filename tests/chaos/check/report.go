package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Report has counts and violations. Its methods may be called at the same time.
type Report struct {
	mu         sync.Mutex
	start      time.Time
	counts     map[string]int64
	violations []string
	kinds      map[string]int64
}

// NewReport returns an empty report.
func NewReport() *Report {
	return &Report{start: time.Now(), counts: map[string]int64{}, kinds: map[string]int64{}}
}

// Count adds n to a count.
func (r *Report) Count(what string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what] += n
}

// Get returns a count.
func (r *Report) Get(what string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[what]
}

// Violation records one of a kind. The text of the first ones of each kind is kept.
func (r *Report) Violation(kind, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kinds[kind]++; r.kinds[kind] <= 5 {
		text := fmt.Sprintf(format, args...)
		if len(text) > 2_000 {
			text = text[:2_000] + " ..."
		}
		now := time.Now()
		r.violations = append(r.violations, fmt.Sprintf("%s (%.3f s) %s: %s", now.UTC().Format("15:04:05.000"), now.Sub(r.start).Seconds(), kind, text))
	}
}

// Violations returns the number of violations, and the first ones of each kind.
func (r *Report) Violations() (total int64, first []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.kinds {
		total += n
	}
	return total, slices.Clone(r.violations)
}

// String lists the counts, and the violations by kind.
func (r *Report) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, what := range slices.Sorted(maps.Keys(r.counts)) {
		fmt.Fprintf(&b, "%s %d, ", what, r.counts[what])
	}
	total := int64(0)
	for _, n := range r.kinds {
		total += n
	}
	fmt.Fprintf(&b, "violations %d", total)
	for _, kind := range slices.Sorted(maps.Keys(r.kinds)) {
		fmt.Fprintf(&b, ", %s %d", kind, r.kinds[kind])
	}
	return b.String()
}
