package marketdata

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/internal/cli/command"
	"github.com/ruedahq/rueda/internal/client"
	"github.com/ruedahq/rueda/internal/recording"
	"github.com/ruedahq/rueda/wire"
)

const (
	dialTimeout = 15 * time.Second
	// The server pings every 20 s. A socket without three of them is dead.
	silence = time.Minute
	// A message has at most 64 KiB, and an identifier at most 66 bytes.
	maxBooks = 500
)

// link is one connection of a follower.
type link struct {
	*follower
	conn      *websocket.Conn
	live      bool
	behind    int               // subscriptions that still replay missed messages
	unchained map[string]bool   // instruments whose book has a gap; a snapshot was requested
	bars      map[string]string // intervals by subscription id
	last      error             // the Error before a close, which it explains

	waiting int             // subscriptions without an answer
	has     map[string]bool // whether a channel has subscriptions
}

// connect makes a connection and passes on its messages until it ends, always with an error. live
// reports whether a subscription succeeded.
func (w *follower) connect(ctx context.Context) (live bool, err error) {
	token, err := command.AccessToken(ctx, w.account)
	if err != nil {
		return false, err
	}
	if w.hooks.ready != nil {
		if err := w.hooks.ready(ctx, token); err != nil {
			return false, err
		}
	}
	dial, cancel := context.WithTimeout(ctx, dialTimeout)
	conn, err := w.account.API.Dial(dial)
	cancel()
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.CloseNow() }() // it may be closed already

	ctx, cancel = context.WithCancel(ctx)
	var keeper sync.WaitGroup
	defer keeper.Wait()
	defer cancel()
	keeper.Go(func() { w.account.KeepFresh(ctx) })

	l := &link{follower: w, conn: conn, unchained: map[string]bool{}, bars: map[string]string{}, has: map[string]bool{}}
	if err := l.send(ctx, map[string]any{"action": "auth_token", "token": token}); err != nil {
		return false, err
	}
	for {
		if err := l.receive(ctx); err != nil {
			return l.live, l.explain(err)
		}
	}
}

func (l *link) send(ctx context.Context, v any) error {
	msg, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.conn.Write(ctx, websocket.MessageText, msg)
}

// receive handles one message.
func (l *link) receive(ctx context.Context) error {
	wait, cancel := context.WithTimeoutCause(ctx, silence, errors.New("no message for a minute"))
	defer cancel()
	_, msg, err := l.conn.Read(wait)
	if err != nil {
		return err
	}
	v, err := wire.ParseJSON(msg)
	if err != nil {
		return fmt.Errorf("message of the server: %w", err)
	}
	if action := v.Get("action"); action.Text == "ping" {
		return l.send(ctx, map[string]string{"action": "pong"})
	}
	kind := text(&v, "type")
	if kind == "Success" {
		for _, m := range l.subscriptions() {
			l.waiting++
			if err := l.send(ctx, m); err != nil {
				return err
			}
		}
		return nil
	}
	if kind == "Error" && !l.live {
		return l.refused(&v) // no earlier message explains it
	}
	channel := recording.ChannelOf(kind, text(&v, "IV"))
	if l.behind > 0 && l.repeats(channel, &v) {
		return nil
	}
	if err := l.contiguous(channel, &v); err != nil {
		return err
	}
	if l.hooks.message != nil {
		if err := l.hooks.message(&v, msg); err != nil {
			return err
		}
	}
	if channel != "" {
		return l.data(ctx, channel, &v, msg)
	}
	switch kind {
	case "Subscription":
		return l.subscribed(&v)
	case "CaughtUp":
		l.updatePosition(&v)
		l.behind--
		l.printf("caught up")
	case "Alive":
		l.updatePosition(&v)
	case "Warning":
		l.printf("%s: %s", text(&v, "reason"), text(&v, "msg"))
	case "Error":
		return l.refused(&v)
	}
	return nil // unknown to this version
}

// repeats reports whether a message was received on an earlier connection. A pattern resumes from a
// position, which is older than the newest messages.
func (l *link) repeats(channel string, v *wire.Value) bool {
	if channel == "" || channel == chBook || channel == chQuotes || channel == chSummary || v.Get("R").True && channel == chStatus {
		return false
	}
	n, err := strconv.ParseUint(text(v, "N"), 10, 64)
	return err == nil && n <= l.seen[recording.Series{Channel: channel, ID: text(v, "I")}]
}

func text(v *wire.Value, name string) string {
	m := v.Get(name)
	return command.Printable(m.Text)
}

// subscriptions returns the subscribe messages, with the progress of earlier connections. Each
// further interval of bars has its own message, and many books are split over several messages
// because of their maximum size.
func (l *link) subscriptions() []map[string]any {
	first := ""
	if len(l.want.intervals) > 0 {
		first = l.want.intervals[0]
	}
	books := l.want.of(chBook)
	list := []map[string]any{l.subscription(1, l.want.channels, first)}
	if slices.Contains(l.want.channels, chBook) && len(books) > maxBooks {
		list[0][chBook] = books[:maxBooks]
		for rest := range slices.Chunk(books[maxBooks:], maxBooks) {
			m := l.subscription(len(list)+1, []string{chBook}, "")
			m[chBook] = rest
			list = append(list, m)
		}
	}
	if slices.Contains(l.want.channels, chBars) && len(l.want.intervals) > 1 {
		for _, interval := range l.want.intervals[1:] {
			list = append(list, l.subscription(len(list)+1, []string{chBars}, interval))
		}
	}
	return list
}

func (l *link) subscription(id int, channels []string, interval string) map[string]any {
	m := map[string]any{"action": "subscribe", "id": id, "alive": true}
	resume := map[string]any{"epoch": l.epoch}
	for _, c := range channels {
		ids, key := l.want.of(c), c
		switch c {
		case chQuotes, chBook:
			if l.want.conflate != "" {
				m["conflate"] = l.want.conflate
			}
			if c == chBook {
				m["depth"] = l.want.depth
			}
			m[c] = ids
			continue // a snapshot replaces missed updates
		case chSummary:
			m[c] = ids
			continue
		case chBars:
			m["interval"] = interval
			l.bars[strconv.Itoa(id)] = interval
			key += " " + interval
		}
		ids = l.withGaps(key, ids)
		m[c] = ids
		seen := map[string]uint64{}
		for _, id := range ids {
			// A whole market has the name of a pattern, which has no N.
			if n := l.seen[recording.Series{Channel: key, ID: id}]; n > 0 && !isPattern(id) {
				seen[id] = n
			}
		}
		resume[c] = seen
	}
	if l.epoch != "" {
		if l.position != "" {
			resume["position"] = l.position
		}
		m["resume"] = resume
		l.behind++
	}
	return m
}

// updatePosition stores the epoch and the position of a message.
func (l *link) updatePosition(v *wire.Value) {
	if epoch := text(v, "epoch"); epoch != "" && epoch != l.epoch {
		if l.epoch != "" {
			l.printf("the numbering restarted: epoch %s", epoch)
		}
		l.epoch = epoch
		clear(l.seen)
		clear(l.asked)
	}
	if position := text(v, "position"); position != "" {
		l.position = position
	}
}

// subscribed handles the acknowledgement of a subscription.
func (l *link) subscribed(v *wire.Value) error {
	again := l.epoch != ""
	l.updatePosition(v)
	if id := v.Get("id"); id.Kind != wire.Absent {
		l.waiting--
	}
	taken := l.rejected(v)
	if err := l.lost(v); err != nil {
		return err
	}
	if err := l.changed(v); err != nil || l.live {
		return err
	}
	l.live = true
	if again {
		l.printf("live again")
		return nil
	}
	l.printf("live as %s: %s", l.account.Username, strings.Join(taken, " "))
	return nil
}

// rejected prints refused identifiers and returns those that were accepted on at least one channel.
func (l *link) rejected(v *wire.Value) (taken []string) {
	refusals := map[string]int{}
	list := v.Get("rejected")
	for i := range list.Items {
		r := &list.Items[i]
		id := text(r, "instrument")
		refusals[id]++
		if wire.Reason(text(r, "reason")) == wire.UnknownInstrument { // the same on every channel
			if !l.unknown[id] {
				l.unknown[id] = true
				l.printf("%s", strings.TrimSpace(fmt.Sprintf("%s refused: %s. %s", id, text(r, "msg"), text(r, "hint"))))
			}
			continue
		}
		l.printf("%s", strings.TrimSpace(fmt.Sprintf("%s %s refused: %s. %s",
			text(r, "channel"), id, text(r, "msg"), text(r, "hint"))))
	}
	for _, id := range l.want.ids {
		if refusals[id] < len(l.want.channels) {
			taken = append(taken, id)
		}
	}
	return taken
}

// lost reports the messages that the server cannot replay.
func (l *link) lost(v *wire.Value) error {
	for _, n := range recording.LostIn(v) {
		x := lost{n.Channel, n.Instrument, n.From, n.To, n.Reason}
		if err := l.reportLost(x); err != nil {
			return err
		}
		l.markSeen(v, x)
	}
	return nil
}

// reportLost prints a lost range and passes it to its hook.
func (l *link) reportLost(x lost) error {
	l.printf("%s", x)
	if l.hooks.lost == nil {
		return nil
	}
	return l.hooks.lost(x)
}

// refused handles an Error. An answer to the subscription ends the follower. Others explain the
// close that follows them.
func (l *link) refused(v *wire.Value) error {
	r := client.ParseError(v)
	if r.Reason.Socket().Closes {
		l.last = r
	}
	switch r.Reason {
	case wire.InvalidToken, wire.TokenExpired, wire.TokenRevoked:
		l.account.Invalidate()
	}
	if id := v.Get("id"); id.Kind == wire.Absent || v.Get("retry").True {
		return nil
	}
	l.waiting--
	l.rejected(v)
	if id := v.Get("id"); id.Text != "1" {
		l.printf("%v", r) // for a further interval of bars: the other subscriptions continue
		return nil
	}
	return command.Fail(command.ExitOf(r.Status), r, r.Hint)
}

// explain returns the last Error of the server instead of the error of the socket.
func (l *link) explain(err error) error {
	var f *command.Failure
	var w writeError
	var gap *gapError
	if errors.As(err, &w) || errors.As(err, &gap) {
		return err // not an error of the socket
	}
	if l.last != nil && !errors.As(err, &f) && !errors.Is(err, errEnough) {
		return l.last
	}
	return client.CloseError(err)
}

// data passes on a market-data message, unless it was received before.
func (l *link) data(ctx context.Context, channel string, v *wire.Value, msg []byte) error {
	id := text(v, "I")
	n, err := strconv.ParseUint(text(v, "N"), 10, 64)
	if err != nil {
		return fmt.Errorf("message of the server without N: %w", err)
	}
	key := recording.Series{Channel: channel, ID: id}
	before := l.seen[key]
	turned := l.feeds.Changed(id, text(v, "E"))
	if channel == chBook {
		if good, err := l.chains(ctx, id, v, before); !good {
			return err
		}
	} else if n <= before && !turned {
		return nil
	}
	l.seen[key] = max(n, before)
	if l.hooks.data == nil {
		return nil
	}
	return l.hooks.data(v, msg)
}

// chains reports whether a book message follows the previous one. After a gap it requests one
// snapshot and drops the updates before it.
func (l *link) chains(ctx context.Context, id string, v *wire.Value, before uint64) (bool, error) {
	if v.Get("R").True {
		delete(l.unchained, id)
		return true, nil
	}
	if l.unchained[id] {
		return false, nil
	}
	if text(v, "L") == strconv.FormatUint(before, 10) {
		return true, nil
	}
	l.unchained[id] = true
	l.printf("book of %s has a gap at #%s: requesting it again", id, text(v, "N"))
	return false, l.send(ctx, map[string]any{"action": "resync", "order_book": l.covering(id)})
}

// covering returns the subscribed identifiers that include an instrument.
func (l *link) covering(id string) []string {
	ids := l.want.of(chBook)
	if slices.Contains(ids, id) {
		return []string{id}
	}
	return ids
}
