package admin

import "testing"

func TestMode(t *testing.T) {
	t.Parallel()
	for delay, want := range map[int]string{0: "real time", 10: "delayed 10s", 900: "delayed 15m", 3600: "delayed 1h", 5400: "delayed 1h30m", 90: "delayed 1m30s"} {
		if got := mode(delay); got != want {
			t.Errorf("%d: %s, want %s", delay, got, want)
		}
	}
}
