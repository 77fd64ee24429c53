package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// slowest is how many tests the summary lists.
const slowest = 20

// event is a line of go test -json.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
	Elapsed float64 // seconds
}

// id names a test. Its test is empty for the package as a whole.
type id struct{ pkg, test string }

// report prints the output of go test, and collects the data for the summary.
type report struct {
	out     io.Writer
	named   bool                    // fail packages in which -run matches no test
	output  map[id]*strings.Builder // of tests that have not ended
	took    map[id]float64          // seconds, of tests without a parent
	ran     map[string]bool         // packages that ran a test
	none    map[string]bool         // packages without a test to run
	failed  []id
	skipped []id
	reasons map[id]string // of skipped tests
}

func newReport(out io.Writer, named bool) *report {
	return &report{
		out: out, named: named, output: map[id]*strings.Builder{}, took: map[id]float64{},
		ran: map[string]bool{}, none: map[string]bool{}, reasons: map[id]string{},
	}
}

// read reads the events of a run to their end.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintf(r.out, "%s\n", lines.Bytes()) // go test itself failed
			continue
		}
		r.take(&e)
	}
	return lines.Err()
}

func (r *report) take(e *event) {
	t := id{e.Package, e.Test}
	if t.test != "" {
		r.ran[t.pkg] = true
	}
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.keep(t, e.Output)
	case "pass", "fail", "skip":
		r.end(t, e)
	}
}

// keep keeps the output of a test until its result is known. Output of a package is printed at
// once.
func (r *report) keep(t id, text string) {
	if t.test == "" {
		r.none[t.pkg] = r.none[t.pkg] || strings.HasSuffix(text, "[no tests to run]\n")
		if text != "PASS\n" && text != "FAIL\n" && !strings.HasSuffix(text, "[no test files]\n") {
			fmt.Fprint(r.out, text)
		}
		return
	}
	for _, mark := range []string{"=== RUN ", "=== PAUSE ", "=== CONT ", "=== NAME "} {
		if strings.HasPrefix(text, mark) {
			return
		}
	}
	b := r.output[t]
	if b == nil {
		b = &strings.Builder{}
		r.output[t] = b
	}
	b.WriteString(text)
}

// end prints the output of a test that failed. If a package fails, it prints the output of its
// tests that have not ended too, as after a panic.
func (r *report) end(t id, e *event) {
	if e.Action == "fail" {
		r.failed = append(r.failed, t)
		r.show(t)
		for other := range r.output {
			if t.test == "" && other.pkg == t.pkg {
				r.show(other)
			}
		}
	}
	if t.test == "" {
		r.empty(t, e)
		return
	}
	if e.Action == "skip" {
		r.skipped = append(r.skipped, t)
		if b := r.output[t]; b != nil {
			text, _, _ := strings.Cut(b.String(), "--- SKIP")
			r.reasons[t] = strings.TrimSpace(text)
		}
	}
	delete(r.output, t)
	if e.Action == "skip" {
		return
	}
	// The time of a test does not include its parallel subtests.
	name, _, _ := strings.Cut(t.test, "/")
	root := id{t.pkg, name}
	r.took[root] = max(r.took[root], e.Elapsed)
}

// empty fails a package that passed and ran no test, unless it has none to run. If -run was given
// for named packages, each must have a test that it matches.
func (r *report) empty(t id, e *event) {
	if e.Action != "pass" || r.ran[t.pkg] || r.none[t.pkg] && !r.named {
		return
	}
	why := "passed and ran no test: its TestMain ends the program"
	if r.none[t.pkg] {
		why = "no test matches -run"
	}
	fmt.Fprintf(r.out, "%s: %s\n", t.pkg, why)
	r.failed = append(r.failed, t)
}

func (r *report) show(t id) {
	if b := r.output[t]; b != nil {
		fmt.Fprintf(r.out, "%s: %s\n%s", t.pkg, t.test, b)
		delete(r.output, t)
	}
}

// summary prints the slowest tests, and names again the tests that failed or were skipped.
func (r *report) summary() {
	tests := slices.SortedFunc(maps.Keys(r.took), func(a, b id) int {
		return cmp.Or(cmp.Compare(r.took[b], r.took[a]), cmp.Compare(a.test, b.test))
	})
	fmt.Fprintf(r.out, "\nSlowest of %d tests:\n", len(tests))
	for _, t := range tests[:min(slowest, len(tests))] {
		fmt.Fprintf(r.out, "  %6.1f s  %s %s\n", r.took[t], t.pkg, t.test)
	}
	for _, t := range r.skipped {
		fmt.Fprintf(r.out, "skipped: %s %s: %s\n", t.pkg, t.test, r.reasons[t])
	}
	for _, t := range r.failed {
		fmt.Fprintf(r.out, "FAILED: %s\n", strings.TrimSpace(t.pkg+" "+t.test))
	}
}
