package sim

import (
	"math/rand/v2"
	"time"

	"github.com/ruedahq/rueda/market"
)

// day is the trading day that the exchange is in, of a market that keeps hours.
type day struct {
	calendar Calendar
	loc      *time.Location
	rng      *rand.Rand // for what is the market's own: whom it halts, what it corrects
	days     int        // how many there are; 0: no end
	number   int        // 1 the first
	date     time.Time  // in loc, at midnight
	ends     int64      // virtual time at which the next one begins
	ticking  bool       // somebody looks at auctions each second
	shown    shown      // what is told of the market as a whole
}

const (
	// The exchange is there this long before the first session and after the last.
	margin = int64(5 * time.Minute)

	// overnight is the share of a day's volatility that comes between two.
	overnight = 0.5

	minute = 60 * second
)

// Reasons of statuses, besides those of market.Schedule.
const (
	reasonOpening    = "opening_auction"
	reasonClosing    = "closing_auction"
	reasonVolatility = "volatility_auction"
	reasonReopening  = "reopening_auction"
	reasonAtClose    = "trade_at_close"
	reasonLimit      = "price_limit"
	reasonNews       = "news_pending"
)

// terms are those of the market that keeps hours.
func terms() []string { return []string{spot, nextDay} }

// newDay is a market that keeps hours, before its first day: the first trading day on or
// after the date of a time.
func newDay(seed uint64, c Calendar, from time.Time, days int) (*day, error) {
	loc, err := time.LoadLocation(c.Timezone)
	if err != nil {
		return nil, err
	}
	d := &day{calendar: c, loc: loc, rng: newRand(seed, "market"), days: days}
	date, ok := c.tradingDay(from.In(loc), terms()...)
	if !ok {
		return nil, errNoDay
	}
	d.date = midnight(date, loc)
	return d, nil
}

func midnight(t time.Time, loc *time.Location) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, loc)
}

// hour is the Unix time of an hour of a date.
func (d *day) hour(date time.Time, since time.Duration) int64 {
	// By the clock's face, as Schedule has it: a day may have 23 hours.
	s := int(since / time.Second)
	return time.Date(date.Year(), date.Month(), date.Day(), 0, 0, s, 0, d.loc).UnixNano()
}

// bounds are the Unix times of a date's first opening and last closing.
func (d *day) bounds(date time.Time) (first, last int64) {
	for _, term := range terms() {
		s := d.calendar.sessions(date, term)
		if len(s) == 0 {
			continue
		}
		if at := d.hour(date, s[0].Start); first == 0 || at < first {
			first = at
		}
		last = max(last, d.hour(date, s[len(s)-1].End))
	}
	return first, last
}

// begins is the Unix time at which the exchange comes to its date.
func (d *day) begins() int64 {
	first, _ := d.bounds(d.date)
	return first - margin
}

// nextOpening is when a term, or with "" any, begins to trade after a date; 0: never.
func (d *day) nextOpening(date time.Time, term string) int64 {
	list := []string{term}
	if term == "" {
		list = terms()
	}
	next, ok := d.calendar.tradingDay(date.AddDate(0, 0, 1), list...)
	if !ok {
		return 0
	}
	at := int64(0)
	for _, t := range list {
		if s := d.calendar.sessions(next, t); len(s) > 0 {
			if h := d.hour(next, s[0].Start); at == 0 || h < at {
				at = h
			}
		}
	}
	return at
}

// carryDays is how many days lie between the settlements of the two terms.
func (d *day) carryDays() int {
	next, ok := d.calendar.tradingDay(d.date.AddDate(0, 0, 1), spot)
	if !ok {
		return 1
	}
	from := time.Date(d.date.Year(), d.date.Month(), d.date.Day(), 0, 0, 0, 0, time.UTC)
	to := time.Date(next.Year(), next.Month(), next.Day(), 0, 0, 0, 0, time.UTC)
	return int(to.Sub(from) / (24 * time.Hour))
}

// beginDay starts the exchange's date: from now on virtual time is the time of this day.
func (x *exchange) beginDay() {
	d := x.day
	d.number++
	first, last := d.bounds(d.date)
	x.start = d.begins() - x.now
	d.ends = last - x.start + margin
	for i := range x.instruments {
		if in := &x.instruments[i]; x.keepsHours(in) {
			x.morning(in)
		}
	}
	x.marketStatus(venue, market.Closed, market.ReasonOutsideHours, first)
	for _, term := range terms() {
		x.plan(term)
	}
	x.planMarket()
	x.planTrouble()
	x.agenda.add(d.ends, x.endDay)
}

// endDay goes on to the next trading day, by way of midnight. Behind the last one nothing is told but that
// the next has come.
func (x *exchange) endDay() {
	d := x.day
	opening := d.nextOpening(d.date, "")
	x.pass(d.hour(d.date, 24*time.Hour), opening)
	next, ok := d.calendar.tradingDay(d.date.AddDate(0, 0, 1), terms()...)
	if !ok {
		x.over = true
		return
	}
	d.date = midnight(next, d.loc)
	if d.number == d.days {
		x.pass(d.begins(), opening)
		x.over = true
		return
	}
	x.world.night()
	for i := range x.instruments {
		in := &x.instruments[i]
		if u := in.underlying; x.keepsHours(in) && u.nights < d.number {
			u.nights = d.number
			u.value += overnight * u.class.volatility * u.rng.NormFloat64()
		}
	}
	x.beginDay()
}

// pass lets the night go by up to a Unix time, and tells how the markets are then. Whoever keeps time
// by events learns from it which bars and days are over.
func (x *exchange) pass(to, opening int64) {
	x.start = max(x.start, to-x.now)
	if x.instruments[0].phase != market.Closed { // by a fault
		x.marketStatus(lively, market.Open, "", 0)
	}
	x.marketStatus(venue, market.Closed, market.ReasonOutsideHours, opening)
}

// morning is an instrument before its market opens: yesterday's close is today's reference.
func (x *exchange) morning(in *instrument) {
	d := x.day
	if d.number > 1 && in.settled != 0 {
		in.close = in.settled
	}
	in.settled, in.barred, in.level, in.dealt = 0, false, 0, false
	in.carry = in.listing.carry(d.carryDays())
	in.fair = 0 // to be found anew
	in.price(x.now, &x.world)
	if d.number == 1 {
		in.last = max(1, int64(in.fair+0.5))
		in.close = in.last
	}
	term := in.listing.definition.ID.Term
	sessions := d.calendar.sessions(d.date, term)
	x.reference(in, 0)
	switch {
	case len(sessions) == 0:
		x.status(in, market.Closed, market.ReasonHoliday, d.nextOpening(d.date, term)-x.start)
	case d.number == 1:
		x.status(in, market.Closed, market.ReasonOutsideHours, d.hour(d.date, sessions[0].Start)-x.start)
	}
}

// span is a session in virtual time.
type span struct {
	phase      market.Phase
	start, end int64
}

// spans is a date's sessions for a term, and the closing behind them.
func (d *day) spans(start int64, term string) []span {
	var out []span
	for _, s := range d.calendar.sessions(d.date, term) {
		out = append(out, span{s.Phase, d.hour(d.date, s.Start) - start, d.hour(d.date, s.End) - start})
	}
	if len(out) > 0 {
		out = append(out, span{phase: market.Closed, start: out[len(out)-1].end, end: d.nextOpening(d.date, term) - start})
	}
	return out
}

// plan puts the sessions of a term on the agenda.
func (x *exchange) plan(term string) {
	for _, s := range x.day.spans(x.start, term) {
		if s.phase == market.Open {
			x.world.setDay(s.start, s.end)
		}
		x.agenda.add(s.start, func() {
			for i := range x.instruments {
				if in := &x.instruments[i]; x.keepsHours(in) && in.listing.definition.ID.Term == term {
					x.begin(in, s)
				}
			}
		})
	}
}

// planMarket puts the phases of the market as a whole on the agenda: those of the term that
// has most of them.
func (x *exchange) planMarket() {
	var list []span
	for _, term := range terms() {
		if s := x.day.spans(x.start, term); len(s) > len(list) {
			list = s
		}
	}
	random := int64(x.day.calendar.RandomEnd)
	for i, s := range list {
		reason, at, until := "", s.start, x.start+s.end
		switch s.phase {
		case market.Open:
			if i > 0 {
				at += random
				x.agenda.add(s.start, func() {
					x.marketStatus(venue, market.Auction, reasonOpening, x.start+at)
				})
			}
		case market.Auction:
			reason = reasonClosing
		case market.PostClose:
			reason = reasonAtClose
			at += random
		case market.Closed:
			reason, until = market.ReasonOutsideHours, x.day.nextOpening(x.day.date, "")
			if i > 0 && list[i-1].phase == market.Auction {
				at += random
			}
		}
		x.agenda.add(at, func() {
			x.day.shown = shown{s.phase, reason, until}
			x.marketStatus(venue, s.phase, reason, until)
		})
	}
}

// shown is a status of a market as a whole.
type shown struct {
	phase  market.Phase
	reason string
	until  int64 // Unix time
}

// begin starts a session for an instrument, or lets the auction before it go on for a
// random while.
func (x *exchange) begin(in *instrument, s span) {
	in.turn++ // what else was planned for it is off
	random := int64(x.day.calendar.RandomEnd)
	if !in.book.calling || s.phase == market.Auction || random == 0 {
		x.enter(in, s)
		return
	}
	if s.phase == market.Open {
		x.status(in, market.Auction, reasonOpening, s.start+random)
	}
	in.session = s
	x.later(in.rng.Int64N(random), x.unless(in, func() { x.enter(in, s) }))
}

// unless is something to do for an instrument, unless another session or a halt began.
func (x *exchange) unless(in *instrument, do func()) func() {
	turn := in.turn
	return func() {
		if in.turn == turn {
			do()
		}
	}
}

// enter is the beginning of a session for an instrument.
func (x *exchange) enter(in *instrument, s span) {
	if in.barred && s.phase != market.Closed {
		return // halted for the rest of the day
	}
	in.session = s
	switch s.phase {
	case market.PreOpen:
		x.call(in, market.PreOpen, "", s.end)
	case market.Open:
		x.uncross(in, reasonOpening)
		x.resume(in, s.end)
	case market.Auction:
		x.call(in, market.Auction, reasonClosing, s.end)
	case market.PostClose:
		x.uncross(in, reasonClosing)
		x.settle(in)
		x.status(in, market.PostClose, reasonAtClose, s.end)
	case market.Closed:
		x.uncross(in, reasonClosing)
		x.settle(in)
		in.book.clear() // orders are good for the day
		in.quoted = false
		x.status(in, market.Closed, market.ReasonOutsideHours, s.end)
		if !x.quiet(in) {
			x.snapshot(in)
		}
	}
	x.redraw(in)
}

// resume opens continuous trading.
func (x *exchange) resume(in *instrument, until int64) {
	in.book.calling = false
	in.banded = in.class.band > 0 && x.keepsHours(in)
	in.noted = in.here()
	in.setBand(x.now, in.noted)
	x.status(in, market.Open, "", until)
}

// settle finds the settlement price at the end of trading: that of the closing auction, or
// else the last price.
func (x *exchange) settle(in *instrument) {
	if in.settled != 0 {
		return
	}
	in.settled = in.close
	if in.dealt {
		in.settled = in.last
	}
	x.reference(in, in.listing.grid.price(in.settled))
}

// call lets orders rest without meeting, up to an auction.
func (x *exchange) call(in *instrument, phase market.Phase, reason string, until int64) {
	in.book.calling, in.stirred = true, true
	in.indicated = cross{}
	x.status(in, phase, reason, until)
	if d := x.day; d != nil && !d.ticking {
		d.ticking = true
		x.later(second, x.indicate)
	}
}

// uncross ends an auction: what can be exchanged is, at one price.
func (x *exchange) uncross(in *instrument, condition string) {
	if !in.book.calling {
		return
	}
	in.book.calling = false
	if c := in.book.cross(in.last); c.volume > 0 {
		in.book.uncross(c.price)
		in.dealt = true
		x.conditions = []string{condition}
		x.tell(in, market.NoSide)
		x.conditions = nil
	}
}

// indicate tells, each second, at what price the auctions would end now: a quote whose two
// sides have that price, with all that is bought and sold at it.
func (x *exchange) indicate() {
	calling := false
	for i := range x.instruments {
		in := &x.instruments[i]
		if !in.book.calling {
			continue
		}
		calling = true
		if !in.stirred {
			continue
		}
		in.stirred = false
		c := in.book.cross(in.last)
		if c == in.indicated || x.quiet(in) {
			continue
		}
		in.indicated = c
		e := x.event(market.KindQuote, in)
		if c.volume == 0 {
			continue // nothing meets any more
		}
		from := len(x.levels)
		price := in.listing.grid.price(c.price)
		x.levels = append(x.levels,
			market.Level{Price: price, Size: market.Size(c.bids) * in.listing.lot},
			market.Level{Price: price, Size: market.Size(c.asks) * in.listing.lot})
		e.Bids, e.Asks = x.levels[from:from+1:from+1], x.levels[from+1:from+2:from+2]
	}
	x.day.ticking = calling
	if calling {
		x.later(second, x.indicate)
	}
}
