package entitlement

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// memory is a DailyStore.
type memory struct {
	rows  []Counted
	reads int
}

func (m *memory) Count(c Counted) { m.rows = append(m.rows, c) }

func (m *memory) Counted(user, day string) (list []Counted) {
	m.reads++
	for _, c := range m.rows {
		if c.User == user && c.Day == day {
			list = append(list, c)
		}
	}
	return list
}

// requests counts how many of n instruments a user gets, from a number on.
func requests(d *Daily, user string, rights Set, now time.Time, from, n int) (allowed int) {
	for i := from; i < from+n; i++ {
		id := market.InstrumentID{Symbol: fmt.Sprint("S", i), Market: "M", Term: "CI"}
		if v := d.Evaluate(user, rights, []string{broker.ScopeRead}, Ask{ID: id, Channel: wire.Trades}, now); v.Reason == "" {
			allowed++
		}
	}
	return allowed
}

// TestThreat23DailyQuota checks that a right to 3 instruments is to 3 different ones on a UTC day.
// That holds after a restart, on another gateway of the database, after the rights were listed in
// another order, and with another limit.
func TestThreat23DailyQuota(t *testing.T) {
	now := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	right := broker.Entitlement{Market: "M", Trades: true, Instruments: 3}
	other := broker.Entitlement{Market: "OTHER", Trades: true, Instruments: 3}
	rights := Set{right, other}
	m := &memory{}
	d, second := NewDaily(m), NewDaily(m)
	check := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %d instruments, want %d", what, got, want)
		}
	}
	check("the other gateway, before", requests(second, "u", rights, now, 0, 1), 1)
	check("at first", requests(d, "u", rights, now, 0, 5), 3)
	check("again", requests(d, "u", rights, now, 0, 3), 3)
	check("after a restart", requests(NewDaily(m), "u", rights, now, 2, 5), 1)
	check("in another order", requests(NewDaily(m), "u", Set{other, right}, now, 3, 5), 0)
	check("the other gateway, a minute later", requests(second, "u", rights, now.Add(countedFor), 3, 5), 0)
	right.Instruments = 5
	check("with a higher limit", requests(d, "u", Set{right}, now, 3, 5), 2)
	check("another user", requests(d, "v", rights, now, 3, 5), 3)
	check("the next day", requests(d, "u", rights, now.Add(time.Hour), 3, 5), 3)
	if !slices.ContainsFunc(m.rows, func(c Counted) bool { return c.Day == "2026-11-21" && c.Instrument == "S3|M|CI" }) {
		t.Errorf("stored %+v", m.rows)
	}
	m.reads = 0
	requests(d, "u", rights, now.Add(time.Hour), 3, 100)
	check("reads", m.reads, 0)
}

// TestDailyIsBounded checks that the memory of a Daily does not grow with the users, and that no
// count is lost for that.
func TestDailyIsBounded(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	rights := Set{{Market: "M", Trades: true, Instruments: 2}}
	d := NewDaily(&memory{})
	d.most = 100
	for i := range 20 * d.most {
		if n := requests(d, fmt.Sprint("u", i), rights, now, 0, 3); n != 2 {
			t.Errorf("user %d: %d instruments", i, n)
		}
		if len(d.users) > d.most/3+1 || d.counted > d.most+3 {
			t.Fatalf("%d users, %d counted", len(d.users), d.counted)
		}
	}
	if n := requests(d, "u0", rights, now, 2, 2); n != 0 {
		t.Errorf("allowed %d more after the memory was full", n)
	}
}
