package server

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed/sim"
)

// TestNotTradingDay checks what is said about a day at which a virtual clock starts.
func TestNotTradingDay(t *testing.T) {
	for start, want := range map[string]string{
		"2026-11-20": "",
		"2026-12-25": "Note: 2026-12-25 is not a trading day (holiday: Christmas). The market begins on 2026-12-28.",
		"2026-11-21": "Note: 2026-11-21 is not a trading day (weekend). The market begins on 2026-11-24.",
	} {
		o := devOptions{clock: "virtual", start: start, speed: 1}
		c, err := o.exchange()
		if err != nil {
			t.Fatal(err)
		}
		if got := notTradingDay(&c); got != want {
			t.Errorf("%s: %q, want %q", start, got, want)
		}
	}
	if got := notTradingDay(&sim.Config{Start: time.Date(2026, 12, 25, 0, 0, 0, 0, time.UTC)}); got != "" {
		t.Errorf("without hours: %q", got)
	}
}

// TestOriginsOfConsole checks that the origins of the console are allowed in addition to those of
// --origin, even if the system chooses the port.
func TestOriginsOfConsole(t *testing.T) {
	listen, err := withPort(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(listen)
	if err != nil || port == "0" {
		t.Fatalf("%q, %v", listen, err)
	}
	got := withOwn([]string{"http://localhost:5173"}, listen)
	for _, want := range []string{"http://localhost:5173", "http://localhost:" + port, "http://127.0.0.1:" + port} {
		if !slices.Contains(got, want) {
			t.Errorf("%q are without %s", got, want)
		}
	}
	if got := withOwn(nil, "192.0.2.7:9000"); !slices.Contains(got, "http://192.0.2.7:9000") {
		t.Errorf("%q", got)
	}
	for _, as := range []string{"127.0.0.1:9000", ":9000", "nonsense"} {
		if listen, err := withPort(t.Context(), as); listen != as || err != nil {
			t.Errorf("%s became %s, %v", as, listen, err)
		}
	}
}
