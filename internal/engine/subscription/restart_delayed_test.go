package subscription_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/subscription"
	"github.com/ruedahq/rueda/internal/testing/streamtest"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestRestartSendsNothingEarly checks delayed data immediately after a restart. Nothing that was
// published within the delay is sent, and all of it is sent after the delay.
func TestRestartSendsNothingEarly(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		t.Run(fmt.Sprint("virtual ", virtual), func(t *testing.T) {
			cfg := hub.Config{Delays: []time.Duration{2 * time.Second}, TradesKept: 512}
			edit := func(in *market.Instrument) { in.QuotesFromFeed, in.VirtualClock = true, virtual }
			folder := t.TempDir()
			r := streamtest.Restart(t, folder, cfg)
			hd := streamtest.Define(t, r.Hub, "A|M|CI", edit)
			first := time.Now()
			isEarly := func() bool { return time.Since(first) < 2*time.Second } // on a slow machine the delay is over sooner
			for i := range 3000 {
				streamtest.Publish(t, r.Hub, streamtest.Trade(hd, i))
			}
			streamtest.Publish(t, r.Hub, market.Event{Kind: market.KindQuote, Handle: hd, Bids: []market.Level{streamtest.Level(777, 5)}, Asks: []market.Level{streamtest.Level(778, 6)}},
				market.Event{Kind: market.KindStatus, Handle: hd, Phase: market.Halt, Reason: "secret"})
			r.Leave()
			r = streamtest.Restart(t, folder, cfg)
			defer r.Leave()
			streamtest.Define(t, r.Hub, "A|M|CI", edit)
			wanted := []hub.Wanted{{ID: streamtest.ID("A|M|CI"), Trades: true, Quotes: true, Delay: 2}}
			if err := r.Hub.AwaitDelay(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			state, _, _ := r.Hub.Snapshot(nil, wanted)
			if string(state) != `{"instrument":"A|M|CI"}` && isEarly() {
				t.Errorf("reported at once: %s", state)
			}
			c := streamtest.NewClient(t, r.Shard)
			resume := &wire.Resume{Epoch: r.Hub.Epoch()}
			for _, k := range []wire.Channel{wire.Trades, wire.Status, wire.BarsOf(market.Second)} {
				resume.Seen[k] = map[string]uint64{"A|M|CI": 0}
				c.Sub.Subscribe([]hub.Item{{Channel: k, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Delay: 2}}}, subscription.Options{Resume: resume})
			}
			c.Sub.Subscribe([]hub.Item{{Channel: wire.Quotes, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Delay: 2}}, {Channel: wire.Summary, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Delay: 2}}}, subscription.Options{})
			for isEarly() {
				streamtest.Turn(r.Shard)
				if got := c.Read(1<<20, false); len(got) > 0 {
					if isEarly() {
						t.Fatalf("early: %+v", got[0])
					}
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			for until := time.Now().Add(10 * time.Second); !strings.Contains(string(state), "777") || !strings.Contains(string(state), "secret"); {
				if time.Now().After(until) {
					t.Fatalf("not reported in the end: %s", state)
				}
				time.Sleep(10 * time.Millisecond)
				state, _, _ = r.Hub.Snapshot(state[:0], wanted)
			}
			peek(r.Hub, streamtest.ID("A|M|CI"), func(in *hub.Instrument) {
				if n := in.AtDelay(2).Trades.Last; n != 3000 {
					t.Errorf("%d trades were published in the end", n)
				}
			})
		})
	}
}

// follower reads all messages of an instrument at a delay, over restarts.
type follower struct {
	t     *testing.T
	delay int
	c     *streamtest.Client
	seen  [wire.NumChannels]uint64
	texts map[string]string // by type, interval and N
	when  map[string]time.Time
}

func (f *follower) channels() []wire.Channel {
	return []wire.Channel{wire.Trades, wire.Status, wire.Summary, wire.Quotes, wire.BarsOf(market.Second), wire.BarsOf(market.Minute)}
}

func (f *follower) join(r *streamtest.Restarted) {
	f.c = streamtest.NewClient(f.t, r.Shard)
	for _, c := range f.channels() {
		resume := &wire.Resume{Epoch: r.Hub.Epoch()}
		resume.Seen[c] = map[string]uint64{"A|M|CI": f.seen[c]}
		out := f.c.Sub.Subscribe([]hub.Item{{Channel: c, ID: streamtest.ID("A|M|CI"), Tier: hub.Tier{Delay: f.delay}}}, subscription.Options{Resume: resume})
		for c := range out.Lost {
			if len(out.Lost[c]) > 0 {
				f.t.Errorf("delay %d, %v: %+v", f.delay, wire.Channel(c), out.Lost[c])
			}
		}
	}
}

func (f *follower) read() {
	for f.c.Sub.Pending() {
		b := f.c.Sub.Gather(nil, 1<<20, wire.JSON, false)
		for len(b) > 0 {
			size, head := int(b[1]), 2
			if size == 126 {
				size, head = int(b[2])<<8|int(b[3]), 4
			}
			f.take(b[head : head+size])
			b = b[head+size:]
		}
	}
}

func (f *follower) take(b []byte) {
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		f.t.Fatal(err)
	}
	n := uint64(m["N"].(float64))
	kind := m["type"].(string)
	state := kind != "K" && m["R"] == true // the R of a bar marks a revision
	c := map[string]wire.Channel{"T": wire.Trades, "X": wire.Trades, "C": wire.Trades, "H": wire.Status, "D": wire.Summary, "Q": wire.Quotes}[kind]
	if kind == "K" {
		i, _ := market.ParseInterval(m["IV"].(string))
		c = wire.BarsOf(i)
	}
	if c.Replays() && !state {
		if n != f.seen[c]+1 {
			f.t.Errorf("delay %d, %v: %d after %d: %s", f.delay, c, n, f.seen[c], b)
		}
		f.seen[c] = n
	}
	delete(m, "D")
	delete(m, "DE")
	if state {
		delete(m, "R")
	}
	text, _ := json.Marshal(m)
	key := fmt.Sprint(c, m["IV"], " ", n)
	if was, ok := f.texts[key]; ok {
		if was != string(text) && kind != "H" {
			f.t.Errorf("delay %d: %s\nwas %s", f.delay, text, was)
		}
		return
	}
	if state && kind == "H" {
		return
	}
	f.texts[key], f.when[key] = string(text), time.Now()
}

// TestDelayedGoOnAfterRestart checks restarts while delayed messages are in flight. The delayed
// client receives the messages of the live client with the same numbers, also bars and summaries,
// and never early.
func TestDelayedGoOnAfterRestart(t *testing.T) {
	for seed := range uint64(streamtest.Soak(80)) {
		folder := t.TempDir()
		synctest.Test(t, func(t *testing.T) { goOn(t, folder, seed) })
	}
}

func goOn(t *testing.T, folder string, seed uint64) {
	const delay = 90
	rng := rand.New(rand.NewPCG(seed, 5))
	cfg := hub.Config{Delays: []time.Duration{delay * time.Second}, TradesKept: 5 + int(seed)*40}
	r := streamtest.Restart(t, folder, cfg)
	hd := streamtest.Define(t, r.Hub, "A|M|CI", streamtest.OwnQuotes)
	make := func(delay int) *follower {
		return &follower{t: t, delay: delay, texts: map[string]string{}, when: map[string]time.Time{}}
	}
	live, late := make(0), make(delay)
	live.join(r)
	late.join(r)
	read := func() {
		synctest.Wait()
		for range 3 {
			streamtest.Turn(r.Shard)
			live.read()
			late.read()
			synctest.Wait()
		}
	}
	for i := range 600 {
		e := streamtest.Trade(hd, i)
		e.Price = market.Price(100+rng.IntN(30)) * market.Scale
		switch rng.IntN(12) {
		case 0:
			e = market.Event{Kind: market.KindReference, Handle: hd, PreviousClose: market.Price(80+rng.IntN(9)) * market.Scale, Settlement: 95 * market.Scale}
		case 1:
			e = market.Event{Kind: market.KindStatus, Handle: hd, Phase: market.Open + market.Phase(rng.IntN(2)), Reason: "why"}
		case 2, 3:
			e = market.Event{Kind: market.KindQuote, Handle: hd, Bids: []market.Level{streamtest.Level(90+int64(rng.IntN(3)), 1)}, Asks: []market.Level{streamtest.Level(120, 1)}}
		case 4:
			e.Kind, e.TradeID = market.KindCancel, fmt.Sprint(rng.IntN(i+1))
		}
		e.Time = time.Now().UnixNano()
		streamtest.Publish(t, r.Hub, e)
		time.Sleep(time.Duration(rng.IntN(1500)) * time.Millisecond)
		read()
		if rng.IntN(120) == 0 {
			r.Leave()
			time.Sleep(time.Duration(rng.IntN(100)) * time.Second)
			r = streamtest.Restart(t, folder, cfg)
			hd = streamtest.Define(t, r.Hub, "A|M|CI", streamtest.OwnQuotes)
			live.join(r)
			late.join(r)
			read()
		}
	}
	for range 180 {
		time.Sleep(time.Second)
		read()
	}
	r.Leave()
	for key, text := range live.texts {
		got, ok := late.texts[key]
		switch {
		case !ok && !strings.HasPrefix(key, "quotes") && !strings.HasPrefix(key, "summary"): // due without a client
			t.Errorf("%s was not told late: %s", key, text)
		case key == fmt.Sprint(wire.Status, nil, " 1"): // of the listing, which the replica makes later
		case ok && got != text:
			t.Errorf("%s\nlive %s\nlate %s", key, text, got)
		case ok && late.when[key].Sub(live.when[key]) < (delay-2)*time.Second: // the live client may read 2 s late
			t.Errorf("%s is early by %v: %s", key, delay*time.Second-late.when[key].Sub(live.when[key]), text)
		}
	}
	last := fmt.Sprint(wire.Summary, nil, " ", lookup(r.Hub, streamtest.ID("A|M|CI")).Sequences[wire.Summary].N)
	if live.texts[last] == "" || live.texts[last] != late.texts[last] {
		t.Errorf("the last summary is\nlive %s\nlate %s", live.texts[last], late.texts[last])
	}
	if len(late.texts) < 500 {
		t.Errorf("%d messages", len(late.texts))
	}
}
