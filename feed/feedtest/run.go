package feedtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
)

// Options describe a source.
type Options struct {
	// Events is the number of events to check before the source is stopped; 0 means 2,000. A source
	// that ends earlier fails the test, unless it is Finite.
	Events int

	// Finite means that the source ends by itself. All its events are checked, and Run must return
	// nil.
	Finite bool

	// Timeout bounds the real time of each run; 0 means 30 s.
	Timeout time.Duration

	// TimeSlack is how far an event time may go back, for sources that merge several streams of a
	// venue. 0 means not at all.
	TimeSlack time.Duration

	// UnknownDeletes allows updates that delete levels that were never shown.
	UnknownDeletes bool

	// StaleBooks allows books that are stale at the end of a Finite source.
	StaleBooks bool
}

// Run checks the contract of package feed with sources from newSource. Definitions must come before
// events. It must be possible to rebuild books from snapshots and updates, without deleting unknown
// levels, and without a crossed book while the phase is open. Prices and sizes must be exact and
// match tick and lot. Times must not go back, trade ids must not repeat, and a snapshot must follow
// a gap. Run of the source must return when its context ends, after all its goroutines.
func Run(t *testing.T, newSource func(t *testing.T) feed.Source, opts Options) {
	t.Helper()
	if opts.Events == 0 {
		opts.Events = 2000
	}
	if opts.Timeout == 0 {
		opts.Timeout = 30 * time.Second
	}
	if opts.Finite {
		opts.Events = int(^uint(0) >> 1)
	}
	t.Run("events", func(t *testing.T) { runEvents(t, newSource(t), opts) })
	t.Run("context ended before", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := run(t, ctx, newSource(t), newChecker(opts), opts.Timeout); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v, want nil or the context's error", err)
		}
	})
	t.Run("definitions refused", func(t *testing.T) {
		// The source may give up or wait, but it must not publish anything.
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		sink := newChecker(opts)
		sink.reject = true
		_ = run(t, ctx, newSource(t), sink, opts.Timeout)
		if sink.events > 0 {
			t.Errorf("%d events of instruments that were refused", sink.events)
		}
	})
}

func runEvents(t *testing.T, source feed.Source, opts Options) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sink := newChecker(opts)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-sink.reached:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := run(t, ctx, source, sink, opts.Timeout)
	ended := ctx.Err() != nil
	cancel()
	<-watched
	switch {
	case ended && err != nil && !errors.Is(err, context.Canceled):
		t.Errorf("Run returned %v, want nil or the context's error", err)
	case !ended && err != nil:
		t.Errorf("Run failed after %d events: %v", sink.events, err)
	case !ended && !opts.Finite:
		t.Errorf("Run ended by itself after %d events, want %d", sink.events, opts.Events)
	}
	if opts.Finite {
		sink.finish()
		if sink.events == 0 {
			t.Error("no events")
		}
	}
	for _, fault := range sink.faults {
		t.Error(fault)
	}
}

// run runs a source to its end and fails the test if goroutines are left. A profiler label, which
// goroutines inherit, identifies them.
func run(t *testing.T, ctx context.Context, source feed.Source, sink feed.Sink, timeout time.Duration) error {
	t.Helper()
	label := fmt.Sprintf("%s %p", t.Name(), sink)
	ended := make(chan error, 1)
	go func() {
		var err error
		pprof.Do(ctx, pprof.Labels("feedtest", label), func(ctx context.Context) {
			err = source.Run(ctx, sink)
		})
		ended <- err
	}()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var err error
	select {
	case err = <-ended:
	case <-timer.C:
		t.Fatalf("Run has not returned after %v\n%s", timeout, goroutines(label))
	}
	// A goroutine that was waited for may still execute its last instructions.
	deadline := time.Now().Add(time.Second)
	for goroutines(label) != "" {
		if time.Now().After(deadline) {
			t.Fatalf("Run left goroutines behind:\n%s", goroutines(label))
		}
		runtime.Gosched()
	}
	return err
}

// goroutines returns the stacks of the goroutines with a label, "" if there are none.
func goroutines(label string) string {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		return err.Error()
	}
	var out strings.Builder
	for _, stack := range strings.Split(profile.String(), "\n\n") {
		if strings.Contains(stack, fmt.Sprintf("%q", label)) {
			out.WriteString(stack + "\n\n")
		}
	}
	return out.String()
}
