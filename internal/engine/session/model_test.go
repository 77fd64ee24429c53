package session_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/market"
)

// TestSubscriptionModel makes random requests to a session and to a set of strings, and compares
// the answers. After each request every instrument trades once. The client must receive exactly the
// trades that the set covers, once each.
func TestSubscriptionModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := newModel(t, rt)
		defer m.drive.sess.PeerGone()
		rt.Repeat(map[string]func(*rapid.T){
			"subscribe":     func(*rapid.T) { m.subscribe(false) },
			"replace":       func(*rapid.T) { m.subscribe(true) },
			"unsubscribe":   func(*rapid.T) { m.unsubscribe() },
			"subscriptions": func(*rapid.T) { m.check("subscriptions", m.list()) },
			"":              func(*rapid.T) { m.trade() },
		})
	})
}

const modelLimit = 7

var (
	modelListed = []string{"GGAL|BYMA|24hs", "GGAL|BYMA|CI", "AL30|BYMA|CI", "FAKE|SIM|CI", "INDEX|BYMA|CI"}
	modelNames  = append([]string{
		"*|BYMA|CI", "GGAL|*|*", "*|*|*", "*|SIM|*", // patterns
		"NOPE|BYMA|CI", "*|NONE|*", // well formed, not listed
		"GGAL", "G*|BYMA|CI", "", // no identifiers
	}, modelListed...)
	modelChannels = []string{"trades", "status"}
)

// entry is an identifier of a channel.
type entry struct{ channel, name string }

type model struct {
	rt      *rapid.T
	drive   *drive
	handles map[string]market.Handle
	set     map[entry]bool
	last    map[string]int // N of the last trade
}

func newModel(t *testing.T, rt *rapid.T) *model {
	d := newDrive(t, "")
	d.world.Env.Subscriptions = modelLimit
	d.world.Env.BadMessages = 1 << 20
	id, _ := d.world.Env.Verify(t.Context(), "demo")
	d.sess.PeerGone()
	d.sess = new(session.Session)
	d.sess.Start(d.world.Env, session.Peer{Identity: id}, d.shard, d, d.now)
	d.want("Success")
	m := &model{rt: rt, drive: d, handles: map[string]market.Handle{}, set: map[entry]bool{}, last: map[string]int{}}
	for _, name := range modelListed {
		exact, err := market.ParseInstrumentID(name)
		if err != nil {
			t.Fatal(err)
		}
		if m.handles[name], err = d.world.Hub.Define(market.Instrument{ID: exact}); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// draw returns the identifiers of a random request, by channel, with duplicates.
func (m *model) draw() (body string, list []entry) {
	for _, channel := range modelChannels {
		names := rapid.SliceOfN(rapid.SampledFrom(modelNames), 0, 4).Draw(m.rt, channel)
		text, _ := json.Marshal(names)
		body += fmt.Sprintf(`,%q:%s`, channel, text)
		for _, name := range names {
			if e := (entry{channel, name}); !slices.Contains(list, e) {
				list = append(list, e)
			}
		}
	}
	return body, list
}

func formed(name string) bool { _, err := market.ParsePattern(name); return err == nil }

func known(name string) bool {
	return formed(name) && !strings.HasPrefix(name, "NOPE|") && !strings.Contains(name, "|NONE|")
}

// answer has the members of an answer that the model compares.
type answer struct {
	Type     string
	Reason   string
	Trades   []string
	Status   []string
	Count    map[string]int
	Rejected []struct{ Channel, Instrument string }
}

// ask sends a request and returns its answer. It skips the snapshots that follow.
func (m *model) ask(body string) answer {
	m.drive.now = m.drive.now.Add(time.Second) // so that no rate limit is met
	m.drive.text(body)
	var a answer
	for i, text := range m.drive.take() {
		if i == 0 {
			if err := json.Unmarshal([]byte(text), &a); err != nil {
				m.rt.Fatal(err)
			}
		} else if !strings.Contains(text, `"R":true`) {
			m.rt.Fatalf("%s: unexpected %s", body, text)
		}
	}
	return a
}

func (m *model) subscribe(replace bool) {
	body, list := m.draw()
	body = fmt.Sprintf(`{"action":"subscribe","replace":%t%s}`, replace, body)
	var good, bad []entry
	total := 0
	if !replace {
		total = len(m.set)
	}
	for _, e := range list {
		if replace || !m.set[e] {
			total++
		}
		if known(e.name) {
			good = append(good, e)
		} else {
			bad = append(bad, e)
		}
	}
	a := m.ask(body)
	switch {
	case total > modelLimit:
		m.refused(body, a, "subscription_limit")
		return
	case len(good) == 0 && len(bad) > 0:
		m.refused(body, a, "")
		m.same(body, a, nil, bad)
		return
	}
	if replace {
		clear(m.set)
	}
	for _, e := range good {
		m.set[e] = true
	}
	m.same(body, a, good, bad)
	m.counts(body, a)
}

func (m *model) unsubscribe() {
	body, list := m.draw()
	body = `{"action":"unsubscribe"` + body + `}`
	var good, bad []entry
	for _, e := range list {
		switch {
		case !formed(e.name):
			bad = append(bad, e)
		case m.set[e]:
			good = append(good, e)
			delete(m.set, e)
		}
	}
	a := m.ask(body)
	if len(good) == 0 && len(bad) > 0 {
		m.refused(body, a, "bad_instrument")
	}
	m.same(body, a, good, bad)
}

func (m *model) refused(body string, a answer, reason string) {
	if a.Type != "Error" || reason != "" && a.Reason != reason {
		m.rt.Fatalf("%s: got %+v, want an Error %s", body, a, reason)
	}
}

// same compares the accepted and the rejected identifiers.
func (m *model) same(body string, a answer, good, bad []entry) {
	var taken, refused []entry
	for _, name := range a.Trades {
		taken = append(taken, entry{"trades", name})
	}
	for _, name := range a.Status {
		taken = append(taken, entry{"status", name})
	}
	for _, r := range a.Rejected {
		refused = append(refused, entry{r.Channel, r.Instrument})
	}
	if !slices.Equal(taken, good) || !slices.Equal(refused, bad) {
		m.rt.Fatalf("%s: took %v, refused %v; want %v and %v", body, taken, refused, good, bad)
	}
}

func (m *model) counts(body string, a answer) {
	for _, channel := range modelChannels {
		want := 0
		for _, name := range modelListed {
			if m.covers(channel, name) {
				want++
			}
		}
		if a.Count[channel] != want {
			m.rt.Fatalf("%s: %s counts %d, want %d", body, channel, a.Count[channel], want)
		}
	}
}

func (m *model) covers(channel, name string) bool {
	exact, _ := market.ParseInstrumentID(name)
	for e := range m.set {
		if p, err := market.ParsePattern(e.name); err == nil && e.channel == channel && p.Matches(exact) {
			return true
		}
	}
	return false
}

func (m *model) list() answer { return m.ask(`{"action":"subscriptions"}`) }

// check compares a listing with the whole set.
func (m *model) check(body string, a answer) {
	if len(a.Trades)+len(a.Status) != len(m.set) {
		m.rt.Fatalf("%s: got %v and %v, want %v", body, a.Trades, a.Status, m.set)
	}
	for _, name := range a.Trades {
		if !m.set[entry{"trades", name}] {
			m.rt.Fatalf("%s: %s is not in %v", body, name, m.set)
		}
	}
	m.counts(body, a)
}

// trade publishes one trade of every instrument.
func (m *model) trade() {
	want := map[string]bool{}
	for name, h := range m.handles {
		e := market.Event{Kind: market.KindTrade, Handle: h, Price: market.Scale, Size: market.Scale}
		if err := m.drive.world.Hub.Publish([]market.Event{e}); err != nil {
			m.rt.Fatal(err)
		}
		m.last[name]++
		if m.covers("trades", name) {
			want[name] = true
		}
	}
	m.drive.turn()
	for _, text := range m.drive.take() {
		var msg struct {
			Type, I string
			N       int
		}
		if err := json.Unmarshal([]byte(text), &msg); err != nil {
			m.rt.Fatal(err)
		}
		if msg.Type != "T" || !want[msg.I] || msg.N != m.last[msg.I] {
			m.rt.Fatalf("set %v: got %s, last are %v", m.set, text, m.last)
		}
		delete(want, msg.I)
	}
	if len(want) > 0 {
		m.rt.Fatalf("set %v: no trade of %v came", m.set, want)
	}
}
