package conformance

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ruedahq/rueda/market"
)

// maxFaults bounds the faults that are kept.
const maxFaults = 10

// judge holds what a client has printed. Faults that need no knowledge of the market are found
// at once.
type judge struct {
	seen   map[string]*seen
	end    string
	faults []string
}

// seen is what the client has printed of an instrument.
type seen struct {
	epoch    int             // how often the numbers began again
	trades   map[int][]trade // by epoch
	lost     map[int][]span
	replayed []uint64 // trades that are marked as replayed
	regained []span   // reported as recovered
	books    int
	book     *book // the newest; nil: there is none, or it is invalid
	invalid  int
	rejected string
}

// span is a range of numbers, with both ends.
type span struct{ from, to uint64 }

// book is the best levels of a book.
type book struct {
	n          uint64
	bids, asks []market.Level
}

func newJudge() *judge { return &judge{seen: map[string]*seen{}} }

func (j *judge) fault(format string, args ...any) {
	if len(j.faults) < maxFaults {
		j.faults = append(j.faults, fmt.Sprintf(format, args...))
	}
}

// of returns what was printed of an instrument.
func (j *judge) of(name string) *seen {
	s := j.seen[name]
	if s == nil {
		s = &seen{trades: map[int][]trade{}, lost: map[int][]span{}}
		j.seen[name] = s
	}
	return s
}

// take takes a line.
func (j *judge) take(l *line) {
	if j.end != "" {
		j.fault("it printed an event %q after the event \"end\"", l.Event)
	}
	switch l.Event {
	case "trade":
		j.trade(l)
	case "book":
		j.book(l)
	case "invalid":
		s := j.of(l.Instrument)
		s.book, s.invalid = nil, s.invalid+1
	case "lost":
		j.lost(l)
	case "recovered":
		s := j.of(l.Instrument)
		s.regained = append(s.regained, span{l.From, l.To})
	case "rejected":
		j.of(l.Instrument).rejected = cmp.Or(l.Reason, "?")
	case "end":
		j.end = cmp.Or(l.Reason, "?")
	}
}

func (j *judge) trade(l *line) {
	price, err1 := market.ParsePrice(l.Price)
	size, err2 := market.ParsePrice(l.Size)
	if l.N == 0 || err1 != nil || err2 != nil {
		j.fault("a trade has n %d, price %q and size %q", l.N, l.Price, l.Size)
		return
	}
	s := j.of(l.Instrument)
	if last := s.newest(); l.N <= last {
		j.fault("trade %d of %s came after %d", l.N, l.Instrument, last)
	}
	s.trades[s.epoch] = append(s.trades[s.epoch], trade{l.N, price, size})
	if l.Replayed {
		s.replayed = append(s.replayed, l.N)
	}
}

// newest returns the number of the newest trade of the present epoch, 0 if there is none.
func (s *seen) newest() uint64 {
	if list := s.trades[s.epoch]; len(list) > 0 {
		return list[len(list)-1].n
	}
	return 0
}

func (j *judge) lost(l *line) {
	s := j.of(l.Instrument)
	if l.Reason == "epoch_changed" {
		s.epoch++
		return
	}
	if l.From == 0 || l.To < l.From {
		j.fault("trades of %s are lost from %d to %d", l.Instrument, l.From, l.To)
		return
	}
	s.lost[s.epoch] = append(s.lost[s.epoch], span{l.From, l.To})
}

func (j *judge) book(l *line) {
	b := &book{n: l.N}
	for i, side := range [][][2]string{l.Bids, l.Asks} {
		for _, text := range side {
			price, err1 := market.ParsePrice(text[0])
			size, err2 := market.ParsePrice(text[1])
			if err1 != nil || err2 != nil || size <= 0 {
				j.fault("book %d of %s has the level %q", l.N, l.Instrument, text)
				return
			}
			level := market.Level{Price: price, Size: market.Size(size)}
			if i == 0 {
				b.bids = append(b.bids, level)
			} else {
				b.asks = append(b.asks, level)
			}
		}
	}
	if len(b.bids) > 0 && len(b.asks) > 0 && b.bids[0].Price >= b.asks[0].Price {
		j.fault("book %d of %s is crossed: bid %s, ask %s", l.N, l.Instrument, b.bids[0].Price, b.asks[0].Price)
	}
	falling := func(x, y market.Level) int { return cmp.Compare(y.Price, x.Price) }
	rising := func(x, y market.Level) int { return cmp.Compare(x.Price, y.Price) }
	if !slices.IsSortedFunc(b.bids, falling) || !slices.IsSortedFunc(b.asks, rising) {
		j.fault("book %d of %s is not sorted from the best price on", l.N, l.Instrument)
	}
	s := j.of(l.Instrument)
	s.book, s.books = b, s.books+1
}

// compare compares the trades of an epoch with the truth. From the first trade that the client has,
// each one must be there or lost, with the right price and size. It must be the newest one at the
// end if whole is set.
func (j *judge) compare(name string, epoch int, truth []trade, whole bool) {
	s := j.of(name)
	got := s.trades[epoch]
	if len(got) == 0 {
		return
	}
	byNumber := map[uint64]trade{}
	for _, t := range truth {
		byNumber[t.n] = t
	}
	next := got[0].n
	for _, t := range got {
		for ; next < t.n; next++ {
			if _, exists := byNumber[next]; exists && !s.isLost(epoch, next) {
				j.fault("trade %d of %s is missing, and is not reported as lost", next, name)
			}
		}
		next = t.n + 1
		if want, ok := byNumber[t.n]; !ok {
			j.fault("trade %d of %s does not exist", t.n, name)
		} else if want != t {
			j.fault("trade %d of %s is %s at %s, but it was printed as %s at %s", t.n, name, market.Size(want.size), want.price, market.Size(t.size), t.price)
		}
		if s.isLost(epoch, t.n) {
			j.fault("trade %d of %s was reported as lost, and printed", t.n, name)
		}
	}
	for last := newestOf(truth); whole && next <= last; next++ {
		if _, exists := byNumber[next]; exists && !s.isLost(epoch, next) {
			j.fault("trade %d of %s is missing at the end", next, name)
		}
	}
}

func (s *seen) isLost(epoch int, n uint64) bool {
	return slices.ContainsFunc(s.lost[epoch], func(l span) bool { return n >= l.from && n <= l.to })
}

func newestOf(truth []trade) uint64 {
	if len(truth) == 0 {
		return 0
	}
	return truth[len(truth)-1].n
}

// best is how many levels of each side are compared.
const best = 5

// same reports whether the client's book has the best levels of another one.
func (s *seen) same(bids, asks []market.Level) bool {
	equal := func(got, want []market.Level) bool {
		return slices.Equal(got[:min(best, len(got))], want[:min(best, len(want))])
	}
	return s.book != nil && equal(s.book.bids, bids) && equal(s.book.asks, asks)
}
