package stream

import (
	"strings"
	"testing"

	"github.com/ruedahq/rueda/wire"
)

// TestReplayCutShort checks the message behind the replay of a resume by position. If the client
// unsubscribes the pattern during the replay, the message does not state that all was sent.
func TestReplayCutShort(t *testing.T) {
	for _, all := range []bool{true, false} {
		h := New(Config{})
		sh := h.NewShard(func(bool) {})
		hd := define(t, h, "A|M|CI", nil)
		_, from := h.Position()
		for i := range 1000 {
			publish(t, h, trade(hd, i))
		}
		c := newClient(t, sh)
		pattern := []Item{{Channel: wire.Trades, ID: id("*|M|*")}}
		c.sub.Subscribe(pattern, Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: from}})
		c.sub.AfterReplay(ReplayEnd{
			Whole: wire.AppendText(nil, []byte(`{"type":"Whole"}`)),
			Cut:   wire.AppendText(nil, []byte(`{"type":"Cut"}`)),
		})
		text := string(c.sub.Gather(nil, 2000, wire.JSON, false))
		if !strings.Contains(text, `"N":1,`) || strings.Contains(text, `"N":1000,`) {
			t.Fatalf("got %d bytes of the replay", len(text))
		}
		if all {
			text = string(c.sub.Gather(nil, 1<<20, wire.JSON, false))
		} else {
			c.sub.Unsubscribe(pattern)
			text = string(c.sub.TakeCarry(nil))
		}
		if strings.Contains(text, "Whole") != all || strings.Contains(text, "Cut") == all {
			t.Errorf("all %v: the replay ended with %q", all, text[max(0, len(text)-40):])
		}
	}
}
