package stream

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// golden returns the messages of a golden file of package wire, by name.
func golden(t testing.TB, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, message, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		if !ok {
			t.Fatalf("%s: a line without a name: %s", path, line)
		}
		all[name] = message
	}
	return all
}

// encode encodes a data message again.
func encode(m *Message) string {
	h := &wire.Header{Ident: wire.MakeIdent(m.ID), N: m.N, Time: m.Time, Latency: m.Latency}
	if m.Delay > 0 {
		h.Ident = h.Ident.Delayed(int64(m.Delay) * 1e9)
	}
	level := func(side []market.Level) (l market.Level) {
		if len(side) > 0 {
			l = side[0]
		}
		return l
	}
	switch m.Kind {
	case Trade:
		return string(wire.AppendTrade(nil, h, &m.Trade))
	case Quote:
		return string(wire.AppendQuote(nil, h, level(m.Bids), level(m.Asks), m.Snapshot))
	case Book:
		if m.Snapshot {
			return string(wire.AppendBookState(nil, h, m.Depth, m.Bids, m.Asks, m.Checksum))
		}
		return string(wire.AppendBookUpdate(nil, h, m.Previous, m.Bids, m.Asks, m.Checksum))
	case Status:
		return string(wire.AppendStatus(nil, h, m.Phase, m.Reason, m.Until, m.Snapshot))
	case Summary:
		return string(wire.AppendSummary(nil, h, &m.Figures, m.Snapshot))
	case Bar:
		return string(wire.AppendBar(nil, h, &m.Bar))
	}
	return ""
}

// TestData checks that every golden data message is decoded completely: encoded again, it has the
// same bytes.
func TestData(t *testing.T) {
	var d Decoder
	var m Message
	for name, want := range golden(t, "../testdata/messages.golden") {
		if err := d.Decode([]byte(want), &m); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := encode(&m); got != want || m.Control != nil || !m.Kind.IsData() {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
	delayed := `{"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","DE":900,"N":1042,"T":"2026-11-20T14:30:00.123456789Z","D":900000184200,"P":7050,"Z":120,"X":"88123","G":"B"}`
	if err := d.Decode([]byte(delayed), &m); err != nil || encode(&m) != delayed {
		t.Errorf("delayed: %v, %s", err, encode(&m))
	}
}

// TestBatch checks that the messages of a batch are those that Decode returns one by one, and what
// ends a batch.
func TestBatch(t *testing.T) {
	var texts []string
	for _, path := range []string{"../testdata/messages.golden", "../testdata/control.golden"} {
		for _, text := range golden(t, path) {
			texts = append(texts, text)
		}
	}
	var one, d Decoder
	var want, m Message
	n := 0
	err := d.DecodeBatch([]byte(" [ "+strings.Join(texts, " , ")+"] "), &m, func(text []byte) error {
		if err := one.Decode([]byte(texts[n]), &want); err != nil || string(text) != texts[n] || !reflect.DeepEqual(m, want) {
			t.Errorf("%v\n got %s %+v\nwant %s %+v", err, text, m, texts[n], want)
		}
		n++
		return nil
	})
	if err != nil || n != len(texts) {
		t.Errorf("%v after %d of %d messages", err, n, len(texts))
	}
	if err := d.DecodeBatch([]byte("[]"), &m, func([]byte) error { return errors.New("called") }); err != nil {
		t.Error(err)
	}
	stop := errors.New("stop")
	if err := d.DecodeBatch([]byte(`[{"type":"News"},{"type":"News"}]`), &m, func([]byte) error { return stop }); err != stop {
		t.Error(err)
	}
	for _, bad := range []string{"", "{}", `{"type":"News"}`, "[", "[1]", `[{"type":"News"}`, `[{"type":"News"},]`, `[{"type":"News"}]]`, `[{"type":"T"}]`, "[\xff]"} {
		if err := d.DecodeBatch([]byte(bad), &m, func([]byte) error { return nil }); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestControl checks the members of the golden control messages.
func TestControl(t *testing.T) {
	messages := golden(t, "../testdata/control.golden")
	id := func(s string) market.InstrumentID {
		p, err := market.ParsePattern(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	const at = 1795185000123456789
	for name, want := range map[string]Message{
		"ping": {Kind: Ping},
		"pong": {Kind: Pong, Control: &Control{ID: `"x"`, Time: at}},
		"caught up": {Kind: CaughtUp, Control: &Control{Code: 200, ID: "5", Epoch: "e7k2", Position: "e7k2:918299", Resumed: map[Series]uint64{
			{wire.Trades, id("AL30|BYMA|CI")}: 88, {wire.Trades, id("GGAL|BYMA|24hs")}: 1061, {wire.Status, id("GGAL|BYMA|24hs")}: 2}}},
		"shutting down": {Kind: Warning, Control: &Control{Code: 200, Reason: wire.ShuttingDown, Msg: "Reconnect", Reconnect: 3120 * time.Millisecond}},
		"slow client": {Kind: Warning, Control: &Control{Code: 200, Reason: wire.SlowClient, Msg: "Reading too slowly: quotes conflated",
			Behind: 1800 * time.Millisecond, Queued: 412}},
		"error, wait": {Kind: Error, Control: &Control{Code: 429, Reason: wire.RateLimited, Msg: "Wait", Retry: true, RetryAfter: time.Second, Hint: "slow down"}},
		"subscription, bars of two intervals": {Kind: Subscription, Control: &Control{
			Code: 200, Msg: "Subscribed", Epoch: "e", Position: "e:1",
			Accepted: []Series{{wire.Summary, id("A|B|C")}, {wire.Bars, id("A|B|C")}, {wire.BarsOf(market.Minute), id("A|B|C")}, {wire.BarsOf(market.Minute), id("*|B|C")}},
			Given:    [wire.Bars + 1]bool{wire.Summary: true, wire.Bars: true},
			Resumed:  map[Series]uint64{{wire.Bars, id("A|B|C")}: 3, {wire.BarsOf(market.Minute), id("A|B|C")}: 2},
			Lost: map[Series]wire.Range{{wire.Status, id("A|B|C")}: {Reason: "ahead"},
				{wire.BarsOf(market.FiveMinutes), id("A|B|C")}: {Reason: "ahead"}, {wire.BarsOf(market.Day), id("A|B|C")}: {Reason: "ahead"}},
		}},
		"subscription, removed": {Kind: Subscription, Control: &Control{Code: 200, Msg: "Rights changed", Epoch: "e", Position: "e:1",
			Removed: []Rejection{{Channel: "trades", Instrument: "A|B|C", Reason: wire.NotEntitled}}}},
		"subscription, moved": {Kind: Subscription, Control: &Control{Code: 200, Msg: "Rights changed", Epoch: "e", Position: "e:1",
			Moved: []Moved{{"trades", "A|B|C", 15 * time.Minute}, {"bars", "A|B|C|1s", 0}}}},
		"alive, bars": {Kind: Alive, Control: &Control{Epoch: "e", Position: "e:1", Last: map[Series]uint64{{wire.Status, id("AL30|BYMA|CI")}: 1,
			{wire.BarsOf(market.Minute), ggal}: 7, {wire.BarsOf(market.Minute), id("AL30|BYMA|CI")}: 0, {wire.BarsOf(market.Day), ggal}: 2}}},
	} {
		want.Latency = -1
		var d Decoder
		var m Message
		if err := d.Decode([]byte(messages[name]), &m); err != nil || !reflect.DeepEqual(m, want) {
			t.Errorf("%s: %v\n got %+v %+v\nwant %+v %+v", name, err, m, m.Control, want, want.Control)
		}
	}
	for name, message := range messages {
		var d Decoder
		var m Message
		if err := d.Decode([]byte(message), &m); err != nil || m.Kind == Unknown || m.Kind.IsData() {
			t.Errorf("%s: %v, kind %d", name, err, m.Kind)
		}
	}
}

// TestSubscription checks the members of an answer with every kind of list, and those of Success.
func TestSubscription(t *testing.T) {
	messages := golden(t, "../testdata/control.golden")
	var d Decoder
	var m Message
	if err := d.Decode([]byte(messages["subscription"]), &m); err != nil {
		t.Fatal(err)
	}
	c := m.Control
	if len(c.Rejected) != 2 || c.Rejected[0].Hint != "..." || c.Rejected[0].Code != 404 || c.Rejected[1].Instrument != `a"b` ||
		len(c.Accepted) != 1 || c.Accepted[0] != (Series{wire.Trades, ggal}) || !c.Given[wire.OrderBook] || c.Given[wire.Quotes] || len(c.Lost) != 3 {
		t.Errorf("%+v", c)
	}
	for name, depth := range map[string]int{"success": 0, "success, without books": -1} {
		if err := d.Decode([]byte(messages[name]), &m); err != nil || m.Control.Limits.MaxDepth != depth {
			t.Errorf("%s: %v, %+v", name, err, m.Control)
		}
	}
	if err := d.Decode([]byte(messages["success"]), &m); err != nil || m.Control.Heartbeat.Interval != 20*time.Second ||
		m.Control.ExpiresIn != 24*time.Hour || m.Control.Limits.MessageBytes != 65536 || m.Control.Limits.MaxMessageBytes != 10485760 || !m.Control.Reauth || m.Control.Session != "bot" {
		t.Errorf("%v, %+v", err, m.Control)
	}
}

var ggal = market.InstrumentID{Symbol: "GGAL", Market: "BYMA", Term: "24hs"}

// TestTolerance checks what a newer server may send.
func TestTolerance(t *testing.T) {
	const head = `"I":"GGAL|BYMA|24hs","N":7,"T":"2026-11-20T14:30:00.123456789Z"`
	for message, kind := range map[string]Kind{
		`{}`:                           Unknown,
		`{"type":"Z",` + head + `}`:    Unknown,
		`{"type":"New","x":[{"a":1}]}`: Unknown,
		`{"type":"New","B":[1,[],"b",{"a":[2]}],"A":[[3]]}`: Unknown,
		`{"type":"Warning","B":["b"]}`:                      Warning,
		`{"action":"new"}`:                                  Unknown,
		`{` + head + `,"P":7050,"new":{"a":[1,"b",null,true,{}]},"Z":1.5,"type":"T","G":"Q"}`: Trade,
		`{"type":"H",` + head + `,"E":"new_phase"}`:                                           Status,
		`{"type":"O",` + head + `,"L":6,"K":1,"B":[[1,2,3,"new"]]}`:                           Book,
	} {
		var d Decoder
		var m Message
		if err := d.Decode([]byte(message), &m); err != nil || m.Kind != kind {
			t.Errorf("%s: kind %d, %v", message, m.Kind, err)
		}
	}
}

// TestRefused checks that a message that cannot be used is an error.
// TestLenient checks what a lenient decoder accepts in addition.
func TestLenient(t *testing.T) {
	for text, good := range map[string]bool{
		`{"type":"O","I":"A|B|C","N":1,"R":true,"B":[[1,2]]}`: true,
		`{"type":"O","I":"A|B|C","N":2,"L":1}`:                true,
		`{"type":"O","I":"A|B|C","N":2}`:                      false,
		`{"type":"T","I":"A|B|C","N":1,"P":1,"Z":1}`:          true,
		`{"type":"T","I":"A|B|C","P":1,"Z":1}`:                false,
	} {
		var m Message
		strict, lenient := new(Decoder).Decode([]byte(text), &m), (&Decoder{Lenient: true}).Decode([]byte(text), &m)
		if strict == nil || (lenient == nil) != good || m.HasChecksum() {
			t.Errorf("%s: %v, %v", text, strict, lenient)
		}
	}
}

func TestRefused(t *testing.T) {
	const head = `"I":"GGAL|BYMA|24hs","N":7,"T":"2026-11-20T14:30:00.123456789Z"`
	for _, message := range []string{
		``, `[]`, `{`, `{"type":"T"`, `{"type":"T"} x`, "{\"type\":\"\xff\"}", `{"type":"Alive","type":"Alive"}`,
		`{"type":"T",` + head + `,"P":7050}`,
		`{"type":"T",` + head + `,"P":"7050","Z":1}`,
		`{"type":"T",` + head + `,"P":7050,"Z":-1}`,
		`{"type":"T",` + head + `,"P":70.501234567890123456,"Z":1}`,
		`{"type":"T",` + head + `,"P":1e3,"Z":1}`,
		`{"type":"T","N":7,"P":7050,"Z":1}`,
		`{"type":"T","I":"GGAL|BYMA","N":7,"T":"2026-11-20T14:30:00.123456789Z","P":1,"Z":1}`,
		`{"type":"T","I":"GGAL|BYMA|24hs","N":-7,"T":"2026-11-20T14:30:00.123456789Z","P":1,"Z":1}`,
		`{"type":"T","I":"GGAL|BYMA|24hs","N":18446744073709551616,"T":"2026-11-20T14:30:00.123456789Z","P":1,"Z":1}`,
		`{"type":"T","I":"GGAL|BYMA|24hs","N":7,"T":"20 November","P":1,"Z":1}`,
		`{"type":"O",` + head + `,"K":1,"B":[[1,2]]}`,
		`{"type":"O",` + head + `,"R":true,"K":1,"B":[],"A":[]}`,
		`{"type":"O",` + head + `,"L":6,"K":1,"B":[1,2]}`,
		`{"type":"O",` + head + `,"L":6,"K":1,"B":[[1]]}`,
		`{"type":"O",` + head + `,"L":6,"K":1,"B":[[]]}`,
		`{"type":"K",` + head + `,"IV":"7m","R":false,"TC":0}`,
		`{"type":"T",` + head + `,"P":1,"Z":1,"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
	} {
		var d Decoder
		var m Message
		if err := d.Decode([]byte(message), &m); !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %v", message, err)
		}
	}
}

// TestNumbers checks prices, sizes and integers against the parsers of package market and strconv,
// whatever comes after them.
func TestNumbers(t *testing.T) {
	for _, text := range []string{
		"0", "7", "-7", "-0", "00", "07", "0.5", "00.5", "1.", ".5", "1.5", "7049.50", "0.00000001", "0.000000001", "0.0000000010", "1.1234567800",
		"1234567", "12345678", "1234567.12345678", "12345678.12345678", "12345678.1234567", "123456789012345", "1234567890123456", "99999999999",
		"92233720368", "92233720369", "999999999999999999", "1000000000000000000", "18446744073709551615", "18446744073709551616", "99999999999999999999",
		"1e3", "1E3", "1.5e1", "1x", "1-", "1.5.5", "4294967295", "4294967296",
	} {
		for _, space := range []string{"", " ", "\n"} {
			in := []byte(fmt.Sprintf(`{"type":"T","N":%[1]s%[2]s,"P":%[1]s%[2]s,"Z":%[1]s%[2]s,"K":%[1]s%[2]s}`, text, space))
			price, badPrice := market.ParsePrice(text)
			size, badSize := market.ParseSize(text)
			n, badN := strconv.ParseUint(text, 10, 64)
			k, badK := strconv.ParseUint(text, 10, 32)
			var d Decoder
			var m Message
			_ = d.Decode(in, &m) // members are missing
			valid := json.Valid([]byte(text))
			want := [...]bool{valid && badN == nil, valid && badPrice == nil, valid && badSize == nil, valid && badK == nil}
			if want[0] && m.N != n || want[1] && m.Trade.Price != price || want[2] && m.Trade.Size != size || want[3] && m.Checksum != uint32(k) {
				t.Errorf("%s: %+v", in, m)
			}
			for i, name := range []string{"N", "P", "Z", "K"} {
				one := fmt.Sprintf(`{"type":"Q","I":"GGAL|BYMA|24hs","T":"2026-11-20T14:30:00Z","N":1,%q:%s%s}`, name, text, space)
				if err := d.Decode([]byte(one), &m); (err == nil) != want[i] {
					t.Errorf("%s: %v", one, err)
				}
			}
		}
	}
}

// TestTimes checks times after another one of the same second, and of others.
func TestTimes(t *testing.T) {
	var d Decoder
	var m Message
	for _, text := range []string{
		"2026-11-20T14:30:00.123456789Z", "2026-11-20T14:30:00.000000000Z", "2026-11-20T14:30:00.999999999Z", "2026-11-20T14:30:00Z", "2026-11-20T14:30:00.5Z",
		"2026-11-20T14:30:00.12345678Z", "2026-11-20T14:30:00.1234567890Z", "2026-11-20T14:30:00.12345678aZ", "2026-11-20T14:30:00,123456789Z", "2026-11-20T14:30:00.123456789z",
		"2026-11-20T14:30:00.123456789-03:00", "2026-11-20T14:30:01.123456789Z", "2026-11-20T14:30:00.123456788Z", "1969-12-31T23:59:59.999999999Z", "2026-11-20T14:30:00.123456789", "",
	} {
		want, bad := wire.ParseTime(text)
		err := d.Decode([]byte(`{"type":"Q","I":"GGAL|BYMA|24hs","N":1,"T":"`+text+`"}`), &m)
		if (err == nil) != (bad == nil) || err == nil && m.Time != want {
			t.Errorf("%s: %d, %v, want %d, %v", text, m.Time, err, want, bad)
		}
	}
}

// TestReset decodes each message after each other one. It leaves nothing of the one before.
func TestReset(t *testing.T) {
	all := golden(t, "../testdata/messages.golden")
	maps.Copy(all, golden(t, "../testdata/control.golden"))
	all["incomplete bar"] = `{"type":"K","I":"GGAL|BYMA|24hs","N":1,"R":true}`
	var d Decoder
	for before, first := range all {
		for name, second := range all {
			var m, want Message
			_ = d.Decode([]byte(first), &m) // some are not valid
			errWant, err := d.Decode([]byte(second), &want), d.Decode([]byte(second), &m)
			if (err == nil) != (errWant == nil) || err == nil && !reflect.DeepEqual(m, want) {
				t.Errorf("%s after %s: %+v, %v", name, before, m, err)
			}
		}
	}
}

// TestIndex checks that messages have equal indexes if they have equal identifiers, and that a
// decoder counts again after as many identifiers as it remembers.
func TestIndex(t *testing.T) {
	var d Decoder
	var m Message
	index := func(symbol int) int {
		t.Helper()
		text := fmt.Sprintf(`{"type":"Q","I":"S%d|BYMA|24hs","N":1,"T":"2026-11-20T14:30:00Z"}`, symbol)
		if err := d.Decode([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		return m.Index
	}
	for i := range maxIDs {
		if got, again := index(i), index(i/2); got != i || again != i/2 {
			t.Fatalf("identifier %d has index %d, and %d has %d", i, got, i/2, again)
		}
	}
	if first, second := index(maxIDs), index(0); first != 0 || second != 1 {
		t.Errorf("indexes %d and %d after %d identifiers", first, second, maxIDs)
	}
}

// TestAllocations checks that trades, quotes and books are decoded without an allocation for each.
func TestAllocations(t *testing.T) {
	messages := golden(t, "../testdata/messages.golden")
	var d Decoder
	var m Message
	for name, text := range messages {
		data := []byte(text)
		allowed := 0.0
		if strings.Contains(text, `"C":`) {
			allowed = 2 // the slice of conditions grows twice
		}
		n := testing.AllocsPerRun(1000, func() {
			if err := d.Decode(data, &m); err != nil {
				t.Fatal(err)
			}
		})
		// An id with escapes is decoded to a copy.
		if n > allowed && !strings.Contains(text, `\`) {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	messages := golden(b, "../testdata/messages.golden")
	for _, name := range []string{"trade", "quote", "book", "book, update", "bar"} {
		data := []byte(messages[name])
		b.Run(name, func(b *testing.B) {
			var d Decoder
			var m Message
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if err := d.Decode(data, &m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	for _, path := range []string{"../testdata/messages.golden", "../testdata/control.golden"} {
		for _, message := range golden(f, path) {
			f.Add([]byte(message))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var d Decoder
		var m, again Message
		if d.Decode(data, &m) != nil || !m.Kind.IsData() || m.Delay < 0 {
			return
		}
		if len(m.Bids) > 1 && m.Kind == Quote {
			return // a quote with levels of a book
		}
		text := encode(&m)
		var second Decoder
		if err := second.Decode([]byte(text), &again); err != nil && m.N > 0 && m.Time != 0 && !m.ID.IsPattern() && m.Phase != market.NoPhase {
			t.Errorf("%s, encoded again as %s: %v", data, text, err)
		}
	})
}

// FuzzBatch checks that a batch of one message is the message.
func FuzzBatch(f *testing.F) {
	for _, message := range golden(f, "../testdata/messages.golden") {
		f.Add([]byte(message))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var one, d Decoder
		var want, m Message
		if one.Decode(data, &want) != nil {
			return
		}
		n := 0
		err := d.DecodeBatch(append(append([]byte("["), data...), ']'), &m, func([]byte) error {
			if n++; !reflect.DeepEqual(m, want) {
				t.Errorf("%s: got %+v, want %+v", data, m, want)
			}
			return nil
		})
		if n != 1 || err != nil {
			t.Errorf("%s: %d messages, %v", data, n, err)
		}
	})
}
