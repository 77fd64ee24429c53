package session_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/frame"
	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// The market in which prices are measured.
const (
	pricedInstruments = 2000
	pricedRows        = 20  // trades of each instrument
	pricedDeep        = 50  // instruments with deep books
	pricedLevels      = 400 // of each side of these
)

// till is a session on a market whose instruments have trades, quotes, books and statuses. Its time
// passes between two messages, so that the allowance is whole for each.
type till struct {
	t     testing.TB
	now   time.Time
	env   *session.Env
	shard *subscription.Shard
	sess  *session.Session
	names []string
	buf   []byte

	pieces []session.Event
}

// Post takes the next piece of a message. Nothing here waits for other events.
func (x *till) Post(e session.Event) {
	if e.Kind == session.NextPiece {
		x.pieces = append(x.pieces, e)
	}
}

// handle sends a message, of which all pieces are handled.
func (x *till) handle(msg string) {
	x.sess.Handle(x.now, session.Event{Kind: session.Text, Message: []byte(msg)})
	for len(x.pieces) > 0 {
		e := x.pieces[0]
		x.pieces = x.pieces[1:]
		x.sess.Handle(x.now, e)
	}
}

func newTill(t testing.TB) *till {
	t.Helper()
	now := time.Now()
	j, err := journal.Open(t.Context(), journal.Config{Folder: t.TempDir(), BootID: "same"})
	if err != nil {
		t.Fatal(err)
	}
	h := hub.New(hub.Config{Journal: j, TradesKept: 2 * pricedRows})
	if err := h.Restore(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	x := &till{t: t, now: now, shard: subscription.NewShard(h, func(bool) {}), buf: make([]byte, 0, 64<<10)}
	x.env = &session.Env{Registry: &session.Registry{}, Origin: now, Used: func(string, session.Use, int) {}}
	side := func(sign, n market.Price) (levels []market.Level) {
		for i := range n {
			levels = append(levels, market.Level{Price: (1000 + sign*(i+1)) * market.Scale, Size: 5 * market.Scale, Orders: 1})
		}
		return levels
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range pricedInstruments {
		id := market.InstrumentID{Symbol: fmt.Sprintf("W%d", i), Market: "BYMA", Term: "24hs"}
		hd, err := h.Define(market.Instrument{ID: id, PriceDecimals: 2})
		if err != nil {
			t.Fatal(err)
		}
		x.names = append(x.names, id.String())
		levels := market.Price(10)
		if i < pricedDeep {
			levels = pricedLevels
		}
		list := []market.Event{{Kind: market.KindStatus, Handle: hd, Phase: market.Open}, {Kind: market.KindSnapshot, Handle: hd, Bids: side(-1, levels), Asks: side(1, levels)}}
		for n := range pricedRows { // no two alike, because compression would be too cheap
			list = append(list, market.Event{
				Kind: market.KindTrade, Handle: hd, Time: now.Add(time.Duration(rng.Int64N(1e9)) + time.Duration(n)*time.Second).UnixNano(),
				Price: market.Price(90_000+rng.IntN(20_000)) * market.Scale / 100, Size: market.Size(1+rng.IntN(5000)) * market.Scale,
			})
		}
		if err := h.Publish(list); err != nil {
			t.Fatal(err)
		}
	}
	h.Commit()
	x.open(wire.JSON)
	return x
}

// open opens a session in a format.
func (x *till) open(f wire.Format) {
	x.sess = new(session.Session)
	x.sess.Start(x.env, session.Peer{Identity: x.identity(x.now), Format: f}, x.shard, x, x.now)
	x.t.Cleanup(x.sess.PeerGone)
	x.drain()
}

// TestFormatsArePaid checks that replays and snapshots in formats which are made for one client pay
// for that, and live data does not.
func TestFormatsArePaid(t *testing.T) {
	x := newTill(t)
	const n = 100
	books := `{"action":"subscribe","replace":true,"order_book":` + x.list(n) + `}`
	resync := `{"action":"resync","order_book":` + x.list(n) + `}`
	unseen := strings.ReplaceAll(strings.Trim(x.list(n), "[]"), `",`, `":0,`) + ":0"
	trades := `{"action":"subscribe","replace":true,"trades":` + x.list(n) + `,"resume":{"epoch":"` + epochOf(x) + `","trades":{` + unseen + `}}}`
	plain := map[string]int{}
	for _, f := range []wire.Format{wire.JSON, wire.Batch, wire.Msgpack, wire.Deflate, wire.Batch | wire.Deflate} {
		x.open(f)
		x.send(books)
		got := map[string]int{}
		_, got["snapshots"] = x.send(resync)
		_, got["rows"] = x.send(trades)
		if f == wire.JSON {
			plain = got
		}
		const rows = n * pricedRows
		want := map[wire.Format]map[string]int{ // beyond those of JSON; twice as many are tolerated
			wire.Msgpack:              {"snapshots": n / 3, "rows": rows / 3},
			wire.Deflate:              {"snapshots": 8 * n}, // rows are too short
			wire.Batch | wire.Deflate: {"snapshots": 2 * n, "rows": rows / 3},
		}[f]
		for what, units := range got {
			if more := units - plain[what]; more < want[what] || more > 2*want[what]+n {
				t.Errorf("%v: %s cost %d units beyond those of JSON, want %v", f, what, more, want[what])
			}
		}
	}
}

// identity returns a user with a right to everything.
func (x *till) identity(now time.Time) *session.Identity {
	return &session.Identity{User: "u", Family: "f", Expires: now.Add(1e6 * time.Hour), Grants: session.Grants{
		Scopes: []string{"marketdata:read", "marketdata:depth", "marketdata:wildcard", "marketdata:history"},
		Rights: entitlement.Set{{Market: "BYMA", Trades: true, Quotes: true, Depth: -1}},
	}}
}

// drain reads all output, and returns its first bytes.
func (x *till) drain() (first string) {
	for {
		for x.shard.Turn(); x.shard.Next() != nil; {
		}
		b := x.sess.Output(x.now, x.buf, 64<<10)
		if len(b) == 0 && !x.sess.Unfinished() {
			return first
		}
		if first == "" {
			_, _, size := frame.Split(b)
			first = string(b[:size])
		}
		x.sess.Sent(x.now, len(b), len(b))
	}
}

// send sends messages and returns how long they and their output took, and what they cost.
func (x *till) send(messages ...string) (took time.Duration, units int) {
	x.t.Helper()
	x.now = x.now.Add(time.Hour)
	x.sess.Handle(x.now, session.Event{Kind: session.Text, Message: []byte(`{"action":"pong"}`)})
	x.drain()
	begin := time.Now()
	for _, msg := range messages {
		x.handle(msg)
		first := x.drain()
		if strings.Contains(first, `"rate_limited"`) || strings.Contains(first, `"subscription_limit"`) {
			x.t.Fatalf("%.100s: %s", msg, first)
		}
	}
	return time.Since(begin), x.env.Owed("u", x.now)
}

// list returns the JSON of a list of some instruments.
func (x *till) list(n int) string { return `["` + strings.Join(x.names[:n], `","`) + `"]` }

// priced is an action whose price is measured.
type priced struct {
	name   string
	price  string // in session.Prices; "": none dominates
	count  int    // how many things of this price the messages have
	before string // message that is sent before, and is not measured; "": none
	send   []string
	format wire.Format
}

// actions returns actions that have each price. The first one is the unit.
func (x *till) actions() []priced {
	const n = pricedInstruments - 10
	all := x.list(n)
	names := func(n int, symbol string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`"%s%d|BYMA|24hs"`, symbol, i)
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	seen := strings.ReplaceAll(strings.Trim(all, "[]"), `",`, fmt.Sprintf(`":%d,`, pricedRows)) + fmt.Sprintf(":%d", pricedRows)
	unseen := strings.ReplaceAll(strings.Trim(all, "[]"), `",`, `":0,`) + ":0"
	epoch := epochOf(x)
	resume := func(rest string) string { return `"resume":{"epoch":"` + epoch + `",` + rest + `}}` }
	none := `{"action":"subscribe","replace":true,"trades":[]}`
	trades := `{"action":"subscribe","replace":true,"trades":` + all + `}`
	books := func(depth int, conflate string) string {
		return fmt.Sprintf(`{"action":"subscribe","replace":true,"order_book":%s,"depth":%d,"conflate":%q,"snapshot":false}`, all, depth, conflate)
	}
	unknown := make([]string, 4000)
	for i := range unknown {
		unknown[i] = fmt.Sprintf(`"x%d":0`, i)
	}
	times := func(n int, messages ...string) (list []string) {
		for range n {
			list = append(list, messages...)
		}
		return list
	}
	patterns := strings.ReplaceAll(names(63, "W"), "24hs", "*")
	replaced := func(channel, options string, lists ...string) string {
		for i := range lists {
			lists[i] = strings.Trim(lists[i], "[]")
		}
		return `{"action":"subscribe","replace":true,` + options + `"` + channel + `":[` + strings.Join(lists, ",") + `]}`
	}
	everything := `"trades":["*|BYMA|*"],"status":["*|BYMA|*"],"bars":["*|BYMA|*|1s","*|BYMA|*|1m","*|BYMA|*|5m","*|BYMA|*|15m","*|BYMA|*|1h"]`
	position := positionOf(x)
	resync := `{"action":"resync","order_book":` + all + `}`
	replay := []string{`{"action":"subscribe","trades":` + all + `,` + resume(`"trades":{`+unseen+`}`)}
	return []priced{
		{"unchanged", "identifier", n, trades, []string{`{"action":"subscribe","trades":` + all + `}`}, wire.JSON},
		{"message", "message", 40, none, times(20, `{"action":"subscribe","trades":["`+x.names[0]+`"]}`, `{"action":"subscriptions"}`), wire.JSON},
		{"of a large set", "set", 40 * n, trades, times(20, `{"action":"unsubscribe","trades":["`+x.names[0]+`"]}`, `{"action":"subscribe","trades":["`+x.names[0]+`"]}`), wire.JSON},
		{"added", "added", n, none, []string{trades}, wire.JSON},
		{"added bars", "added", n, none, []string{`{"action":"subscribe","bars":` + all + `,"interval":"1s"}`}, wire.JSON},
		{"removed", "removed", n, trades, []string{none}, wire.JSON},
		{"other depth", "moved", n, books(5, "none"), []string{books(10, "1s")}, wire.JSON},
		{"snapshots", "snapshot", n, books(1, "none"), []string{resync}, wire.JSON},
		{"deep snapshots", "level", 2 * pricedDeep * pricedLevels, replaced("order_book", `"depth":0,`, x.list(pricedDeep)), []string{`{"action":"resync","order_book":` + x.list(pricedDeep) + `}`}, wire.JSON},
		{"resumed", "resumed", n, none, []string{`{"action":"subscribe","trades":` + all + `,` + resume(`"trades":{`+seen+`}`)}, wire.JSON},
		{"replayed", "row", n * pricedRows, none, replay, wire.JSON},
		{"unknown", "identifier", 1000, none, []string{`{"action":"subscribe","trades":` + names(1000, "V") + `}`}, wire.JSON},
		{"hints", "hint", 10, none, []string{`{"action":"subscribe","trades":` + names(10, "WW") + `}`}, wire.JSON},
		{"unknown members", "value", len(unknown), none, []string{`{"action":"ping","x":{` + strings.Join(unknown, ",") + `}}`}, wire.JSON},
		{"long text", "byte", 60_000, none, []string{`{"action":"ping","x":"` + strings.Repeat("x", 60_000) + `"}`}, wire.JSON},
		{"resumed pattern", "looked", 7 * pricedInstruments, none, []string{`{"action":"subscribe","snapshot":false,` + everything + `,` + resume(`"position":"`+position+`"`)}, wire.JSON},
		{"start of pattern", "looked", 2 * 7 * pricedInstruments, none, []string{`{"action":"subscribe","snapshot":false,` + everything + `,"start":"` + x.now.Add(1e4*time.Hour).UTC().Format(time.RFC3339) + `"}`}, wire.JSON},
		{"pattern of all", "", 1, none, []string{`{"action":"subscribe","snapshot":false,` + everything + `}`}, wire.JSON},
		{"removed patterns", "compared", 63 * 1963, replaced("trades", "", x.list(1900), patterns), []string{replaced("trades", "", x.list(1900))}, wire.JSON},
		{"added to patterns", "compared", 1900 * 63 * 4, replaced("trades", "", patterns), []string{`{"action":"subscribe","trades":` + x.list(1900) + `}`}, wire.JSON},
		{"snapshots in MessagePack", "msgpack", n, books(1, "none"), []string{resync}, wire.Msgpack},
		{"compressed snapshots", "compressed", n, books(10, "none"), []string{resync}, wire.Deflate},
		{"compressed snapshots in batches", "", n, books(10, "none"), []string{resync}, wire.Batch | wire.Deflate},
		{"replayed in MessagePack", "msgpack", n * pricedRows, none, replay, wire.Msgpack},
		{"replayed in compressed batches", "deflated", n * pricedRows * 115, none, replay, wire.Batch | wire.Deflate},
		{"replayed in compressed MessagePack", "", n, none, replay, wire.Msgpack | wire.Batch | wire.Deflate},
	}
}

// ackMember returns a text of the acknowledgement of a subscribe.
func ackMember(x *till, name string) string {
	x.handle(`{"action":"subscribe","trades":["` + x.names[0] + `"]}`)
	text := x.drain()
	_, rest, ok := strings.Cut(text, `"`+name+`":"`)
	if !ok {
		x.t.Fatal(text)
	}
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

func epochOf(x *till) string    { return ackMember(x, "epoch") }
func positionOf(x *till) string { return ackMember(x, "position") }

// measured is the result of an action.
type measured struct {
	priced
	took  time.Duration // the least of some runs
	units int
}

// measure makes each action some times, in turns.
func (x *till) measure(runs int) []measured {
	var list []measured
	for _, a := range x.actions() {
		list = append(list, measured{priced: a, took: 1 << 62})
	}
	plain := x.sess
	for range runs {
		for i := range list {
			m := &list[i]
			if m.format != wire.JSON {
				x.send(`{"action":"subscribe","replace":true}`) // what another session reads costs less
				x.open(m.format)
			}
			if m.before != "" {
				x.send(m.before)
			}
			took, units := x.send(m.send...)
			m.took, m.units = min(m.took, took), units
			if x.sess != plain {
				x.sess.PeerGone()
				x.sess = plain
			}
		}
	}
	return list
}

// unitOf returns the time of one unit: that of an identifier which is acknowledged.
func unitOf(list []measured) time.Duration {
	return list[0].took / time.Duration(list[0].count)
}

// fair returns what the thing would have to cost, if all others have their prices.
func (m *measured) fair(unit time.Duration) float64 {
	others := float64(m.units) - float64(m.count)*session.Prices()[m.price]
	return (m.in(unit) - others) / float64(m.count)
}

// in returns how many units the messages took.
func (m *measured) in(unit time.Duration) float64 { return float64(m.took) / float64(unit) }

// figure describes the result.
func (m *measured) figure(unit time.Duration) string {
	text := fmt.Sprintf("figure: %s: the messages cost %d units and take %.0f", m.name, m.units, m.in(unit))
	if m.price == "" {
		return text
	}
	return text + fmt.Sprintf("; %s costs %.4f, measured %.4f", m.price, session.Prices()[m.price], m.fair(unit))
}

// BenchmarkPrices prints the prices of work as multiples of the unit.
func BenchmarkPrices(b *testing.B) {
	x := newTill(b)
	var list []measured
	for b.Loop() {
		list = x.measure(20)
	}
	unit := unitOf(list)
	b.ReportMetric(float64(unit.Nanoseconds()), "ns/unit")
	for i := range list {
		fmt.Println(list[i].figure(unit))
	}
}

// TestPricesSoak checks that messages cost what they take, within a factor of two.
func TestPricesSoak(t *testing.T) {
	if os.Getenv("RUEDA_SOAK") == "" {
		t.Skip("RUEDA_SOAK measures times")
	}
	x := newTill(t)
	list := x.measure(40)
	unit := unitOf(list)
	for i := range list {
		m := &list[i]
		t.Log(m.figure(unit))
		if ratio := m.in(unit) / float64(m.units); ratio > 2 || ratio < 0.5 {
			t.Errorf("%s: the messages take %.2f times what they cost", m.name, ratio)
		}
	}
}
