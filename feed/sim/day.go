package sim

import (
	"math/rand/v2"
	"time"

	"github.com/ruedahq/rueda/market"
)

// day is the current trading day of the market that has hours.
type day struct {
	calendar Calendar
	loc      *time.Location
	rng      *rand.Rand  // for decisions of the market: which instruments it halts, what it corrects
	days     int         // number of days; 0: no end
	number   int         // 1 for the first day
	date     time.Time   // midnight in loc
	ends     int64       // virtual time at which the next day begins
	status   marketPhase // current status of the market as a whole
}

const (
	// margin is the time that the exchange runs before the first session and after the last.
	margin = int64(5 * time.Minute)

	// overnight is the volatility between two days, as a share of that of a day.
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

// terms returns the terms of the market that has hours.
func terms() []string { return []string{spot, nextDay} }

// newDay returns the state before the first day: the first trading day on or after the date of
// from.
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

// hour returns the Unix time, in ns, of a local time on a date.
func (d *day) hour(date time.Time, since time.Duration) int64 {
	// By the clock, as in market.Schedule: a day may have 23 hours.
	s := int(since / time.Second)
	return time.Date(date.Year(), date.Month(), date.Day(), 0, 0, s, 0, d.loc).UnixNano()
}

// bounds returns the Unix times of the first opening and the last closing on a date.
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

// begins returns the Unix time at which the exchange starts its date.
func (d *day) begins() int64 {
	first, _ := d.bounds(d.date)
	return first - margin
}

// nextOpening returns when a term (any term if "") next begins to trade after a date; 0 if never.
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

// carryDays returns the number of days between the settlements of the two terms.
func (d *day) carryDays() int {
	next, ok := d.calendar.tradingDay(d.date.AddDate(0, 0, 1), spot)
	if !ok {
		return 1
	}
	from := time.Date(d.date.Year(), d.date.Month(), d.date.Day(), 0, 0, 0, 0, time.UTC)
	to := time.Date(next.Year(), next.Month(), next.Day(), 0, 0, 0, 0, time.UTC)
	return int(to.Sub(from) / (24 * time.Hour))
}

// beginDay starts the exchange's date. From now on, virtual time is the time of this day.
func (x *exchange) beginDay() {
	d := x.day
	d.number++
	first, last := d.bounds(d.date)
	x.start = d.begins() - x.now
	d.ends = last - x.start + margin
	for i := range x.instruments {
		if in := &x.instruments[i]; x.keepsHours(in) {
			x.prepareDay(in)
		}
	}
	x.marketStatus(venueBYMA, market.Closed, market.ReasonOutsideHours, first)
	for _, term := range terms() {
		x.plan(term)
	}
	x.planMarket()
	x.planIncidents()
	x.tasks.add(d.ends, x.endDay)
}

// endDay moves on to the next trading day. After the last day it only publishes the statuses of
// midnight and of the next morning.
func (x *exchange) endDay() {
	d := x.day
	opening := d.nextOpening(d.date, "")
	x.passNight(d.hour(d.date, 24*time.Hour), opening)
	next, ok := d.calendar.tradingDay(d.date.AddDate(0, 0, 1), terms()...)
	if !ok {
		x.ended = true
		return
	}
	d.date = midnight(next, d.loc)
	if d.number == d.days {
		x.passNight(d.begins(), opening)
		x.ended = true
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

// passNight moves the time to a Unix time and publishes the status of the markets then. Subscribers
// that keep time by events learn from it which bars and days have ended.
func (x *exchange) passNight(to, opening int64) {
	x.start = max(x.start, to-x.now)
	if x.instruments[0].phase != market.Closed { // closed by a fault
		x.marketStatus(venueSIM, market.Open, "", 0)
	}
	x.marketStatus(venueBYMA, market.Closed, market.ReasonOutsideHours, opening)
}

// prepareDay resets an instrument before its market opens. Yesterday's close becomes today's
// reference.
func (x *exchange) prepareDay(in *instrument) {
	d := x.day
	if d.number > 1 && in.settled != 0 {
		in.close = in.settled
	}
	in.settled, in.haltedForDay, in.staticHits, in.tradedToday = 0, false, 0, false
	in.carry = in.listing.carry(d.carryDays())
	in.fair = 0 // forces a new computation
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

// spans returns a date's sessions for a term, followed by the closed period after them.
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

// plan schedules the sessions of a term.
func (x *exchange) plan(term string) {
	for _, s := range x.day.spans(x.start, term) {
		if s.phase == market.Open {
			x.world.setDay(s.start, s.end)
		}
		x.tasks.add(s.start, func() {
			for i := range x.instruments {
				if in := &x.instruments[i]; x.keepsHours(in) && in.listing.definition.ID.Term == term {
					x.begin(in, s)
				}
			}
		})
	}
}

// planMarket schedules the phases of the market as a whole, which are those of the term with most
// sessions.
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
				x.tasks.add(s.start, func() {
					x.marketStatus(venueBYMA, market.Auction, reasonOpening, x.start+at)
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
		x.tasks.add(at, func() {
			x.day.status = marketPhase{s.phase, reason, until}
			x.marketStatus(venueBYMA, s.phase, reason, until)
		})
	}
}

// marketPhase is a status of a market as a whole.
type marketPhase struct {
	phase  market.Phase
	reason string
	until  int64 // Unix time
}

// begin starts a session of an instrument, or extends the auction before it by a random time.
func (x *exchange) begin(in *instrument, s span) {
	in.generation++ // cancels all other tasks that were scheduled for it
	random := int64(x.day.calendar.RandomEnd)
	if !in.book.inCall || s.phase == market.Auction || random == 0 {
		x.enter(in, s)
		return
	}
	if s.phase == market.Open {
		x.status(in, market.Auction, reasonOpening, s.start+random)
	}
	in.session = s
	x.later(in.rng.Int64N(random), x.ifCurrent(in, func() { x.enter(in, s) }))
}

// ifCurrent returns a function that calls do unless another session or a halt has begun.
func (x *exchange) ifCurrent(in *instrument, do func()) func() {
	turn := in.generation
	return func() {
		if in.generation == turn {
			do()
		}
	}
}

// enter starts a session of an instrument.
func (x *exchange) enter(in *instrument, s span) {
	if in.haltedForDay && s.phase != market.Closed {
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
		in.book.clear() // orders are valid for the day
		in.quoted = false
		x.status(in, market.Closed, market.ReasonOutsideHours, s.end)
		if !x.suppressed(in) {
			x.snapshot(in)
		}
	}
	x.redraw(in)
}

// resume starts continuous trading.
func (x *exchange) resume(in *instrument, until int64) {
	in.book.inCall = false
	in.setAnchor()
	in.banded = in.class.band > 0 && x.keepsHours(in)
	in.nextReference = in.midPrice()
	in.setBand(x.now, in.nextReference)
	x.status(in, market.Open, "", until)
	if !in.stalled {
		in.price(x.now, &x.world)
		in.quoted = false // the orders of the auction between the quotes are cancelled
		in.wake(x)
	}
}

// settle sets the settlement price at the end of trading: the price of the closing auction, or else
// the last price.
func (x *exchange) settle(in *instrument) {
	if in.settled != 0 {
		return
	}
	in.settled = in.close
	if in.tradedToday {
		in.settled = in.last
	}
	x.reference(in, in.listing.grid.price(in.settled))
}

// call starts a call phase, in which orders rest without matching until an auction.
func (x *exchange) call(in *instrument, phase market.Phase, reason string, until int64) {
	in.book.inCall, in.dirty = true, true
	in.indicated = cross{}
	x.status(in, phase, reason, until)
	if !x.indicating {
		x.indicating = true
		x.later(second, x.publishIndicative)
	}
}

// uncross ends an auction: it executes all matching orders at one price.
func (x *exchange) uncross(in *instrument, condition string) {
	if !in.book.inCall {
		return
	}
	in.book.inCall = false
	if c := in.book.cross(in.last); c.volume > 0 {
		in.book.uncross(c.price)
		in.tradedToday = true
		x.conditions = []string{condition}
		x.report(in, market.NoSide)
		x.conditions = nil
	}
}

// publishIndicative publishes, once a second, the price at which each auction would end now: a
// quote with that price on both sides and the total sizes at it.
func (x *exchange) publishIndicative() {
	inCall := false
	for i := range x.instruments {
		in := &x.instruments[i]
		if !in.book.inCall {
			continue
		}
		inCall = true
		if !in.dirty {
			continue
		}
		in.dirty = false
		c := in.book.cross(in.last)
		if c == in.indicated || x.suppressed(in) {
			continue
		}
		in.indicated = c
		e := x.event(market.KindQuote, in)
		if c.volume == 0 {
			continue // no orders match
		}
		from := len(x.levels)
		price := in.listing.grid.price(c.price)
		x.levels = append(x.levels,
			market.Level{Price: price, Size: market.Size(c.bids) * in.listing.lot},
			market.Level{Price: price, Size: market.Size(c.asks) * in.listing.lot})
		e.Bids, e.Asks = x.levels[from:from+1:from+1], x.levels[from+1:from+2:from+2]
	}
	x.indicating = inCall
	if inCall {
		x.later(second, x.publishIndicative)
	}
}
