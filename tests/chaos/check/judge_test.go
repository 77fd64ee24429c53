package check

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/market"
	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// world is a judge with a client, and right messages.
type world struct {
	in     *market.Instrument
	report *Report
	judge  *Judge
	client *Client
}

func newWorld() *world {
	m := market.New(3, time.Date(2026, 11, 20, 14, 30, 0, 0, time.UTC), 25*time.Millisecond, 1)
	w := &world{in: m.Instruments[0], report: NewReport()}
	w.judge = NewJudge(m, w.report)
	w.client = NewClient(ClientConfig{Name: "c", Judge: w.judge})
	w.client.set = map[item]*state{}
	for _, channel := range []string{"trades", "status", "quotes", "summary", "order_book"} {
		w.client.set[item{channel: channel, ident: w.in.ID}] = &state{on: true}
		w.client.series[channel+" "+w.in.ID] = &series{}
	}
	w.client.set[item{channel: "bars", ident: w.in.ID + "|1s"}] = &state{on: true}
	w.client.series["bars "+w.in.ID+"|1s"] = &series{}
	w.client.epoch = "e1"
	w.judge.Epoch("e1")
	return w
}

// message returns the right message of the n-th event of a channel, as a map.
func (w *world) message(channel byte, n int64) map[string]any {
	e := w.in.Nth(channel, n)
	m := map[string]any{}
	w.decode(w.in.Line(e, true), &m)
	symbol, _, _ := strings.Cut(w.in.ID, "|")
	m["S"], m["N"] = symbol, n
	delete(m, "SQ")
	switch m["type"] {
	case "O":
		m["R"], m["DL"], m["K"] = true, 0, w.in.Book(n).Checksum(0)
	case "X", "C":
		m["XN"] = w.in.Count(market.ChannelTrades, w.in.Trade(e).Of)
	case "D":
		w.figures(m, w.in.Summary(e).Figures, "LA")
		s := w.in.Summary(e)
		for name, v := range map[string]string{"CL": s.CL, "SE": s.SE, "OI": s.OI} {
			if v != "" {
				m[name] = json.Number(v)
			}
		}
		m["N"] = w.in.Count(market.ChannelTrades, e) + n
	}
	return m
}

func (w *world) decode(text []byte, to any) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(to); err != nil {
		panic(err)
	}
}

func (w *world) figures(m map[string]any, f market.Figures, last string) {
	for name, v := range map[string]string{"OP": f.OP, "HI": f.HI, "LO": f.LO, last: f.Last, "TV": f.TV, "EV": f.EV, "TC": f.TC, "VW": f.VW} {
		if v != "" {
			m[name] = json.Number(v)
		}
	}
}

// bar returns the right bar of 1 s of a second of the market.
func (w *world) bar(second int) map[string]any {
	at := w.in.Time(0).Truncate(time.Second).Add(time.Duration(second) * time.Second)
	list := w.in.Bar(at, time.Second, w.in.Until(at.Add(time.Second)))
	symbol, _, _ := strings.Cut(w.in.ID, "|")
	m := map[string]any{"type": "K", "S": symbol, "I": w.in.ID, "N": second, "T": market.Stamp(at), "IV": "1s", "R": false}
	w.figures(m, list[len(list)-1], "CL")
	return m
}

// receive gives messages to the client.
func (w *world) receive(t *testing.T, list ...map[string]any) {
	t.Helper()
	for _, m := range list {
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		read := &stream.Message{Text: text}
		if err := json.Unmarshal(text, read); err != nil {
			t.Fatal(err)
		}
		if err := w.client.handle(read); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRightMessages checks that right messages are none of the violations.
func TestRightMessages(t *testing.T) {
	w := newWorld()
	for n := int64(1); n < 400; n++ {
		w.receive(t, w.message(market.ChannelTrades, n), w.message(market.ChannelBook, n))
	}
	for n := int64(1); n < 40; n++ {
		w.receive(t, w.message(market.ChannelStatus, n), w.message(market.ChannelFigures, n), w.bar(int(n)))
	}
	if n, first := w.report.Violations(); n > 0 {
		t.Errorf("%d: %q", n, first)
	}
}

// kind returns the number of the first trade, cancel or correction from a number on.
func (w *world) kind(kind string, from int64) int64 {
	for n := from; ; n++ {
		if w.message(market.ChannelTrades, n)["type"] == kind {
			return n
		}
	}
}

// TestWrongMessages gives the client one wrong message, and expects a violation of its kind.
func TestWrongMessages(t *testing.T) {
	w := newWorld()
	trade, cancel, correction := w.kind("T", 30), w.kind("X", 30), w.kind("C", 30)
	set := func(channel byte, n int64, name string, v any) []map[string]any {
		m := w.message(channel, n)
		m[name] = v
		return []map[string]any{m}
	}
	later := func(m map[string]any, d time.Duration) map[string]any {
		at, err := time.Parse(time.RFC3339Nano, m["T"].(string))
		if err != nil {
			t.Fatal(err)
		}
		m["T"] = market.Stamp(at.Add(d))
		return m
	}
	book := w.message(market.ChannelBook, 5)
	level := w.message(market.ChannelBook, 5)
	w.decode([]byte(strings.Replace(string(w.in.Line(w.in.Nth(market.ChannelBook, 5), true)), `"B":[[`, `"B":[[1,2],[`, 1)), &level)
	change := map[string]any{}
	w.decode(w.in.Line(w.in.Nth(market.ChannelBook, 7), false), &change)
	change["S"], change["N"], change["L"], change["K"] = "I00", 7, 5, w.in.Book(7).Checksum(0)
	chain := map[string]any{}
	w.decode(w.in.Line(w.in.Nth(market.ChannelBook, 6), false), &chain)
	chain["S"], chain["N"], chain["L"], chain["K"] = "I00", 6, 4, w.in.Book(6).Checksum(0)
	again := w.message(market.ChannelTrades, trade)
	again["D"] = 1
	other := w.bar(9)
	other["TV"], other["EV"] = other["EV"], other["TV"]
	for name, c := range map[string]struct {
		kind     string
		messages []map[string]any
	}{
		"shifted time of a trade":   {"T time", []map[string]any{later(w.message(market.ChannelTrades, trade), -time.Second-1)}},
		"shifted time of a status":  {"H time", []map[string]any{later(w.message(market.ChannelStatus, 3), 1)}},
		"time of another event":     {"T trade", set(market.ChannelTrades, trade, "T", market.Stamp(w.in.Time(w.in.Nth(market.ChannelTrades, w.kind("T", trade+1)))))},
		"price":                     {"T trade", set(market.ChannelTrades, trade, "P", json.Number("1"))},
		"price of another form":     {"T trade", set(market.ChannelTrades, trade, "P", json.Number(fmt.Sprint(w.message(market.ChannelTrades, trade)["P"])+"0"))},
		"size":                      {"T trade", set(market.ChannelTrades, trade, "Z", json.Number("99999"))},
		"id":                        {"T trade", set(market.ChannelTrades, trade, "X", "t1")},
		"conditions":                {"T trade", set(market.ChannelTrades, trade, "C", []string{"other"})},
		"number of another trade":   {"T number", set(market.ChannelTrades, trade, "N", trade+1)},
		"trade that X names":        {"X reference", set(market.ChannelTrades, cancel, "XN", 1)},
		"old price of a correction": {"C trade", set(market.ChannelTrades, correction, "XP", json.Number("1"))},
		"latency":                   {"T latency", set(market.ChannelTrades, trade, "D", -1)},
		"symbol":                    {"T symbol", set(market.ChannelTrades, trade, "S", "I01")},
		"other instrument":          {"T instrument", set(market.ChannelTrades, trade, "I", "I00|M2|24hs")},
		"second content":            {"T content", []map[string]any{w.message(market.ChannelTrades, trade), again}},
		"missing N":                 {"sequence", []map[string]any{w.message(market.ChannelTrades, trade), w.message(market.ChannelTrades, trade+2)}},
		"doubled N":                 {"sequence", []map[string]any{w.message(market.ChannelTrades, trade), w.message(market.ChannelTrades, trade)}},
		"phase":                     {"H status", set(market.ChannelStatus, 4, "E", "closed")},
		"gap":                       {"H gap", set(market.ChannelStatus, 4, "E", "gap")},
		"level":                     {"O change", []map[string]any{level}},
		"size of a level":           {"O book", set(market.ChannelBook, 5, "B", []any{[]any{json.Number("1"), json.Number("2"), json.Number("3")}})},
		"checksum":                  {"O checksum", set(market.ChannelBook, 5, "K", 12)},
		"change that is missing":    {"O book", []map[string]any{book, change}},
		"chain":                     {"O change", []map[string]any{book, chain}},
		"change without a book":     {"O change", []map[string]any{change}},
		"volume of a summary":       {"D summary", set(market.ChannelFigures, 6, "TV", json.Number("1"))},
		"count of a summary":        {"D summary", set(market.ChannelFigures, 6, "TC", json.Number("1"))},
		"close before a summary":    {"D summary", set(market.ChannelFigures, 6, "CL", json.Number("1"))},
		"number of a summary":       {"D number", set(market.ChannelFigures, 6, "N", 2)},
		"bar":                       {"K bar", []map[string]any{other}},
		"start of a bar":            {"K interval", []map[string]any{later(w.bar(9), time.Millisecond)}},
		"bar of another second":     {"K bar", []map[string]any{later(w.bar(9), time.Second)}},
		"missing bar":               {"sequence", []map[string]any{w.bar(9), w.bar(11)}},
	} {
		w := newWorld()
		w.receive(t, c.messages...)
		_, first := w.report.Violations()
		if len(first) == 0 || !strings.Contains(first[0], ") "+c.kind+":") {
			t.Errorf("%s: expected %s, found %q", name, c.kind, first)
		}
	}
}
