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

// Options say what is particular about a source.
type Options struct {
	// Events is how many events are checked before the source is stopped; 0
	// means 2,000. A source that ends before fails, unless it is Finite.
	Events int

	// Finite says that the source ends by itself. All its events are checked,
	// and it has to return nil.
	Finite bool

	// Timeout is the real time the source has for all this; 0 means 30 s.
	Timeout time.Duration

	// TimeSlack is how far an event time may go back: for sources that merge
	// several streams of a venue. 0: not at all.
	TimeSlack time.Duration

	// UnknownDeletes says that the venue deletes levels it never showed.
	UnknownDeletes bool

	// StaleBooks says that a book may be stale at the end of a Finite source.
	StaleBooks bool
}

// Run checks sources against the contract of package feed, each from newSource:
// that definitions come before events; that books can be rebuilt from snapshots
// and updates, without deleting what is not there and without crossing while the
// phase is open; that prices and sizes are exact and on tick and lot; that times
// do not go back, trade ids are not used twice, and a gap ends in a snapshot; and
// that Run returns when its context ends, all its goroutines with it.
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
		// The source may give up or wait for better times, but has nothing to publish.
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		sink := newChecker(opts)
		sink.refuse = true
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
		case <-sink.enough:
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

// run runs a source to its end and fails the test where it leaves a goroutine.
// A label, which goroutines hand down to those they start, tells whose is whose.
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
	// A goroutine that was waited for may still be on its last instructions.
	deadline := time.Now().Add(time.Second)
	for goroutines(label) != "" {
		if time.Now().After(deadline) {
			t.Fatalf("Run left goroutines behind:\n%s", goroutines(label))
		}
		runtime.Gosched()
	}
	return err
}

// goroutines is the stacks of the goroutines with a label; "" where there is none.
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
