package host

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestDuplicateName requires that of two running nodes with one name the later one ends, whatever
// the clocks of their machines say. Reports of an earlier process of the node end none.
func TestDuplicateName(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{-time.Hour, 0, time.Hour} { // the clock of the first one
		var logged bytes.Buffer
		log := slog.New(slog.NewTextHandler(&logged, nil))
		first, second := newDuplicateCheck("a", log), newDuplicateCheck("a", log)
		first.Started = second.Started + int64(ahead)
		before := process{Process: 7, Started: first.Started - 1}
		const later = time.Minute // how much longer the first one runs
		for range surelyRuns - 1 {
			if err := first.heard(&report{process: before.at(time.Hour)}, time.Second); err != nil {
				t.Fatal(err)
			}
		}
		var end error
		for i := range 2 * surelyRuns {
			now := time.Duration(i) * time.Second
			for _, p := range []process{first.at(now + later), second.at(now), {}} {
				if err := first.heard(&report{process: p}, now+later+time.Millisecond); err != nil {
					t.Fatal(err)
				}
				if err := second.heard(&report{process: p}, now+time.Millisecond); end == nil {
					end = err
				}
			}
		}
		if end == nil || !strings.Contains(end.Error(), `has the name "a"`) || !strings.Contains(logged.String(), "was started") {
			t.Errorf("clock of the first one %v ahead: %v, %s", ahead, end, &logged)
		}
	}
}
