package wire

import (
	"encoding/json"
	"testing"

	"github.com/ruedahq/rueda/market"
)

// TestControl compares each control message with its golden bytes.
func TestControl(t *testing.T) {
	id := []byte("5")
	seen := [NumChannels]map[string]uint64{Trades: {"GGAL|BYMA|24hs": 1061, "AL30|BYMA|CI": 88}, Status: {"GGAL|BYMA|24hs": 2}}
	al30 := market.InstrumentID{Symbol: "AL30", Market: "BYMA", Term: "CI"}
	last := Last{Trades: {{ggal, 1061}, {al30, 0}}, OrderBook: {{ggal, 7}}}
	got := []string{
		Ping,
		string(AppendPong(nil, []byte(`"x"`), someTime)),
		string(AppendPong(nil, nil, someTime)),
		string(AppendAuthSuccess(nil, &AuthSuccess{
			ID: id, Session: "bot", Version: "1.0.0", Time: someTime, ExpiresIn: 86400, Interval: 20, Timeout: 30,
			Subscriptions: 2000, MessagesPerSecond: 20, WorkPerSecond: 50_000, Work: 2_000_000, MessageBytes: 65536, MaxMessageBytes: 10485760, Connections: 8, Reauth: true,
		})),
		string(AppendAuthSuccess(nil, &AuthSuccess{Version: "1.0.0", Time: someTime, MaxDepth: -1})),
		string(AppendSubscription(nil, &Subscription{
			Msg: "Subscribed", ID: id, Epoch: "e7k2", Position: "e7k2:918273",
			Given:    [NumChannels]bool{Trades: true, OrderBook: true},
			Lists:    [NumChannels][]string{Trades: {"GGAL|BYMA|24hs"}},
			Count:    [NumChannels]int{Trades: 1},
			Rejected: []Rejection{{"order_book", "NOPE|BYMA|CI", UnknownInstrument, "..."}, {"bars", `a"b`, UnknownChannel, ""}},
			Resumed:  seen,
			Lost:     [NumChannels]map[string]Range{Trades: {"A|B|C": {89, 140, "buffer_exceeded"}, "A|B|D": {0, 0, "ahead"}}, Status: {"A|B|C": {From: 2, Reason: "epoch_changed"}}},
		})),
		string(AppendSubscription(nil, &Subscription{Msg: "Rights changed", Epoch: "e", Position: "e:1", Removed: []Rejection{{"trades", "A|B|C", NotEntitled, ""}}})),
		string(AppendCaughtUp(nil, id, "e7k2", "e7k2:918299", &seen)),
		string(AppendAlive(nil, "e7k2", "e7k2:918299", &last)),
		string(AppendAlive(nil, "e7k2", "e7k2:918299", &Last{})),
		string(AppendTokenExpiring(nil, 300)),
		string(AppendSlow(nil, "Reading too slowly: quotes conflated", 1800, 412)),
		string(AppendShuttingDown(nil, 3120)),
		string(AppendError(nil, NewFault(TokenExpired, ""), []byte("1"), nil)),
		string(AppendError(nil, &Fault{Reason: RateLimited, Msg: "Wait", RetryAfter: 1, Hint: "slow down"}, nil, nil)),
		string(AppendError(nil, NewFault(SlowClient, ""), nil, func(b []byte) []byte { return AppendLast(b, &Last{}) })),
		string(AppendSubscription(nil, &Subscription{
			Msg: "Subscribed", Epoch: "e", Position: "e:1",
			Given: [NumChannels]bool{Summary: true, Bars: true, Bars + 1: true},
			Lists: [NumChannels][]string{Summary: {"A|B|C"}, Bars: {"A|B|C|1s"}, Bars + 1: {"A|B|C", "*|B|C"}},
			Count: [NumChannels]int{Summary: 1, Bars: 1, Bars + 1: 4}, Interval: "1m",
			Resumed: [NumChannels]map[string]uint64{Bars: {"A|B|C|1s": 3}, Bars + 1: {"A|B|C": 2}},
			Lost:    [NumChannels]map[string]Range{Status: {"A|B|C": {Reason: "ahead"}}, Bars + 2: {"A|B|C|5m": {Reason: "ahead"}}, Bars + 5: {"A|B|C|1d": {Reason: "ahead"}}},
		})),
		string(AppendAlive(nil, "e", "e:1", &Last{Status: {{al30, 1}}, Bars + 1: {{ggal, 7}, {al30, 0}}, Bars + 5: {{ggal, 2}}})),
		string(AppendSim(nil, []byte("7"), SimGap, "The next trade message is left out", 0)),
		string(AppendSubscription(nil, &Subscription{Msg: "Rights changed", Epoch: "e", Position: "e:1", Moved: []Moved{{"trades", "A|B|C", 900}, {"bars", "A|B|C|1s", 0}}})),
	}
	names, want := golden(t, "testdata/control.golden")
	if len(want) != len(got) {
		t.Fatalf("%d messages made, the golden file has %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%s:\n got %s\nwant %s", names[i], got[i], want[i])
		}
		if _, err := ParseJSON([]byte(got[i])); err != nil || !json.Valid([]byte(got[i])) {
			t.Errorf("%s: not JSON: %v", names[i], err)
		}
	}
}

// TestOneTypePerKey checks that a top-level key has one JSON type in all messages (except id) and
// that no two keys of a message differ only in case. Clients can then decode everything with one
// struct.
func TestOneTypePerKey(t *testing.T) {
	kinds := map[string]Kind{}
	for _, file := range []string{"testdata/control.golden", "testdata/messages.golden"} {
		names, messages := golden(t, file)
		for i := range messages {
			v, err := ParseJSON([]byte(messages[i]))
			if err != nil {
				t.Errorf("%s: %v", names[i], err)
			}
			for _, m := range v.Fields {
				if k, ok := kinds[m.Name]; ok && k != m.Value.Kind && m.Name != "id" {
					t.Errorf("%s: %q has another type elsewhere", names[i], m.Name)
				}
				kinds[m.Name] = m.Value.Kind
			}
		}
	}
}
