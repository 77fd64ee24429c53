package progress

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestElsewhere checks that a line is written every ten seconds if lines cannot be overwritten, but
// not the same one twice in a row.
func TestElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := New(&out, false)
		n := 0
		stop := p.During(t.Context(), func() string { n++; return fmt.Sprint("line ", n) })
		time.Sleep(25 * time.Second)
		stop()
		fmt.Fprintln(p, "said")
		if got := out.String(); strings.Count(got, "\n") != 3 || !strings.Contains(got, "  line 1\n") || !strings.Contains(got, "  line 2\n") || !strings.HasSuffix(got, "\nsaid\n") {
			t.Errorf("%q", got)
		}
		out.Reset()
		stop = p.During(t.Context(), func() string { return "ended" })
		time.Sleep(45 * time.Second)
		stop()
		if got := out.String(); strings.Count(got, "  ended\n") != 1 {
			t.Errorf("%q", got)
		}
	})
}

// TestOverwrites checks that a terminal shows one line below other output, which is removed at the
// end.
func TestOverwrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := New(&out, true)
		ctx, cancel := context.WithCancel(t.Context())
		stop := p.During(ctx, func() string { return "half" })
		time.Sleep(300 * time.Millisecond)
		fmt.Fprintln(p, "said")
		cancel()
		stop()
		if got, want := out.String(), eraseLine+"half"+eraseLine+"said\nhalf"+eraseLine; got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

func TestTexts(t *testing.T) {
	for got, want := range map[string]string{
		Thousands(0): "0", Thousands(999): "999", Thousands(1000): "1,000", Thousands(-1234567): "-1,234,567",
		Bytes(999): "999 bytes", Bytes(1500): "1.5 kB", Bytes(2_340_000): "2.3 MB", Bytes(5_670_000_000): "5.67 GB",
		Bar(0): "[" + strings.Repeat(" ", 24) + "]   0 %", Bar(.5): "[" + strings.Repeat("=", 12) + strings.Repeat(" ", 12) + "]  50 %", Bar(7): "[" + strings.Repeat("=", 24) + "] 100 %",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
