package bars

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ruedahq/rueda/market"
)

// model is a series and all its trades, with the last message of each bar.
type model struct {
	t      *testing.T
	series Series
	clock  *Clock
	deals  []Trade
	sent   map[string]Bar
	kept   int
	now    int64
}

func newModel(t *testing.T, zone *time.Location) *model {
	m := &model{t: t, clock: NewClock(zone, false), sent: map[string]Bar{}, now: 1_700_000_000e9}
	m.series.Owner = m
	m.series.Enter(m.clock)
	return m
}

func barKey(i market.Interval, start int64) string { return fmt.Sprint(i, " ", start) }

// send compares a bar that is sent with all trades.
func (m *model) send(s *Series, b *Bar) {
	m.t.Helper()
	if s.Owner != m {
		m.t.Fatal("another's bar")
	}
	key := barKey(b.Interval, b.Start)
	if _, was := m.sent[key]; was != b.Revised {
		m.t.Fatalf("%s: told before %v, revised %v", key, was, b.Revised)
	}
	if b.End > m.now {
		m.t.Fatalf("%s is told at %d", key, m.now)
	}
	m.sent[key] = *b
	if want := m.count(b.Start, b.End); b.Totals != want {
		m.t.Fatalf("%s\n got %+v\nwant %+v", key, b.Totals, want)
	}
}

func (m *model) count(start, end int64) (t Totals) {
	for _, d := range m.deals {
		if d.Size > 0 && d.At >= start && d.At < end {
			t.Add(d.At, d.Price, d.Size)
		}
	}
	return t
}

func (m *model) closeDue() {
	if next := m.clock.Next(); next != 0 && next <= m.now {
		m.clock.Close(m.now, m.send)
	}
}

func (m *model) trade(at int64, price market.Price, size market.Size) {
	if !m.clock.Counts(at, m.now) {
		return
	}
	n := uint64(len(m.deals) + 1)
	d := Trade{N: n, ID: n, At: at, Price: price, Size: size}
	m.deals = append(m.deals, d)
	m.kept += m.series.Trade(d, false, m.send)
}

func (m *model) amend(n uint64, price market.Price, size market.Size) {
	d := m.series.Find(n)
	if d == nil || !m.clock.Counts(d.At, m.now) || m.deals[n-1].Size == 0 {
		return
	}
	m.deals[n-1].Price, m.deals[n-1].Size = price, size
	if !m.series.Amend(d, price, size, m.send) {
		m.t.Fatalf("trade %d of %d was not amended", n, len(m.deals))
	}
}

// TestModel has random trades, late ones, cancellations and corrections over days. It compares
// every bar, when it is sent, with a count of all trades.
func TestModel(t *testing.T) {
	zone, err := time.LoadLocation("Asia/Kolkata")
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(30) {
		m := newModel(t, zone)
		rng := rand.New(rand.NewPCG(seed, 5))
		for range 400 {
			switch rng.IntN(12) {
			case 0:
				m.now += rng.Int64N(int64(3 * time.Hour))
			case 1, 2, 3:
				m.now += rng.Int64N(int64(2 * time.Minute))
			default:
				m.now += rng.Int64N(int64(time.Second))
			}
			m.closeDue()
			price, size := market.Price(rng.Int64N(9)-2), market.Size(1+rng.Int64N(5))
			switch n := len(m.deals); {
			case n > 0 && rng.IntN(6) == 0:
				m.amend(uint64(n-rng.IntN(min(n, 60))), price, size*market.Size(rng.IntN(2)))
			case rng.IntN(6) == 0:
				m.trade(m.now-rng.Int64N(int64(40*time.Minute)), price, size)
			case rng.IntN(20) == 0:
				m.trade(m.now+rng.Int64N(int64(3*time.Second)), price, size)
			default:
				m.trade(m.now, price, size)
			}
			start, end := m.clock.Bounds(market.Day, m.now)
			if got, want := m.series.Day(start, end), m.count(start, end); got != want {
				t.Fatalf("seed %d: the day\n got %+v\nwant %+v", seed, got, want)
			}
		}
		m.now += int64(48 * time.Hour)
		m.closeDue()
		if m.clock.Next() != 0 {
			t.Errorf("seed %d: a bar is open still", seed)
		}
		for i := range market.NumIntervals {
			for _, d := range m.deals {
				start, end := m.clock.Bounds(i, d.At)
				if m.sent[barKey(i, start)].Totals != m.count(start, end) {
					t.Fatalf("seed %d: a bar of %s is not what it was told", seed, i)
				}
			}
		}
		if m.kept != m.series.trades.len() {
			t.Errorf("seed %d: %d deals told, %d kept", seed, m.kept, m.series.trades.len())
		}
	}
}

// TestWindow checks that the bars of a day can be revised for an hour after it, and are not kept
// longer.
func TestWindow(t *testing.T) {
	m := newModel(t, time.UTC)
	day, next := m.clock.Bounds(market.Day, m.now)
	m.trade(day+1, 5, 1)
	m.trade(next-1, 6, 1)
	m.now = next + int64(time.Hour) - 1
	m.closeDue()
	m.amend(1, 7, 1)
	if m.sent[barKey(market.Day, day)].First != 7 {
		t.Error("not revised within the hour")
	}
	if p, ok := m.series.LastBefore(next); !ok || p != 6 {
		t.Errorf("the day ended at %v %v", p, ok)
	}
	m.now++
	m.closeDue()
	if m.clock.Counts(next-1, m.now) || !m.clock.Counts(next, m.now) || m.clock.Counts(m.now+int64(25*time.Hour), m.now) {
		t.Error("another day counts")
	}
	for k := range int64(4) {
		m.trade(m.now+k*int64(time.Hour), 8, 1)
	}
	if n := len(m.series.lists[market.Minute]); n != 3 { // the last one is open
		t.Errorf("%d minutes are kept", n)
	}
}

// TestClockSetBack checks a clock that was hours ahead: bars are sent when they end, and one that
// was sent too early is revised when it ends.
func TestClockSetBack(t *testing.T) {
	m := newModel(t, time.UTC)
	begin, _ := m.clock.Bounds(market.Day, m.now)
	m.now = begin
	m.trade(m.now, 5, 1)
	m.now += int64(5 * time.Hour)
	m.closeDue()
	m.trade(m.now, 9, 1)
	early := len(m.sent)
	m.now = begin + int64(time.Second)
	m.trade(m.now, 6, 1)
	if len(m.sent) != early {
		t.Fatalf("%d bars are told before their time", len(m.sent)-early)
	}
	m.now = begin + int64(time.Minute)
	m.closeDue()
	if b := m.sent[barKey(market.Minute, begin)]; !b.Revised || b.Trades != 2 {
		t.Errorf("the minute: %+v", b)
	}
	if b := m.sent[barKey(market.Second, begin+int64(time.Second))]; b.Revised || b.Trades != 1 {
		t.Errorf("the second: %+v", b)
	}
	m.now = begin + int64(48*time.Hour)
	m.closeDue()
	for i := range market.NumIntervals {
		start, end := m.clock.Bounds(i, begin)
		if m.sent[barKey(i, start)].Totals != m.count(start, end) {
			t.Errorf("the bar of %s is not what it was told", i)
		}
	}
}

// TestRecall marks bars as sent before a restart. The others are sent at the next pass, once.
func TestRecall(t *testing.T) {
	m := newModel(t, time.UTC)
	begin, _ := m.clock.Bounds(market.Hour, m.now)
	for k := range int64(10) {
		m.trade(begin+k*int64(time.Second), market.Price(k), 1)
	}
	for k := range int64(6) {
		m.series.MarkSent(market.Second, begin+k*int64(time.Second))
		m.sent[barKey(market.Second, begin+k*int64(time.Second))] = Bar{}
	}
	m.series.DropSeconds()
	m.now = begin + int64(2*time.Minute)
	m.closeDue()
	if len(m.sent) != 10+1 {
		t.Errorf("%d bars", len(m.sent))
	}
	m.trade(begin+1, 50, 1) // late, for a bar that was sent before
	if b := m.sent[barKey(market.Second, begin)]; !b.Revised || b.High != 50 {
		t.Errorf("%+v", b)
	}
}

// TestRestart checks that open bars are sent and that the series is then empty.
func TestRestart(t *testing.T) {
	m := newModel(t, time.UTC)
	for k := range int64(600) {
		m.trade(m.now+k, 1, 1)
	}
	sent := 0
	end := m.now + int64(48*time.Hour)
	m.now = end
	if n := m.series.Restart(m.clock.Like(), func(*Series, *Bar) { sent++ }); n != 600 || sent != int(market.NumIntervals) {
		t.Errorf("%d deals and %d bars", n, sent)
	}
	if m.series.Find(3) != nil || m.series.Clock().Next() != 0 || m.series.Owner != m {
		t.Error("something is left")
	}
	m.clock.Close(end, func(*Series, *Bar) { t.Error("by a clock that it left") })
}
