package host

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// TestDuplicateName requires that of two running nodes with one name the later one ends, and that
// reports of an earlier process of the node end none.
func TestDuplicateName(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	first, second := newDuplicateCheck("a", log), newDuplicateCheck("a", log)
	second.Started = first.Started + 1
	before := process{7, first.Started - 1}
	for range surelyRuns - 1 {
		if err := first.heard(&report{process: before}); err != nil {
			t.Fatal(err)
		}
	}
	var end error
	for range 2 * surelyRuns {
		for _, x := range []*duplicateCheck{&first, &second} {
			for _, p := range []process{first.process, second.process, {}} {
				err := x.heard(&report{process: p})
				if err != nil && x == &first {
					t.Fatal(err)
				}
				if end == nil {
					end = err
				}
			}
		}
	}
	if end == nil || !strings.Contains(end.Error(), `has the name "a"`) || !strings.Contains(logged.String(), "was started") {
		t.Errorf("%v, %s", end, &logged)
	}
}
