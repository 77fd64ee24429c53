package session_test

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
)

// TestThreat25InstrumentInjection requests names that look like an instrument, or like several.
// Each is refused by name, and the valid one next to it is accepted.
func TestThreat25InstrumentInjection(t *testing.T) {
	const good = "GGAL|BYMA|24hs"
	for _, name := range []string{
		"GGAL|BYMA", "GGAL|BYMA|24hs|CI", "GGAL||24hs", "|BYMA|24hs", "GGAL|BYMA|", "||", "", "|",
		" GGAL|BYMA|24hs", "GGAL |BYMA|24hs", "GGAL|BYMA|24hs ", "GGAL|BYMA|24hs\n", "GGAL\t|BYMA|24hs", "GGAL|BYMA|24hs\x00",
		"GG*|BYMA|24hs", "*GAL|BYMA|24hs", "GGAL|BY*|24hs", "**|BYMA|24hs", "GGAL|BYMA|2*",
		"GGAL|BYMA|24hs,AL30|BYMA|CI", `GGAL"|BYMA|24hs`, `GGAL\|BYMA|24hs`, "GGAL;|BYMA|24hs",
		"GG\u0410L|BYMA|24hs", "GGAL\u2502BYMA\u250224hs", "GGAL|BYMA|24h\uff53", "GGAL|BYMA|24hs\u200b", "GGAL\u00ad|BYMA|24hs", // look alike, and are not ASCII
		"GGAL|BYMA|../24hs", "GGAL|.BYMA|24hs", strings.Repeat("A", 33) + "|BYMA|CI", strings.Repeat("A", 300),
		"ggal|BYMA|24hs", "GGAL|byma|24hs", "GGAL|BYMA|24HS", // well formed, and not listed
	} {
		d := newDrive(t, "demo")
		body, err := json.Marshal(map[string]any{"action": "subscribe", "trades": []string{name, good}})
		if err != nil {
			t.Fatal(err)
		}
		d.text(string(body))
		var ack struct {
			Type     string
			Trades   []string
			Rejected []struct{ Instrument, Reason string }
		}
		got := d.take()
		if err := json.Unmarshal([]byte(got[0]), &ack); err != nil {
			t.Fatal(err)
		}
		if len(ack.Trades) != 1 || ack.Trades[0] != good || len(ack.Rejected) != 1 || ack.Rejected[0].Instrument != name {
			t.Errorf("%q: %s", name, got[0])
			continue
		}
		if r := ack.Rejected[0].Reason; r != "bad_instrument" && r != "unknown_instrument" {
			t.Errorf("%q: refused for %s", name, r)
		}
		if _, err := market.ParsePattern(name); err == nil && ack.Rejected[0].Reason != "unknown_instrument" {
			t.Errorf("%q is well formed and refused for %s", name, ack.Rejected[0].Reason)
		}
	}
}

// TestThreat26SubscriptionAmplification requests a million instruments: listed, unlisted and
// invalid. The set stays within its limit, requests beyond it are refused and charged, and memory
// does not grow with the request.
func TestThreat26SubscriptionAmplification(t *testing.T) {
	asked := 50_000
	if os.Getenv("RUEDA_SOAK") != "" {
		asked = 1_000_000
	}
	d := newDrive(t, "demo")
	const listed, limit, each = 4000, 2000, 1000
	for i := range listed {
		id := market.InstrumentID{Symbol: fmt.Sprintf("S%d", i), Market: "BYMA", Term: "CI"}
		if _, err := d.world.Hub.Define(market.Instrument{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	before := liveHeap()
	reasons, n := map[string]int{}, 0
	for round := 0; n < asked; round++ {
		names := make([]string, 0, each)
		for range each {
			names = append(names, fmt.Sprintf("S%d|BYMA|CI", n))
			n++
		}
		body, err := json.Marshal(map[string]any{"action": "subscribe", "trades": names, "quotes": names[:each/2], "snapshot": false})
		if err != nil || len(body) > 64<<10 {
			t.Fatal(len(body), err)
		}
		d.text(string(body))
		for _, text := range d.take() {
			var m struct{ Type, Reason string }
			if err := json.Unmarshal([]byte(text), &m); err != nil {
				t.Fatal(err)
			}
			reasons[m.Type+" "+m.Reason]++
		}
		d.pass(time.Second)
		d.text(`{"action":"pong"}`)
	}
	if _, _, over := d.sess.Close(); over {
		t.Errorf("closed: %v", reasons)
	}
	d.text(`{"action":"subscriptions"}`)
	var all struct{ Trades, Quotes []string }
	if err := json.Unmarshal([]byte(d.take()[0]), &all); err != nil {
		t.Fatal(err)
	}
	if held := len(all.Trades) + len(all.Quotes); held > limit {
		t.Errorf("%d identifiers are held, over %d", held, limit)
	}
	if reasons["Error subscription_limit"] == 0 {
		t.Errorf("answers %v", reasons)
	}
	grown := int64(liveHeap()) - int64(before)
	if grown > 8<<20 {
		t.Errorf("%d bytes more are held", grown)
	}
	t.Logf("figure: %d identifiers asked for: %d KiB held, answers %v", n, grown>>10, reasons)
	// Without a pause between messages the rate limit ends it.
	for i := range 2000 {
		d.text(`{"action":"subscribe","trades":["NOPE|BYMA|CI"]}`)
		d.take()
		if code, _, over := d.sess.Close(); over {
			if code != 4429 {
				t.Errorf("closed with %d after %d", code, i)
			}
			return
		}
	}
	t.Error("it may go on for ever")
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
