package client

import (
	"context"
	"errors"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

const (
	maxOut  = 64  // entries that are queued together
	minFree = 512 // bytes of a block that are used for another message
)

// receive handles a frame. The error ends the connection.
func (l *link) receive(ctx context.Context, f frame) error {
	if f.err != nil {
		return closeError(f.err, l.last)
	}
	l.arrived, l.pinged = laterOf(l.arrived, f.at), time.Time{}
	m := &l.message
	var bad error
	switch l.format {
	case wire.Batch:
		bad = l.decoder.DecodeBatch(f.data, m, func(text []byte) error {
			return l.handle(ctx, m, frame{data: text, at: f.at})
		})
		if bad == nil || !errors.Is(bad, stream.ErrMessage) {
			return bad
		}
	case wire.Msgpack:
		var text []byte
		if text, bad = wire.AppendUnpacked(l.texts.Free(2*len(f.data)), f.data); bad == nil {
			f.data = l.texts.Use(text)
			bad = l.decoder.Decode(f.data, m)
		}
	default:
		bad = l.decoder.Decode(f.data, m)
	}
	if bad != nil {
		if err := l.copy(ctx, stream.Unknown, f); err != nil {
			return err
		}
		return brokenError{bad}
	}
	return l.handle(ctx, m, f)
}

// copy adds a message to the events, if the program has asked for messages.
func (l *link) copy(ctx context.Context, kind stream.Kind, f frame) error {
	if !l.opts.Messages {
		return nil
	}
	return l.push(ctx, entry{event: Message{kind, f.at, f.data}, old: true}) // old, so that it is never dropped
}

// handle handles a message, with its text in JSON. The error ends the connection.
func (l *link) handle(ctx context.Context, m *stream.Message, f frame) error {
	if err := l.copy(ctx, m.Kind, f); err != nil {
		return err
	}
	l.heard = f.at
	if !m.Kind.IsData() {
		signal(l.changed) // deadlines may be others
	}
	if m.Control != nil {
		makePrintable(m.Control)
	}
	if m.Kind.IsData() || m.Kind == stream.Alive || m.Kind == stream.Subscription || m.Kind == stream.CaughtUp {
		l.data, l.streamed = laterOf(l.data, f.at), f.at
	}
	switch m.Kind {
	case stream.Ping:
		if !l.ponged { // one answers every ping before it
			l.ponged = true
			l.send(&message{Action: wire.ActionPong})
		}
	case stream.Pong:
		l.pong(m.Control, f.at)
	case stream.Success:
		return l.success(ctx, m.Control)
	case stream.Subscription:
		return l.acknowledged(ctx, m.Control)
	case stream.CaughtUp:
		return l.caughtUp(ctx, m.Control.Position)
	case stream.Alive:
		return l.alive(ctx, m.Control, f.at)
	case stream.Warning:
		l.warning(m.Control)
	case stream.Error:
		return l.refused(ctx, m.Control)
	case stream.Book:
		return l.book(ctx, m, f)
	case stream.Quote, stream.Summary:
		return l.state(ctx, m, f)
	case stream.Trade, stream.Status, stream.Bar:
		cur := l.cursorOf(m)
		l.note(cur.series, f.at)
		if m.Kind == stream.Status {
			l.status(m)
		}
		x := numberedEvent{n: m.N, time: m.Time, event: l.blocks.newEvent(m, f.data, f.at), snapshot: m.Snapshot}
		return l.numbered(ctx, cur, &x)
	}
	return nil
}

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// push queues market data, together with what comes next.
func (l *link) push(ctx context.Context, x entry) error {
	l.out = append(l.out, x)
	if len(l.out) < maxOut {
		return nil
	}
	return l.flushOut(ctx)
}

// flushOut is engine.flush. If the program has made the client wait, the connection was not silent.
func (l *link) flushOut(ctx context.Context) error {
	l.mu.Lock()
	l.health.link, l.health.data = l.heard, l.streamed
	l.mu.Unlock()
	waited, err := l.engine.flush(ctx)
	if waited {
		l.arrived = time.Now()
		l.data = l.arrived
	}
	return err
}

// flush queues what was received, and wakes the program.
func (l *link) flush(ctx context.Context) error {
	err := l.flushOut(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue.head < len(l.queue.waiting) {
		signal(l.queue.ready)
	}
	return err
}

func (l *link) pong(c *stream.Control, at time.Time) {
	if l.pingedAt.IsZero() || c.Time == 0 {
		return
	}
	trip := at.Sub(l.pingedAt)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.health.roundTrip, l.health.offset = trip, time.Unix(0, c.Time).Sub(at.Add(-trip/2))
}

func (l *link) success(ctx context.Context, c *stream.Control) error {
	if l.ready {
		return nil // a re-authentication
	}
	l.ready = true
	if c.Limits.MessageBytes > 0 {
		l.most = min(maxItems, max(c.Limits.MessageBytes/maxItemBytes, 1))
	}
	l.conn.SetReadLimit(int64(min(max(maxMessage, c.Limits.MaxMessageBytes), maxAnswer)))
	if interval := c.Heartbeat.Interval; l.opts.Heartbeat == 0 && interval > 0 {
		l.heartbeat = min(interval/2, maxHeartbeat)
	}
	l.prune()
	for _, cur := range l.series {
		cur.replayFrom(cur.n)
	}
	l.enter(StateChange{State: Syncing, URL: l.base})
	l.reconcile(ctx)
	l.settle()
	return nil
}

// settle enters Live when nothing is missing any more.
func (l *link) settle() {
	if len(l.asks) == 0 && l.replays == 0 && !l.listing {
		l.bound = 0
		l.enter(StateChange{State: Live, URL: l.base})
	}
}

// acknowledged handles a Subscription.
func (l *link) acknowledged(ctx context.Context, c *stream.Control) error {
	a := l.asks[c.ID]
	delete(l.asks, c.ID)
	if c.Epoch != l.epoch {
		l.newEpoch(ctx, c.Epoch)
	}
	if l.replays == 0 && c.Position != "" {
		l.moveTo(c.Position)
	}
	l.reject(c.Rejected, false)
	l.reject(c.Removed, true)
	for _, m := range c.Moved {
		l.report(Delayed(m))
	}
	for s, r := range c.Lost {
		if r.Reason != string(wire.EpochChanged) { // newEpoch has handled it
			l.lost(s, r)
		}
	}
	for s, n := range c.Resumed {
		cur := l.series[s]
		if cur == nil && n > 0 && l.sent[s] != nil && !s.Instrument.IsPattern() {
			cur = l.cursor(s) // nothing of it was received so far
		}
		if cur != nil && n >= cur.n {
			cur.to = n
		}
	}
	if a != nil {
		for _, i := range a.items {
			switch {
			case a.remove:
				l.forget(i)
			case l.sent[i] != nil && !l.sent[i].rejected:
				l.had[i], l.sent[i].resumed = true, a.resume
			}
		}
	}
	l.settle()
	return nil
}

// reject reports refused or removed identifiers.
func (l *link) reject(list []stream.Rejection, removed bool) {
	for _, r := range list {
		l.report(Rejected{Channel: r.Channel, Instrument: r.Instrument, Reason: r.Reason, Msg: r.Msg, Hint: r.Hint, Removed: removed})
		for c := range wire.Bars + 1 {
			if c.String() != r.Channel {
				continue
			}
			i, err := newItem(c, r.Instrument)
			switch {
			case err != nil || l.sent[i] == nil:
			case r.Reason == wire.Unavailable: // for the moment
				delete(l.sent, i)
				l.paused = time.Now().Add(unavailable)
				l.again = l.paused
			default:
				l.sent[i].rejected = true
			}
		}
	}
}

// lost reports messages that the gateway cannot replay. A pattern stands for all its series.
func (l *link) lost(s stream.Series, r wire.Range) {
	if !s.Instrument.IsPattern() || s.Channel == wire.Status && l.series[s] != nil {
		cur := l.series[s]
		if cur == nil {
			return
		}
		l.recovered(s, cur, cur.n)
		from := max(r.From, cur.n+1)
		if cur.known && (r.To == 0 || from <= r.To) {
			l.report(Lost{Series: s, From: from, To: r.To, Reason: printable(r.Reason)})
		}
		cur.n, cur.known, cur.named = max(r.To, cur.n), r.To > 0, false
		cur.replayFrom(cur.n)
		return
	}
	for series, cur := range l.series {
		if series.Channel == s.Channel && s.Instrument.Matches(series.Instrument) && cur.known {
			l.report(Lost{Series: series, From: cur.n + 1, Reason: printable(r.Reason)})
			cur.known = false
		}
	}
}

// caughtUp ends the replay of a resume. After the last one, what was missed has been delivered.
func (l *link) caughtUp(ctx context.Context, position string) error {
	if l.replays = max(l.replays-1, 0); l.replays > 0 {
		return nil
	}
	for s, cur := range l.series {
		if cur.fill == nil && cur.known && cur.n < cur.to {
			if err := l.gap(ctx, s, cur, cur.to); err != nil {
				return err
			}
			continue
		}
		to := cur.n
		if cur.to > 0 {
			to = cur.to
		}
		l.recovered(s, cur, to)
		cur.first, cur.to, cur.named = 0, 0, false
	}
	if position != "" {
		l.moveTo(position)
	}
	l.settle()
	l.reconcile(ctx)
	return nil
}

// recovered reports what a replay has delivered of a series, up to N to.
func (l *link) recovered(s stream.Series, cur *cursor, to uint64) {
	if cur.first > 0 && to >= cur.first && cur.fill == nil {
		l.report(Recovered{Series: s, From: cur.first, To: to})
	}
}

// alive handles an Alive mark. It shows messages that were lost without a later one.
func (l *link) alive(ctx context.Context, c *stream.Control, at time.Time) error {
	for s, n := range c.Last {
		l.note(l.seriesOf(s), at)
		if !s.Channel.Replays() || !l.covered(s, nil) {
			continue
		}
		cur := l.cursor(s)
		switch {
		case !cur.known:
			cur.n, cur.known = n, true
		case n > cur.n && cur.fill == nil && l.replays == 0:
			if err := l.gap(ctx, s, cur, n); err != nil {
				return err
			}
		}
	}
	if c.Position != "" && l.replays == 0 {
		l.moveTo(c.Position)
	}
	return nil
}

func (l *link) warning(c *stream.Control) {
	switch {
	case c.Reason == wire.ShuttingDown:
		l.reconnectAt = time.Now().Add(min(c.Reconnect, maxRequested))
	case c.Reason == "token_expiring":
		l.tokens.renewWithin(c.ExpiresIn * 8 / 10)
	}
	l.report(Notice{Reason: c.Reason, Msg: c.Msg, Hint: c.Hint})
}

// refused handles an Error. One without an answer to a request explains the close that follows.
func (l *link) refused(ctx context.Context, c *stream.Control) error {
	e := streamError(c)
	l.last = e
	a := l.asks[c.ID]
	delete(l.asks, c.ID)
	switch {
	case c.ID != "" && c.Reason == wire.Internal: // in place of a CaughtUp
		return errResume
	case a == nil && c.Reason.Socket().Closes:
		return nil // the close follows
	case a == nil && !l.ready: // in place of a Success
		return e
	case a == nil:
		l.report(Notice{Reason: c.Reason, Msg: c.Msg, Hint: c.Hint})
		return nil
	}
	if c.Retry && c.Rejected == nil {
		for _, i := range a.items {
			if a.remove {
				l.sent[i] = &subscribed{}
			} else {
				delete(l.sent, i)
			}
		}
		l.paused = time.Now().Add(min(max(c.RetryAfter, time.Second), maxRequested))
		l.again = l.paused
		if a.resume {
			l.replays--
		}
		return nil
	}
	l.reject(c.Rejected, false)
	for _, i := range a.items {
		if s := l.sent[i]; s != nil && !s.rejected && c.Rejected == nil {
			s.rejected = true
			l.report(Rejected{Channel: i.Channel.String(), Instrument: string(i.Channel.Append(nil, i.Instrument)), Reason: c.Reason, Msg: c.Msg, Hint: c.Hint})
		}
	}
	if a.resume {
		return l.caughtUp(ctx, "")
	}
	l.settle()
	return nil
}

// status records a status. While a feed is interrupted, its books are not known.
func (l *link) status(m *stream.Message) {
	var invalid []market.InstrumentID
	l.mu.Lock()
	l.health.status(m)
	for s, b := range l.books {
		if m.Phase == market.FeedDown && b.valid && m.ID.Matches(s.Instrument) {
			b.Invalidate()
			invalid = append(invalid, s.Instrument)
		}
	}
	l.mu.Unlock()
	for _, id := range invalid {
		l.report(BookInvalid{id, m.Phase.String()})
	}
}

// state handles a quote or a summary, of which only the newest matters.
func (l *link) state(ctx context.Context, m *stream.Message, f frame) error {
	cur := l.cursorOf(m)
	l.note(cur.series, f.at)
	if !m.Snapshot && m.N <= cur.n {
		return nil
	}
	cur.n = m.N
	return l.push(ctx, entry{event: l.blocks.newEvent(m, f.data, f.at), of: cur.series, n: m.N})
}

// book applies an update and queues it. Unless every event is delivered, that is one step, so that
// a merged book is the newest one.
func (l *link) book(ctx context.Context, m *stream.Message, f frame) error {
	merges := l.opts.Overflow != Block
	if merges && len(l.out) > 0 {
		if err := l.flushOut(ctx); err != nil {
			return err
		}
	}
	s := l.seriesOf(m.Series())
	l.note(s, f.at)
	u := newEvent(m, f.data, f.at).(*BookUpdate)
	x := entry{event: u, of: s, n: m.N}
	l.mu.Lock()
	b := l.books[s.Series]
	if b == nil {
		b = &Book{}
		l.books[s.Series] = b
	}
	err := b.Apply(*u)
	if merges && err == nil {
		l.queue.data(&x) // which has space for it
	}
	l.mu.Unlock()
	switch {
	case err != nil:
		if reason := map[error]string{ErrChain: "chain", ErrChecksum: "checksum"}[err]; reason != "" {
			l.report(BookInvalid{m.ID, reason})
		}
		l.resync(m.ID)
		return nil
	case merges:
		return nil
	}
	return l.push(ctx, x)
}
