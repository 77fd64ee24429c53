package scenario

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/bench/pairs"
)

// recorder is a workload that starts nothing. It records which program runs.
type recorder struct {
	order  strings.Builder   // first letters of the programs, with a space between attempts
	gave   map[string][]*Run // by program
	result func(attempt int, program string) (*Run, error)
}

// once is scenario.once. Two calls are an attempt at a pair.
func (c *recorder) once(_ context.Context, o *Options, _ *Report) (*Run, error) {
	calls := len(c.gave["old"]) + len(c.gave["new"])
	if calls > 0 && calls%2 == 0 {
		c.order.WriteByte(' ')
	}
	program := o.Serve[0]
	c.order.WriteByte(program[0])
	run, err := c.result(calls/2, program)
	c.gave[program] = append(c.gave[program], run)
	return run, err
}

// record runs the pairs of a workload with these results.
func record(t *testing.T, runs, most int, result func(int, string) (*Run, error)) (*recorder, *Report, error) {
	t.Helper()
	c := &recorder{gave: map[string][]*Run{}, result: result}
	o := &Options{Old: []string{"old"}, New: []string{"new"}, Runs: runs, MaxRuns: most, Talk: t.Output()}
	s := &scenario{name: "x", figures: []figure{costFigure("s", 3, func(r *Run) float64 { return r.Seconds })}, once: c.once}
	r := &Report{}
	err := o.compare(t.Context(), r, s)
	return c, r, err
}

// TestPairs checks the order of the programs, which pairs are run again, and how many there are.
func TestPairs(t *testing.T) {
	for _, c := range []struct {
		name       string
		runs, most int
		ratios     []float64 // of the attempts, repeatedly
		noisy      [2]int    // first noisy attempt, and the first one after it that is not
		order      string
		again      int // noisy attempts that do not count
		decision   string
	}{
		{"narrow", 9, 25, []float64{2}, [2]int{}, "on no on no on no on no on", 0, pairs.Slower},
		{"wide", 6, 9, []float64{1, 2}, [2]int{}, "on no on no on no on no on", 0, pairs.Undecided},
		{"two noisy", 6, 25, []float64{1}, [2]int{1, 3}, "on no no no on no on no", 2, pairs.NotSlower},
		{"seven noisy", 6, 25, []float64{1}, [2]int{0, 7}, "on on on on on on no on no on no", 5, pairs.NotSlower},
		{"all noisy", 6, 25, []float64{1}, [2]int{0, 99}, "on on on on on on no on no on no", 5, pairs.Undecided},
		{"all noisy, two to spare", 6, 8, []float64{1}, [2]int{0, 99}, "on on on no on no on no", 2, pairs.Undecided},
		{"all noisy, none to spare", 6, 6, []float64{1}, [2]int{0, 99}, "on no on no on no", 0, pairs.Undecided},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, r, err := record(t, c.runs, c.most, func(attempt int, program string) (*Run, error) {
				run := &Run{Seconds: 1}
				if program == "new" {
					run.Seconds = c.ratios[attempt%len(c.ratios)]
				}
				// Foreign load of one run is enough.
				if noisyRun := [2]string{"old", "new"}[attempt%2]; attempt >= c.noisy[0] && attempt < c.noisy[1] && program == noisyRun {
					run.Foreign = 2 * noisy
				}
				return run, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if got.order.String() != c.order {
				t.Errorf("the order is %s, want %s", got.order.String(), c.order)
			}
			counted := func(program string) []*Run {
				return slices.Delete(slices.Clone(got.gave[program]), c.noisy[0], c.noisy[0]+c.again)
			}
			if w := r.Cases[0]; !slices.Equal(w.Old, counted("old")) || !slices.Equal(w.New, counted("new")) {
				t.Errorf("%d and %d runs count, or others than those of quiet pairs", len(w.Old), len(w.New))
			}
			if len(r.Comparisons) != 1 || r.Comparisons[0].Decision != c.decision {
				t.Errorf("%+v, want %s", r.Comparisons, c.decision)
			}
			if (len(r.Notes) > 0) != (c.again > 0) {
				t.Errorf("%d pairs are run again, and the notes are %q", c.again, r.Notes)
			}
		})
	}
}

// TestPairsWrong checks that a wide interval needs no more pairs once a run was wrong, and that the
// error of a run names its program.
func TestPairsWrong(t *testing.T) {
	got, r, err := record(t, 7, 25, func(attempt int, program string) (*Run, error) {
		run := &Run{Seconds: float64(1 + attempt)}
		if program == "new" {
			run.Seconds = 10
			if attempt == 2 {
				run.Error = "lost"
			}
		}
		return run, nil
	})
	if order := got.order.String(); err != nil || order != "on no on no on no on" {
		t.Errorf("a wrong run: %s, %v", order, err)
	}
	if len(r.Comparisons) != 1 || r.Comparisons[0].Pairs != 6 || !r.Wrong() {
		t.Errorf("a wrong run: %+v", r.Comparisons)
	}
	refused := errors.New("refused")
	_, _, err = record(t, 6, 25, func(_ int, program string) (*Run, error) {
		if program == "new" {
			return nil, refused
		}
		return &Run{Seconds: 1}, nil
	})
	if !errors.Is(err, refused) || !strings.HasPrefix(err.Error(), "new: ") {
		t.Errorf("an error: %v", err)
	}
}

// TestIncomplete checks that an error or an interrupt of a workload keeps the workloads before it,
// and that the report says why it is incomplete. Unfinished workloads have no verdict.
func TestIncomplete(t *testing.T) {
	refused := errors.New("refused")
	for _, c := range []struct {
		name      string
		interrupt bool
		err       error
		want      string
	}{
		{"error", false, refused, "1 of 3 workloads measured; b: new: refused"},
		{"interrupt with an error of a child", true, refused, "1 of 3 workloads measured; b: interrupted"},
		{"interrupt with a wrong run", true, nil, "1 of 3 workloads measured; b: interrupted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			calls := 0
			var list []scenario
			for _, name := range []string{"a", "b", "c"} {
				list = append(list, scenario{name: name, figures: []figure{costFigure("s", 3, func(r *Run) float64 { return r.Seconds })},
					once: func(_ context.Context, o *Options, _ *Report) (*Run, error) {
						if calls++; calls == 12+2*5+1 { // the last pair of the second workload begins with "new"
							if c.interrupt {
								cancel()
							}
							return &Run{Seconds: 1, Error: "ended"}, c.err
						}
						return &Run{Seconds: 1}, nil
					}})
			}
			o := &Options{Old: []string{"old"}, New: []string{"new"}, Runs: 6, MaxRuns: 6, Talk: t.Output()}
			r := &Report{}
			err := o.compareAll(ctx, r, list)
			if want := cmp.Or(c.err, context.Canceled); !errors.Is(err, want) || r.Incomplete != c.want {
				t.Errorf("%v: %q, want %q", err, r.Incomplete, c.want)
			}
			if len(r.Cases) != 2 || len(r.Cases[0].Old) != 6 || len(r.Cases[1].Old) != 5 || r.Wrong() {
				t.Errorf("workloads %+v", r.Cases)
			}
			if len(r.Comparisons) != 1 || r.Comparisons[0].Workload != "a" || r.Comparisons[0].Decision != pairs.NotSlower {
				t.Errorf("comparisons %+v", r.Comparisons)
			}
			var text strings.Builder
			if err := r.WriteText(&text); err != nil || !strings.Contains(text.String(), "\nINCOMPLETE: "+c.want+"\n") {
				t.Errorf("%v:\n%s", err, text.String())
			}
		})
	}
}

// TestCompareReduced checks that the report of a comparison names what is not the default, with the
// workload of a smaller journal if it is selected.
func TestCompareReduced(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, ""},
		{Options{Conns: 1}, "1 connection, start on 300 rows"},
		{Options{Conns: 3000}, "3000 connections"},
		{Options{Conns: 1, Only: "fanout"}, "1 connection"},
		{Options{Conns: 1, Only: "start on 300 "}, "1 connection, start on 300 rows"},
		{Options{Only: "start on 900000", Warmup: time.Second}, "1s before them"},
	} {
		if r, err := c.o.begin("compare"); err != nil || r.Reduced != c.want {
			t.Errorf("%d connections, %q: %+v, %v; want %q", c.o.Conns, c.o.Only, r, err, c.want)
		}
	}
}
