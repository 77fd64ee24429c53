package bars

import (
	"slices"
	"sort"

	"github.com/ruedahq/rueda/market"
)

// Series holds the recent bars of an instrument, by interval. It must be attached to a Clock with
// Enter.
type Series struct {
	Owner any // for the use of the SendFunc

	clock  *Clock
	second Bar // the current second; it is not yet included in the lists
	lists  [market.NumIntervals][]Bar
	open   [market.NumIntervals]bool // the series is in the clock's list of the interval
	pass   uint32                    // number of the last pass that sent its bars
	trades tradeLog
	hours  bool // there is a new bar of an hour, so prune is due
	unsent bool // MarkChanged was called, so the next pass looks at every bar
}

// SendFunc sends a bar that has ended, or that changed after it was sent; Revised distinguishes the
// two. The bar is valid during the call.
type SendFunc func(*Series, *Bar)

// Clock returns the clock of the series.
func (s *Series) Clock() *Clock { return s.clock }

// Enter attaches the series to a clock.
func (s *Series) Enter(c *Clock) {
	s.clock, s.pass = c, c.pass-1
	clear(s.open[:])
	if s.second.Trades > 0 {
		c.addOpen(s, market.Second, s.second.End)
	}
	for i := range s.lists {
		for k := range s.lists[i] {
			if b := &s.lists[i][k]; b.End > c.ClosedUntil {
				c.addOpen(s, market.Interval(i), b.End)
			}
		}
	}
}

// Restart sends the open bars and clears the series. It returns the number of trades dropped.
func (s *Series) Restart(c *Clock, send SendFunc) (dropped int) {
	s.catchUp(send)
	s.Fold()
	for i := range s.lists {
		for k := range s.lists[i] {
			if b := &s.lists[i][k]; b.End > s.closedUntil() {
				s.send(b, send)
			}
		}
	}
	dropped = s.trades.len()
	*s = Series{Owner: s.Owner, clock: c, pass: c.pass - 1}
	return dropped
}

// Trade counts a trade. full means that there is no memory for more trades. kept is the change in
// the number of stored trades.
func (s *Series) Trade(d Trade, full bool, send SendFunc) (kept int) {
	s.catchUp(send)
	kept = s.trades.add(d, full)
	if s.hours {
		s.hours = false
		kept -= s.prune()
	}
	if b := &s.second; d.At >= b.Start && d.At < b.End {
		b.Add(d.At, d.Price, d.Size)
		return kept
	}
	const length = int64(1e9)
	start := d.At - d.At%length
	one := Bar{Start: start, End: start + length}
	one.Add(d.At, d.Price, d.Size)
	if start > s.second.Start && one.End > s.closedUntil() {
		s.Fold()
		s.second = one
		s.clock.addOpen(s, market.Second, one.End)
		return kept
	}
	s.put(&one)
	s.resend(d.At, true, send)
	return kept
}

// Find returns the newest trade with an id, or nil if it is not stored.
func (s *Series) Find(id uint64) *Trade { return s.trades.find(id) }

// Amend changes the price and size of a trade that Find returned; size 0 cancels it. It returns
// false, and changes nothing, if the trade was cancelled before or if not all trades around it are
// stored any more.
func (s *Series) Amend(d *Trade, price market.Price, size market.Size, send SendFunc) bool {
	s.catchUp(send)
	minute, _ := s.clock.Bounds(market.Minute, d.At)
	if d.Size <= 0 || minute < s.trades.complete {
		return false
	}
	switch {
	case size > 0:
		d.Price, d.Size = price, size
	case d.At-d.At%1e9+1e9 > s.closedUntil():
		d.Size = void
	default:
		d.Size = cancelled
	}
	s.Fold()
	s.recount(d.At)
	s.resend(d.At, false, send)
	return true
}

// Fold adds the current second to the longer bars.
func (s *Series) Fold() {
	if s.second.Trades > 0 {
		s.put(&s.second)
		s.second = Bar{}
	}
}

// put adds trades of one second to each of their bars.
func (s *Series) put(part *Bar) {
	for i := range market.NumIntervals {
		start, end := s.clock.Bounds(i, part.Start)
		b, over := s.At(i, start), end <= s.closedUntil()
		if b == nil {
			if over && i == market.Second {
				continue // it was sent and is not stored
			}
			b = s.insert(Bar{Interval: i, Start: start, End: end})
			s.hours = s.hours || i == market.Hour
		}
		if b.merge(&part.Totals); !over && !b.Changed {
			s.clock.addOpen(s, i, end)
		}
		b.Changed = true
	}
}

// At returns the bar of an interval that begins at start, or nil. It does not include the trades of
// the current second.
func (s *Series) At(i market.Interval, start int64) *Bar {
	list := s.lists[i]
	if n := len(list); n > 0 && list[n-1].Start == start {
		return &list[n-1]
	}
	k := sort.Search(len(list), func(k int) bool { return list[k].Start >= start })
	if k < len(list) && list[k].Start == start {
		return &list[k]
	}
	return nil
}

func (s *Series) insert(b Bar) *Bar {
	list := s.lists[b.Interval]
	k := len(list)
	for k > 0 && list[k-1].Start > b.Start {
		k--
	}
	s.lists[b.Interval] = slices.Insert(list, k, b)
	return &s.lists[b.Interval][k]
}

// Day returns the current figures of a trading day.
func (s *Series) Day(start, end int64) (t Totals) {
	if day := s.At(market.Day, start); day != nil {
		t = day.Totals
	}
	if s.second.Start >= start && s.second.Start < end {
		t.merge(&s.second.Totals)
	}
	return t
}

// LastBefore returns the last price of the newest trading day before one that begins at start,
// among the stored days.
func (s *Series) LastBefore(start int64) (p market.Price, ok bool) {
	list := s.lists[market.Day]
	for k := len(list) - 1; k >= 0; k-- {
		if list[k].End <= start && list[k].Trades > 0 {
			return list[k].Last, true
		}
	}
	return 0, false
}

// recount computes the bars that contain a time again.
func (s *Series) recount(at int64) {
	for i := range market.NumIntervals {
		start, end := s.clock.Bounds(i, at)
		b := s.At(i, start)
		if b == nil {
			continue
		}
		switch i {
		case market.Second, market.Minute:
			b.Totals, _ = s.trades.count(start, end)
		case market.Day:
			b.Totals = s.total(market.Minute, start, end)
		default:
			b.Totals = s.total(i-1, start, end)
		}
		if b.Changed = true; end > s.closedUntil() {
			s.clock.addOpen(s, i, end)
		}
	}
}

// total returns the figures of the bars of an interval within a time range.
func (s *Series) total(i market.Interval, start, end int64) (t Totals) {
	list := s.lists[i]
	for k := sort.Search(len(list), func(k int) bool { return list[k].Start >= start }); k < len(list) && list[k].Start < end; k++ {
		t.merge(&list[k].Totals)
	}
	return t
}

// resend sends the ended bars that contain a time again, because they have changed. fresh means
// that a trade was added.
func (s *Series) resend(at int64, fresh bool, send SendFunc) {
	for i := range market.NumIntervals {
		start, end := s.clock.Bounds(i, at)
		switch b := s.At(i, start); {
		case end > s.closedUntil():
		case b != nil:
			s.send(b, send)
		case i == market.Second && start >= s.trades.complete:
			b := Bar{Interval: i, Start: start, End: end, Sent: true}
			var ever int
			if b.Totals, ever = s.trades.count(start, end); fresh && ever == 1 {
				b.Sent = false
			}
			s.send(&b, send)
		}
	}
}

// send sends a bar. A bar without trades is sent only to revise one that was sent before.
func (s *Series) send(b *Bar, send SendFunc) {
	if b.Trades == 0 && !b.Sent {
		return
	}
	b.Revised, b.Sent, b.Changed = b.Sent, true, false
	send(s, b)
}

// close sends the ended bars of an interval at t, in order of time, and returns the end of the next
// one, 0 if there is none.
func (s *Series) close(i market.Interval, t int64, send SendFunc) (next int64) {
	if s.second.Trades > 0 {
		if s.second.End <= t {
			s.Fold()
		} else if i == market.Second {
			next = s.second.End
		}
	}
	list := s.lists[i]
	k := len(list)
	for k > 0 && (s.unsent || list[k-1].End > s.closedUntil() || !list[k-1].Sent) {
		k--
	}
	for ; k < len(list); k++ {
		if end := list[k].End; end > t {
			next = sooner(next, end)
			break
		}
		if b := &list[k]; !b.Sent || b.Changed {
			s.send(b, send)
		}
	}
	if i == market.Second {
		s.lists[i] = slices.DeleteFunc(list, func(b Bar) bool { return b.End <= t })
	}
	return next
}

// prune drops what is too old to be revised and returns the number of trades dropped. If a day
// begins within an hour, that whole hour is kept, because its bar is computed from shorter ones.
func (s *Series) prune() (dropped int) {
	old, _ := s.clock.Bounds(market.Hour, s.clock.old)
	for i := range s.lists {
		list := s.lists[i]
		k := 0
		for k < len(list) && list[k].Sent && list[k].End <= old {
			k++
		}
		if k > 0 {
			s.lists[i] = slices.Delete(list, 0, k)
		}
	}
	return s.trades.prune(old)
}

// MarkSent marks a bar as sent before a restart.
func (s *Series) MarkSent(i market.Interval, at int64) {
	start, end := s.clock.Bounds(i, at)
	s.clock.ClosedUntil = max(s.clock.ClosedUntil, end)
	if b := s.At(i, start); b != nil {
		b.Sent, b.Changed = true, false
	}
}

// MarkChanged marks the bar that contains a time as changed since it was sent, before a restart.
// The next pass of the clock sends it, if it has ended.
func (s *Series) MarkChanged(i market.Interval, at int64) {
	start, _ := s.clock.Bounds(i, at)
	if b := s.At(i, start); b != nil {
		b.Changed, s.unsent = true, true
	}
}

// DropSeconds drops the bars of seconds that are marked as sent and not as changed. There may be
// those of a whole day.
func (s *Series) DropSeconds() {
	open := slices.DeleteFunc(s.lists[market.Second], func(b Bar) bool { return b.Sent && !b.Changed })
	s.lists[market.Second] = slices.Clone(open)
}
