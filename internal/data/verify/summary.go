package verify

import (
	"fmt"
	"math"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// summaryLog compares each summary with the one before and the trades in between. The difference of
// their totals is the total of some trades that follow each other, and the last of these has the
// summary's time. Which trades they are must be searched, because the two channels come in either
// order.
//
// A cancel, a correction or a late trade may belong to another day, and then changes nothing.
type summaryLog struct {
	steps   []step // after each row of trades; the first is the state before them
	last    *anchor
	wrong   *anchor // the summary after last that does not follow from it
	pending []anchor
	tried   int   // steps that the first pending one was compared with
	bad     int   // summaries that were wrong
	from    int64 // summaries up to this time are not judged, because their trades were dropped
}

// step has the totals of the trades up to a row.
type step struct {
	time     int64
	received arrival
	price    market.Price
	plain    bool   // the row is a trade, and not late
	all, own totals // own: of plain rows
	n        uint64 // of the row
}

type totals struct {
	count         int64
	volume, value market.Sum
}

// anchor is a summary, and the step that it follows.
type anchor struct {
	position Position
	received arrival
	figures  wire.Figures
	average  market.Price
	totals   totals
	at       int // index of its step; -1: unknown
}

const (
	maxSteps     = 1 << 14 // more than a server lets wait for a slow client
	keptSteps    = 256     // before the step of the newest summary
	maxSummaries = 1 << 12
	maxTries     = 1 << 14 // of pairs of steps for a summary
	maxBad       = 1000    // summaries of an instrument that are worth the search
)

func (t totals) add(count int64, volume, value market.Sum) totals {
	return totals{t.count + count, t.volume.Add(volume), t.value.Add(value)}
}

func (t totals) minus(x totals) totals {
	return t.add(-x.count, x.volume.Negative(), x.value.Negative())
}

// equals reports whether totals are equal except for the rounding of numbers on the wire, of which
// size has the magnitude.
func (t totals) equals(x, size totals) bool {
	near := func(a, b, size market.Sum) bool {
		d := a.Add(b.Negative())
		return d == market.Sum{} || math.Abs(float(d)) <= 4e-15*math.Abs(float(size))+2
	}
	return t.count == x.count && near(t.volume, x.volume, size.volume) && near(t.value, x.value, size.value)
}

func float(s market.Sum) float64 { return float64(int64(s.Hi))*(1<<64) + float64(s.Lo) }

// reset forgets all summaries and trades, because trades may be missing between them. Pending
// summaries count as unjudged.
func (s *summaryLog) reset(in *instrument) {
	in.v.checks[Summary].Unjudged += uint64(len(s.pending))
	*s = summaryLog{bad: s.bad}
}

// overflow forgets all summaries and trades, because too many wait. Summaries up to newest are then
// not judged.
func (s *summaryLog) overflow(in *instrument, newest int64) {
	from := max(s.from, newest)
	s.reset(in)
	s.from = from
}

// trade adds a row of trades.
func (s *summaryLog) trade(in *instrument, p Position, t *wire.Trade) {
	if !in.v.has("summary") || in.v.config.Ordered || s.bad > maxBad {
		return
	}
	s.cut(in)
	if len(s.steps) == 0 {
		s.steps = append(s.steps, step{time: math.MinInt64})
	}
	before := &s.steps[len(s.steps)-1]
	x := step{time: p.Time, received: in.v.now, price: t.Price, all: before.all, own: before.own, n: p.N}
	volume, value := t.Size.Sum(), t.Price.Times(t.Size)
	switch t.Kind {
	case market.KindCancel:
		x.all = x.all.add(-1, volume.Negative(), value.Negative())
	case market.KindCorrect:
		x.all = x.all.add(0, volume.Add(t.OldSize.Sum().Negative()), value.Add(t.OldPrice.Times(t.OldSize).Negative()))
	default:
		x.all = x.all.add(1, volume, value)
		if x.plain = p.Time >= in.trades.time; x.plain {
			x.own = x.own.add(1, volume, value)
		}
	}
	s.steps = append(s.steps, x)
	s.judge(in)
}

// cut drops old steps.
func (s *summaryLog) cut(in *instrument) {
	n := 0
	switch {
	case s.last != nil && s.last.at > 2*keptSteps:
		n = s.last.at - keptSteps
	case len(s.steps) >= maxSteps:
		s.followed(in, maxSteps)
		s.overflow(in, s.steps[maxSteps-1].time)
		return
	default:
		return
	}
	s.steps, s.tried = append(s.steps[:0], s.steps[n:]...), 0
	for _, a := range [...]*anchor{s.last, s.wrong} {
		if a != nil {
			a.at = max(-1, a.at-n)
		}
	}
}

// summary receives a summary.
func (s *summaryLog) summary(in *instrument, p Position, m *stream.Message) {
	f := &m.Figures
	a := anchor{position: p, received: in.v.now, figures: *f, average: m.Average, at: -1, totals: totals{int64(f.Trades), f.Volume, f.Value}}
	if text := a.inconsistent(); text != "" {
		in.v.judged(Summary)
		in.v.wrong(Summary, in, p, "%s", text)
		return
	}
	switch {
	case s.bad > maxBad || !in.v.has("trades") || in.v.partial["trades"] || in.v.conflated || in.v.resuming():
		s.reset(in)
		in.v.unjudged(Summary)
	case m.Snapshot:
		s.reset(in)
		s.last = &a
	case len(s.pending) >= maxSummaries:
		s.overflow(in, p.Time)
	case p.Time <= s.from:
		in.v.unjudged(Summary)
	default:
		s.pending = append(s.pending, a)
		s.judge(in)
	}
}

// inconsistent returns what is wrong with a summary by itself, "" if nothing.
func (a *anchor) inconsistent() string {
	f := &a.figures
	if f.Trades == 0 {
		return ""
	}
	average := string(market.AppendAverage(nil, f.Value, f.Volume))
	switch {
	case f.High < f.Low:
		return fmt.Sprintf("HI is %s, and LO %s", f.High, f.Low)
	case f.Open < f.Low || f.Open > f.High:
		return fmt.Sprintf("OP is %s, and not from LO to HI: %s to %s", f.Open, f.Low, f.High)
	case f.Last < f.Low || f.Last > f.High:
		return fmt.Sprintf("LA is %s, and not from LO to HI: %s to %s", f.Last, f.Low, f.High)
	case a.average != 0 && a.average.String() != average && !near(a.average.String(), average):
		return fmt.Sprintf("VW is %s, and not %s", a.average, average)
	}
	return ""
}

// judge judges the summaries that follow from the one before, and those that have waited.
func (s *summaryLog) judge(in *instrument) {
	n := 0
	for ; n < len(s.pending); n++ {
		a := &s.pending[n]
		waited := in.v.waited(a.received)
		switch text, ok := s.follows(a, waited); {
		case ok && text == "":
			in.v.judged(Summary)
		case !waited:
			s.pending, s.tried = append(s.pending[:0], s.pending[n:]...), len(s.steps)
			return
		default:
			s.bad++
			in.v.judged(Summary)
			in.v.wrong(Summary, in, a.position, "%s", text)
			if !ok {
				s.mistrust(a)
				s.tried = 0
				continue
			}
		}
		next := *a
		s.last, s.wrong, s.tried = &next, nil, 0
	}
	s.pending = s.pending[:0]
}

// mistrust keeps a summary that does not follow from the one before. The next one is compared with
// both of them.
func (s *summaryLog) mistrust(a *anchor) {
	if next := *a; s.last == nil {
		s.last = &next
	} else {
		s.wrong = &next
	}
}

// follows reports whether the totals of a follow from those of the newest summary and the trades
// since. If ok is true, a.at is the step of the last of these trades, and text names a price of a
// that is wrong, or is "". If ok is false, text says which totals do not follow. If all is false,
// follows tries only the likely trades.
func (s *summaryLog) follows(a *anchor, all bool) (text string, ok bool) {
	if s.last == nil {
		return "", true // the first one
	}
	if text, ok := s.followsFrom(s.last, a, all); ok {
		return text, true
	}
	if s.wrong != nil && all {
		if text, ok := s.followsFrom(s.wrong, a, all); ok {
			return text, true
		}
	}
	b := &s.last.figures
	f := &a.figures
	return fmt.Sprintf("TC, TV and EV are %d, %s and %s, which do not follow from %d, %s and %s of number %d and the trades since",
		f.Trades, f.Volume.Append(nil, market.SizeDecimals), f.Value.Append(nil, market.ValueDecimals),
		b.Trades, b.Volume.Append(nil, market.SizeDecimals), b.Value.Append(nil, market.ValueDecimals), s.last.position.N), false
}

// followsFrom finds the trades between two summaries.
func (s *summaryLog) followsFrom(b, a *anchor, all bool) (text string, ok bool) {
	if x, y := &a.figures, &b.figures; a.totals == b.totals && x.Last == y.Last && x.Open == y.Open && x.High == y.High && x.Low == y.Low {
		a.at = b.at // of reference figures, or of something that does not count
		return "", true
	}
	first := max(0, b.at+1)
	if !all {
		first = max(first, s.tried)
	}
	for j := first; j < len(s.steps) && b.at >= 0; j++ {
		if s.between(b, a, b.at, j) {
			a.at = j
			return s.prices(b, a, b.at, j), true
		}
	}
	if all {
		first = 0
	} else if b.at >= 0 {
		return "", false
	}
	tries := maxTries
	for j := first; j < len(s.steps); j++ {
		if s.steps[j].time != a.position.Time && a.figures.Trades > 0 {
			continue
		}
		for i := j; i >= 0 && i+keptSteps >= j && tries > 0; i-- {
			if tries--; s.between(b, a, i, j) {
				a.at = j
				return s.prices(b, a, i, j), true
			}
		}
	}
	return "", false
}

// between reports whether the trades after step i up to step j are those between two summaries, or
// those of a new day.
func (s *summaryLog) between(b, a *anchor, i, j int) bool {
	from, to := &s.steps[i], &s.steps[j]
	if i == j && a.figures.Trades > 0 || j > i && to.time != a.position.Time && a.position.N == b.position.N+1 {
		return false
	}
	if a.totals.equals(to.all.minus(from.all), a.totals) || a.totals.equals(to.own.minus(from.own), a.totals) {
		return true
	}
	since := a.totals.minus(b.totals)
	return since.equals(to.all.minus(from.all), a.totals) || since.equals(to.own.minus(from.own), a.totals)
}

// prices compares the prices of a summary with those of the one before and the trades after step i
// up to step j, if these are plain.
func (s *summaryLog) prices(b, a *anchor, i, j int) string {
	f, want := &a.figures, b.figures
	for k := i + 1; k <= j; k++ {
		x := &s.steps[k]
		if !x.plain {
			return ""
		}
		if want.Trades == 0 || int64(f.Trades) == int64(j-i) { // the first ones of a day
			if k == i+1 {
				want.Open, want.High, want.Low = x.price, x.price, x.price
			}
		}
		want.High, want.Low, want.Last = max(want.High, x.price), min(want.Low, x.price), x.price
	}
	for _, p := range [...]struct {
		word      string
		is, wants market.Price
	}{{"OP", f.Open, want.Open}, {"HI", f.High, want.High}, {"LO", f.Low, want.Low}, {"LA", f.Last, want.Last}} {
		if f.Trades > 0 && p.is != p.wants {
			return fmt.Sprintf("%s is %s, but %s by the summary before and the trades since", p.word, p.is, p.wants)
		}
	}
	return ""
}

// finish judges the pending summaries, counts those without a verdict as unjudged, and checks that
// the last trades have a summary.
func (s *summaryLog) finish(in *instrument) {
	s.judge(in)
	in.v.checks[Summary].Unjudged += uint64(len(s.pending))
	s.followed(in, len(s.steps))
}

// followed checks that a summary has come after the trades before step n.
func (s *summaryLog) followed(in *instrument, n int) {
	if s.last == nil || len(s.pending) > 0 || in.v.conflated {
		return
	}
	i := s.last.at + 1
	for i < n && s.last.at < 0 && (s.steps[i].time <= s.last.position.Time || s.steps[i].received.read <= s.last.received.read) {
		i++ // the summary may have it
	}
	if i >= n {
		return
	}
	if x := &s.steps[i]; x.plain && in.v.waited(x.received) {
		in.v.judged(Summary)
		in.v.wrong(Summary, in, Position{N: x.n, Time: x.time}, "no summary came after this trade")
	}
}
