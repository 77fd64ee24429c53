package tier

import (
	"slices"
	"testing"
	"time"
)

// TestSchedule checks that tiers of an interval are due together at its end, once, and that tiers
// added meanwhile wait for the next end.
func TestSchedule(t *testing.T) {
	const ms = int64(time.Millisecond)
	var s Schedule[string]
	flush := func(now int64) (sent []string) {
		s.Flush(now, func(name string) {
			sent = append(sent, name)
			if name == "again" {
				s.Add(100, "added meanwhile", now)
			}
		})
		return sent
	}
	if s.Next(0) != 0 {
		t.Error("an empty schedule has something due")
	}
	if !s.Add(100, "a", 30*ms) || s.Add(100, "again", 60*ms) || !s.Add(250, "slow", 60*ms) {
		t.Error("the first tier of an interval was not the first, or another one was")
	}
	if got := s.Next(60 * ms); got != 40*time.Millisecond {
		t.Errorf("next after %v", got)
	}
	for _, step := range []struct {
		at   int64
		want []string
	}{
		{99, nil},
		{100, []string{"a", "again"}},
		{100, nil},
		{201, []string{"added meanwhile"}},
		{250, []string{"slow"}},
		{5000, nil},
	} {
		if got := flush(step.at * ms); !slices.Equal(got, step.want) {
			t.Errorf("at %d ms: %q, want %q", step.at, got, step.want)
		}
	}
	if s.Next(5000*ms) != 0 {
		t.Error("an empty schedule has something due")
	}
}
