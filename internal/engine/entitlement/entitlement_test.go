package entitlement

import (
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// TestDelay counts the entitlements that hold at the moment asked for, and no others.
func TestDelay(t *testing.T) {
	now := time.Now()
	s := Set{
		{Market: "M", Trades: true, Delay: 900},
		{Market: "M", Trades: true, Until: now.Add(-time.Second)},
		{Market: "M", Quotes: true, From: now.Add(time.Hour)},
		{Market: "*", Depth: 5, From: now.Add(-time.Hour), Until: now.Add(time.Hour)},
		{Market: "N", Quotes: true, From: now.Add(-2 * time.Hour), Until: now.Add(-time.Hour)},
	}
	for _, c := range []struct {
		market  string
		channel wire.Channel
		depth   int
		at      time.Time
		delay   int
		ok      bool
	}{
		{"M", wire.Trades, 0, now, 900, true},
		{"M", wire.Trades, 0, now.Add(-time.Minute), 0, true},
		{"M", wire.Summary, 0, now, 900, true},
		{"M", wire.Quotes, 0, now, 0, false},
		{"M", wire.Quotes, 0, now.Add(time.Hour), 0, true},
		{"M", wire.OrderBook, 5, now, 0, true},
		{"M", wire.OrderBook, 10, now, 0, false},
		{"M", wire.OrderBook, 0, now, 0, false},
		{"M", wire.Status, 0, now, 0, true},
		{"M", wire.Status, 0, now.Add(time.Hour), 0, true},
		{"M", wire.Status, 0, now.Add(-90 * time.Minute), 0, true}, // by the trades that have ended since
		{"N", wire.Trades, 0, now, 0, false},
		{"N", wire.Quotes, 0, now, 0, false},
		{"N", wire.OrderBook, 10, now, 0, false},
		{"N", wire.Status, 0, now.Add(2 * time.Hour), 0, false},
		{"*", wire.Trades, 0, now, 0, false},
		{"*", wire.OrderBook, 1, now, 0, true},
	} {
		if delay, ok := s.Delay(c.market, c.channel, c.depth, c.at); delay != c.delay || ok != c.ok {
			t.Errorf("%s %v %d at %v: %d, %v", c.market, c.channel, c.depth, c.at.Sub(now), delay, ok)
		}
	}
	if got := s.Next(now); !got.Equal(now.Add(time.Hour)) {
		t.Errorf("next change in %v", got.Sub(now))
	}
	if got := s.Deepest(now); got != 5 {
		t.Errorf("deepest book %d", got)
	}
	s = append(s, broker.Entitlement{Market: "Z", Depth: -1})
	if got := s.Deepest(now); got != -1 {
		t.Errorf("deepest book %d, want all levels", got)
	}
}

// TestQuota uses the entitlement with the shortest delay that has quota left, and counts an
// instrument once.
func TestQuota(t *testing.T) {
	id := func(s string) market.InstrumentID {
		id, err := market.ParsePattern(s)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	set := Set{
		{Market: "M", Trades: true, Quotes: true, Instruments: 1},
		{Market: "M", Trades: true, Delay: 900, Instruments: -1},
	}
	quota, first, second := set.Quota(time.Now()), &set[0], &set[1]
	for _, c := range []struct {
		id      string
		channel wire.Channel
		delay   int
		right   *broker.Entitlement
		full    *broker.Entitlement
	}{
		{"A|M|CI", wire.Trades, AnyDelay, first, nil},
		{"A|M|CI", wire.Quotes, AnyDelay, first, nil},
		{"B|M|CI", wire.Trades, AnyDelay, second, first},
		{"B|M|CI", wire.Trades, 0, nil, first},
		{"B|M|CI", wire.Quotes, AnyDelay, nil, first},
		{"*|M|CI", wire.Trades, AnyDelay, second, first},
		{"A|N|CI", wire.Trades, AnyDelay, nil, nil},
	} {
		m := quota.Find(id(c.id), c.channel, 0, c.delay)
		if m.Right != c.right || m.Full != c.full {
			t.Errorf("%s %v: %+v", c.id, c.channel, m)
		}
		if m.Right != nil {
			quota.Use(m.Right, id(c.id))
		}
	}
}

// TestHash checks that rights have the same hash while they give the same delays, and others have
// another one.
func TestHash(t *testing.T) {
	now := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	all := Set{{Market: "*", Trades: true, Delay: 900}, {Market: "BYMA", Trades: true, From: now.Add(time.Hour)}}
	read := []string{"market:read"}
	first := all.Hash(read, now)
	if first == 0 || first>>32 != 0 {
		t.Fatalf("hash %d", first)
	}
	for what, x := range map[string]struct {
		hash uint64
		same bool
	}{
		"a minute later":          {all.Hash(read, now.Add(time.Minute)), true},
		"a right that ended":      {append(slices.Clone(all), broker.Entitlement{Market: "M", Quotes: true, Until: now}).Hash(read, now), true},
		"a right that has begun":  {all.Hash(read, now.Add(time.Hour)), false},
		"another delay":           {Set{{Market: "*", Trades: true, Delay: 60}}.Hash(read, now), false},
		"another scope":           {all.Hash([]string{"market:read", "admin"}, now), false},
		"a number of instruments": {append(slices.Clone(all), broker.Entitlement{Market: "M", Instruments: 1}).Hash(read, now), false},
	} {
		if (x.hash == first) != x.same {
			t.Errorf("%s: hash %d after %d", what, x.hash, first)
		}
	}
	if x := (Set{{Market: "M", Trades: true, Instruments: 1}}).Hash(read, now); x != 0 {
		t.Errorf("hash %d of rights that depend on the subscriptions", x)
	}
}
