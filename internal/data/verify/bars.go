package verify

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// intervals holds the words and the lengths of bars.
var intervals = [...]struct {
	word   string
	length int64
}{
	{"1s", int64(time.Second)}, {"1m", int64(time.Minute)}, {"5m", 5 * int64(time.Minute)},
	{"15m", 15 * int64(time.Minute)}, {"1h", int64(time.Hour)}, {"1d", 24 * int64(time.Hour)},
}

// barBook holds, of each interval, the sums of the newest bars and the times of the newest bars
// that came. It also holds the bars that cannot be judged yet: the trades of a bar come on another
// channel, and may come after it.
type barBook struct {
	sums    [len(intervals)][]sum
	came    [len(intervals)][]int64
	pending []pendingBar
}

type pendingBar struct {
	position Position
	received arrival
	interval int
	bar      wire.Bar
	average  market.Price // 0: none
	fault    string       // what is wrong about its place among the bars
}

// sum accumulates the trades of a bar.
type sum struct {
	start int64
	// a trade in it was cancelled or corrected, so it must be computed again
	stale                  bool
	first, high, low, last market.Price
	opened, closed         int64 // times of first and last
	volume, value          market.Sum
	trades                 uint64
}

const (
	keptSums       = 8
	keptCame       = 512
	maxPendingBars = 1024
)

// add counts a trade. Trades of one bar are added in order of N; first and last are determined by
// T.
func (s *sum) add(r *tradeRow) {
	if s.trades == 0 {
		s.high, s.low = r.price, r.price
	}
	if s.trades == 0 || r.time < s.opened {
		s.first, s.opened = r.price, r.time
	}
	if s.trades == 0 || r.time >= s.closed {
		s.last, s.closed = r.price, r.time
	}
	s.high, s.low = max(s.high, r.price), min(s.low, r.price)
	s.volume, s.value = s.volume.Add(r.size.Sum()), s.value.Add(r.price.Times(r.size))
	s.trades++
}

// floor returns the start of the bar that contains a time.
func floor(t, length int64) int64 {
	r := t % length
	if r < 0 {
		r += length
	}
	return t - r
}

// add counts a trade.
func (b *barBook) add(r *tradeRow) {
	for i := range intervals {
		start := floor(r.time, intervals[i].length)
		s := b.find(i, start)
		if s == nil {
			list := &b.sums[i]
			if len(*list) > 0 && (*list)[len(*list)-1].start > start {
				// late, for a bar that is no longer kept and will be computed from the trades
				continue
			}
			if len(*list) >= keptSums {
				*list = append((*list)[:0], (*list)[1:]...)
			}
			*list = append(*list, sum{start: start})
			s = &(*list)[len(*list)-1]
		}
		s.add(r)
	}
}

func (b *barBook) find(interval int, start int64) *sum {
	list := b.sums[interval]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].start == start {
			return &list[i]
		}
	}
	return nil
}

// changed marks the bars that contain a time as changed by a cancellation or correction.
func (b *barBook) changed(t int64) {
	for i := range intervals {
		if s := b.find(i, floor(t, intervals[i].length)); s != nil {
			s.stale = true
		}
	}
}

// postpone restarts the wait of the pending bars that contain a time: a trade in them was late or
// changed, so revisions will follow.
func (b *barBook) postpone(t int64, now arrival) {
	for i := range b.pending {
		if w := &b.pending[i]; t >= w.position.Time && t-w.position.Time < intervals[w.interval].length {
			w.received = now
		}
	}
}

// postponeAll restarts the wait of all pending bars, because their trades had not been replayed
// yet.
func (b *barBook) postponeAll(now arrival) {
	for i := range b.pending {
		b.pending[i].received = now
	}
}

// bar receives a bar. If the order between channels is not guaranteed, the bar waits for two
// seconds, and a revision replaces it. While a stream catches up, all bars wait.
func (in *instrument) bar(p Position, m *stream.Message) {
	i := int(m.Bar.Interval)
	g := &in.log
	w := pendingBar{p, in.v.now, i, m.Bar, m.Average, g.bars.place(g, p.Time, &m.Bar)}
	if !g.covered && !m.Bar.Revised && in.v.expects("trades") && !in.v.resuming() {
		// The trades of the bars after the next one are in the stream.
		g.covered, g.byBar, g.since = true, true, p.Time+2*intervals[i].length-1
	}
	if in.v.config.Ordered {
		g.judgeBar(in, &w)
		return
	}
	b := &g.bars
	for j := range b.pending {
		if x := &b.pending[j]; x.interval == i && x.position.Time == p.Time {
			w.fault = cmp.Or(x.fault, w.fault)
			*x = w
			return
		}
	}
	n := 0
	for ; n < len(b.pending); n++ {
		full := len(b.pending)-n >= maxPendingBars
		if !full && !in.v.waited(b.pending[n].received) {
			break
		}
		if in.v.resuming() {
			in.v.unjudged(Bars)
		} else {
			g.judgeBar(in, &b.pending[n])
		}
	}
	b.pending = append(append(b.pending[:0], b.pending[n:]...), w)
}

// place records that a bar came, and returns what is wrong about that, "" if nothing: a bar comes
// once, and revisions come after it.
func (b *barBook) place(g *tradeLog, start int64, bar *wire.Bar) string {
	i := bar.Interval
	length, list := intervals[i].length, b.came[i]
	if bar.Interval != market.Day && start%length != 0 {
		return "T is not a multiple of the interval"
	}
	if n := len(list); n == 0 || !slices.Contains(list, start) {
		if n >= keptCame {
			list = append(list[:0], list[n/2:]...)
		}
		b.came[i] = append(list, start)
		if bar.Revised && g.covered && start > g.since && (n == 0 || start > list[0]) {
			return "R is true, but no bar of this time came before"
		}
		return ""
	}
	if !bar.Revised {
		return "a bar of this time came before, but R is false"
	}
	return ""
}

// judgeBar compares a bar with the trades of its time.
func (g *tradeLog) judgeBar(in *instrument, w *pendingBar) {
	start, length := w.position.Time, intervals[w.interval].length
	if w.fault != "" {
		in.v.wrong(Bars, in, w.position, "%s bar: %s", intervals[w.interval].word, w.fault)
	}
	if !g.covered || g.hasGap || start <= g.since {
		in.v.unjudged(Bars)
		return
	}
	in.v.judged(Bars)
	s := g.bars.find(w.interval, start)
	if s == nil || s.stale {
		s = g.sum(start, start+length)
	}
	if text := s.differs(w); text != "" {
		in.v.wrong(Bars, in, w.position, "%s bar: %s", intervals[w.interval].word, text)
	}
}

// sum adds up the trades in a time range.
func (g *tradeLog) sum(from, to int64) *sum {
	s := &sum{start: from}
	for i := range g.rows {
		if r := &g.rows[i]; r.state == counts && r.time >= from && r.time < to {
			s.add(r)
		}
	}
	return s
}

// differs returns how a bar differs from the sum of its trades, "" if it does not.
func (s *sum) differs(w *pendingBar) string {
	b := &w.bar
	var list []string
	if s.trades != uint64(b.Trades) {
		list = append(list, fmt.Sprintf("TC is %d, but there are %d trades", b.Trades, s.trades))
	}
	for _, p := range [...]struct {
		word      string
		bar, sums market.Price
	}{{"OP", b.Open, s.first}, {"HI", b.High, s.high}, {"LO", b.Low, s.low}, {"CL", b.Close, s.last}} {
		if s.trades > 0 && p.bar != p.sums {
			list = append(list, fmt.Sprintf("%s is %s, but %s by the trades", p.word, p.bar, p.sums))
		}
	}
	for _, p := range [...]struct{ word, bar, sums string }{
		{"TV", string(b.Volume.Append(nil, market.SizeDecimals)), string(s.volume.Append(nil, market.SizeDecimals))},
		{"EV", string(b.Value.Append(nil, market.ValueDecimals)), string(s.value.Append(nil, market.ValueDecimals))},
		{"VW", w.average.String(), s.average()},
	} {
		if s.trades > 0 && p.bar != "0" && p.bar != p.sums && !near(p.bar, p.sums) {
			list = append(list, fmt.Sprintf("%s is %s, but %s by the trades", p.word, p.bar, p.sums))
		}
	}
	return strings.Join(list, "; ")
}

func (s *sum) average() string {
	if s.trades == 0 {
		return "0"
	}
	return string(market.AppendAverage(nil, s.value, s.volume))
}

// near reports whether two numbers as written are equal except for rounding: the wire has 15 digits
// and 8 decimals.
func near(a, b string) bool {
	x, ok1 := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	if !ok1 || !ok2 {
		return false
	}
	most := new(big.Rat).Abs(y)
	most.Quo(most, new(big.Rat).SetInt64(1e14))
	off := x.Sub(x, y)
	return off.Abs(off).Cmp(most.Add(most, big.NewRat(2, market.Scale))) <= 0
}
