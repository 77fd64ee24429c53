package readjob

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// note returns a job that reads n times, and records its name for each Read and its error at the
// end.
func note(log *[]string, name string, n int) *Job {
	return &Job{
		Read: func(context.Context) bool {
			*log = append(*log, name)
			n--
			return n > 0
		},
		End: func(err error) {
			if err != nil {
				name += " " + err.Error()
			}
			*log = append(*log, "end "+name)
		},
	}
}

// TestJobsTakeTurns checks that a job that reads for long comes after the others of its kind, and
// that no job of the other kind waits for it.
func TestJobsTakeTurns(t *testing.T) {
	var log []string
	q := New()
	q.Submit(Search, note(&log, "a", 2))
	q.Submit(Search, note(&log, "b", 1))
	q.Submit(Rows, note(&log, "c", 1))
	for more := true; more; {
		more = q.Next(t.Context(), Rows)
		more = q.Next(t.Context(), Search) || more
	}
	if want := []string{"c", "end c", "a", "b", "end b", "a", "end a"}; !slices.Equal(log, want) {
		t.Errorf("got %q", log)
	}
}

// TestCancelledJobDoesNotEnd checks a job that is cancelled before and during its Read.
func TestCancelledJobDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		q := New()
		ctx, end := context.WithCancel(t.Context())
		stop := q.Start(ctx, 1)
		called := 0
		first, second := note(&log, "first", 1), note(&log, "second", 1)
		stopped := false
		first.Read = func(ctx context.Context) bool {
			<-ctx.Done()
			stopped = true
			return true
		}
		first.Wait, second.Wait = NewWait(1, func() { called++ }), NewWait(1, func() { called++ })
		q.Submit(Rows, first)
		synctest.Wait()
		q.Submit(Rows, second)
		second.Wait.Stop()
		if n := q.Len(Rows); n != 0 {
			t.Errorf("%d jobs wait", n)
		}
		first.Wait.Stop()
		synctest.Wait()
		if !stopped || len(log) > 0 || called > 0 || first.Wait.Over() {
			t.Errorf("stopped %v, %q, called %d", stopped, log, called)
		}
		end()
		stop()
	})
}

// TestLateJobEnds checks that a job whose time is over ends, and is not read.
func TestLateJobEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log []string
		q := New()
		late, last := note(&log, "late", 1), note(&log, "last", 1)
		late.Until = time.Now().Add(time.Second)
		late.Wait = NewWait(1, func() { log = append(log, "found") })
		q.Submit(Rows, last)
		q.Submit(Rows, late)
		time.Sleep(time.Second)
		q.Next(t.Context(), Rows)
		if want := []string{"end late " + ErrLate.Error(), "found", "last", "end last"}; !slices.Equal(log, want) || !late.Wait.Over() {
			t.Errorf("got %q", log)
		}
	})
}

// TestQueueEnds checks that the jobs that are left end with an error when nobody serves the queue
// any more, and that later jobs wait.
func TestQueueEnds(t *testing.T) {
	q := New()
	ctx, end := context.WithCancel(t.Context())
	stop := q.Start(ctx, 0)
	var got error
	q.Submit(Search, &Job{Read: func(context.Context) bool { return false }, End: func(err error) { got = err }})
	if !q.Served() {
		t.Error("not served")
	}
	end()
	stop()
	if !errors.Is(got, context.Canceled) || q.Served() || q.Len(Search) != 0 {
		t.Errorf("ended with %v, served %v", got, q.Served())
	}
	var log []string
	q.Submit(Search, note(&log, "later", 1))
	if q.Len(Search) != 1 || len(log) > 0 {
		t.Errorf("%d jobs wait, %q", q.Len(Search), log)
	}
}

// TestWaitForSeveral checks that a wait ends with the last of its work.
func TestWaitForSeveral(t *testing.T) {
	called := 0
	w := NewWait(2, func() { called++ })
	w.Done()
	if called != 0 || w.Over() {
		t.Errorf("called %d", called)
	}
	w.Done()
	if called != 1 || !w.Over() {
		t.Errorf("called %d", called)
	}
}
