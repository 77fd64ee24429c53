package subscription_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/wire"
)

// TestReplayCutShort checks the message behind the replay of a resume by position. If the client
// unsubscribes the pattern during the replay, the message does not state that all was sent.
func TestReplayCutShort(t *testing.T) {
	for _, all := range []bool{true, false} {
		h := hub.New(hub.Config{})
		sh := subscription.NewShard(h, func(bool) {})
		hd := streamtest.Define(t, h, "A|M|CI", nil)
		_, from := h.Position()
		for i := range 1000 {
			streamtest.Publish(t, h, streamtest.Trade(hd, i))
		}
		c := streamtest.NewClient(t, sh)
		pattern := []hub.Item{{Channel: wire.Trades, ID: streamtest.ID("*|M|*")}}
		c.Sub.Subscribe(pattern, subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: from}})
		c.Sub.AfterReplay(subscription.ReplayEnd{
			Whole: wire.AppendText(nil, []byte(`{"type":"Whole"}`)),
			Cut:   wire.AppendText(nil, []byte(`{"type":"Cut"}`)),
		})
		text := string(c.Sub.Gather(nil, 2000, wire.JSON, false))
		if !strings.Contains(text, `"N":1,`) || strings.Contains(text, `"N":1000,`) {
			t.Fatalf("got %d bytes of the replay", len(text))
		}
		if all {
			text = string(c.Sub.Gather(nil, 1<<20, wire.JSON, false))
		} else {
			c.Sub.Unsubscribe(pattern)
			text = string(c.Sub.TakeCarry(nil))
		}
		if strings.Contains(text, "Whole") != all || strings.Contains(text, "Cut") == all {
			t.Errorf("all %v: the replay ended with %q", all, text[max(0, len(text)-40):])
		}
	}
}

// TestReplayEndsBeforeALaterOne checks two resumes of one client. The replay of the first one ends
// while that of the second one has rows left. The message behind it has no position: a client that
// resumes the whole set from there would lose those rows.
func TestReplayEndsBeforeALaterOne(t *testing.T) {
	h := hub.New(hub.Config{})
	sh := subscription.NewShard(h, func(bool) {})
	few, many := streamtest.Define(t, h, "A|M|CI", nil), streamtest.Define(t, h, "B|M|CI", nil)
	_, from := h.Position()
	streamtest.Publish(t, h, streamtest.Trade(few, 1))
	for i := range 1000 {
		streamtest.Publish(t, h, streamtest.Trade(many, i))
	}
	c := streamtest.NewClient(t, sh)
	for _, name := range []string{"A", "B"} {
		c.Sub.Subscribe([]hub.Item{{Channel: wire.Trades, ID: streamtest.ID(name + "|M|CI")}},
			subscription.Options{Resume: &wire.Resume{Epoch: h.Epoch(), Position: from}})
		c.Sub.AfterReplay(subscription.ReplayEnd{
			Whole: wire.AppendText(nil, []byte(`{"type":"Whole`+name+`"}`)),
			Cut:   wire.AppendText(nil, []byte(`{"type":"Cut`+name+`"}`)),
		})
	}
	var ends []string
	for c.Sub.Pending() {
		for _, m := range streamtest.Frames(t, c.Sub.Gather(nil, 200, wire.JSON, false)) {
			if m.N == 0 {
				ends = append(ends, m.Type)
			}
		}
	}
	if !slices.Equal(ends, []string{"CutA", "WholeB"}) {
		t.Errorf("the replays ended with %v", ends)
	}
}
