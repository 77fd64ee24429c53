package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/wire"
)

const (
	dialTimeout = 15 * time.Second
	// The server pings every 20 s: a socket silent for three of them is dead.
	silence    = time.Minute
	maxMessage = 16 << 20
)

// link is one connection of a watch.
type link struct {
	*watcher
	conn *websocket.Conn
	live bool
	torn map[string]bool // instruments whose book does not chain: a state was asked for
	last error           // the Error before a close, which it explains
}

// connect makes a connection and prints what comes until it ends, which is always
// an error. live says that it got as far as a subscription.
func (w *watcher) connect(ctx context.Context) (live bool, err error) {
	token, err := w.account.access(ctx)
	if err != nil {
		return false, err
	}
	dial, cancel := context.WithTimeout(ctx, dialTimeout)
	opts := &websocket.DialOptions{HTTPHeader: http.Header{"User-Agent": {userAgent()}}}
	conn, _, err := websocket.Dial(dial, w.account.api.stream(), opts) //nolint:bodyclose // the library closes it
	cancel()
	if err != nil {
		return false, plain(err)
	}
	defer func() { _ = conn.CloseNow() }() // it may be closed already
	conn.SetReadLimit(maxMessage)

	ctx, cancel = context.WithCancel(ctx)
	var keeper sync.WaitGroup
	defer keeper.Wait()
	defer cancel()
	keeper.Go(func() { w.account.keep(ctx) })

	l := &link{watcher: w, conn: conn, torn: map[string]bool{}}
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

// receive takes one message.
func (l *link) receive(ctx context.Context) error {
	wait, cancel := context.WithTimeoutCause(ctx, silence, errors.New("no message for a minute"))
	defer cancel()
	_, msg, err := l.conn.Read(wait)
	if err != nil {
		return err
	}
	v, err := wire.ParseJSON(msg)
	if err != nil {
		return fmt.Errorf("a message of the server: %w", err)
	}
	if action := v.Get("action"); action.Text == "ping" {
		return l.send(ctx, map[string]string{"action": "pong"})
	}
	switch kind := v.Get("type"); kind.Text {
	case "Success":
		return l.send(ctx, l.subscription())
	case "Subscription":
		l.subscribed(&v)
	case "CaughtUp":
		l.place(&v)
		l.talk("caught up")
	case "Alive":
		l.place(&v)
	case "Warning":
		l.talk("%s: %s", text(&v, "reason"), text(&v, "msg"))
	case "Error":
		return l.refused(&v)
	case "T", "X", "C":
		return l.data(ctx, wire.Trades, &v, msg)
	case "Q":
		return l.data(ctx, wire.Quotes, &v, msg)
	case "O":
		return l.data(ctx, wire.OrderBook, &v, msg)
	case "H":
		return l.data(ctx, wire.Status, &v, msg)
	}
	return nil // what this version does not know
}

func text(v *wire.Value, name string) string {
	m := v.Get(name)
	return m.Text
}

// subscription is the subscribe message, with what was seen on the connections before.
func (l *link) subscription() map[string]any {
	m := map[string]any{"action": "subscribe", "id": 1, "alive": true}
	resume := map[string]any{"epoch": l.epoch}
	for c := range wire.NumChannels {
		if !l.opts.on[c] {
			continue
		}
		m[c.String()] = l.ids
		if c != wire.Trades && c != wire.Status {
			m["conflate"] = l.opts.conflate
			continue // a state replaces what was missed
		}
		seen := map[string]uint64{}
		for _, id := range l.ids {
			if n := l.seen[seenKey{c, id}]; n > 0 {
				seen[id] = n
			}
		}
		resume[c.String()] = seen
	}
	if l.opts.on[wire.OrderBook] {
		m["depth"] = l.opts.depth
	}
	if l.epoch != "" {
		if l.position != "" {
			resume["position"] = l.position
		}
		m["resume"] = resume
	}
	return m
}

// place notes how far the stream is.
func (l *link) place(v *wire.Value) {
	if epoch := text(v, "epoch"); epoch != "" && epoch != l.epoch {
		if l.epoch != "" {
			l.talk("the numbering started anew: epoch %s", epoch)
		}
		l.epoch = epoch
		clear(l.seen)
	}
	if position := text(v, "position"); position != "" {
		l.position = position
	}
}

// subscribed reads an acknowledgement.
func (l *link) subscribed(v *wire.Value) {
	again := l.epoch != ""
	l.place(v)
	taken := l.rejected(v)
	l.lost(v)
	if l.live {
		return
	}
	l.live = true
	if again {
		l.talk("live again")
		return
	}
	l.talk("live as %s: %s", l.account.username, strings.Join(taken, " "))
}

// rejected tells which identifiers were refused, and returns those that were taken on one
// channel at least.
func (l *link) rejected(v *wire.Value) (taken []string) {
	wanted := 0
	for _, on := range l.opts.on {
		if on {
			wanted++
		}
	}
	refusals := map[string]int{}
	list := v.Get("rejected")
	for i := range list.Items {
		r := &list.Items[i]
		refusals[text(r, "instrument")]++
		l.talk("%s", strings.TrimSpace(fmt.Sprintf("%s %s refused: %s. %s",
			text(r, "channel"), text(r, "instrument"), text(r, "msg"), text(r, "hint"))))
	}
	for _, id := range l.ids {
		if refusals[id] < wanted {
			taken = append(taken, id)
		}
	}
	return taken
}

// lost tells which messages cannot be had any more.
func (l *link) lost(v *wire.Value) {
	lost := v.Get("lost")
	for i := range lost.Fields {
		channel := &lost.Fields[i]
		for j := range channel.Value.Fields {
			id := &channel.Value.Fields[j]
			line := "lost: " + channel.Name + " " + id.Name
			if from := text(&id.Value, "from"); from != "" {
				line += " from #" + from
			}
			if to := text(&id.Value, "to"); to != "" {
				line += " to #" + to
			}
			l.talk("%s (%s)", line, text(&id.Value, "reason"))
		}
	}
}

// refused reads an Error. One that answers the subscription ends the watch; the
// others explain the close that follows them.
func (l *link) refused(v *wire.Value) error {
	code, _ := strconv.Atoi(text(v, "code"))
	wait, _ := strconv.Atoi(text(v, "retry_after"))
	r := &refusal{Status: code, Reason: wire.Reason(text(v, "reason")), Msg: text(v, "msg"), Wait: time.Duration(wait) * time.Second}
	if r.Reason.Socket().Closes {
		l.last = r
	}
	switch r.Reason {
	case wire.InvalidToken, wire.TokenExpired, wire.TokenRevoked:
		l.account.spent()
	}
	if id := v.Get("id"); id.Kind == wire.Absent || v.Get("retry").True {
		return nil
	}
	l.rejected(v)
	status := exitError
	switch code {
	case 401, 403:
		status = exitRefused
	case 404:
		status = exitNotFound
	}
	return fail(status, r, text(v, "hint"))
}

// explain puts the server's own words before those of the socket.
func (l *link) explain(err error) error {
	var f *failure
	var w writeError
	if errors.As(err, &w) {
		return err // standard output broke, not the socket
	}
	if l.last != nil && !errors.As(err, &f) && !errors.Is(err, errEnough) {
		return l.last
	}
	var closed websocket.CloseError
	switch {
	case errors.As(err, &closed):
		return fmt.Errorf("closed by the server: %d %s", closed.Code, closed.Reason)
	case errors.Is(err, io.EOF):
		return errors.New("connection broken")
	}
	return plain(err)
}

// data prints a market-data message, unless it was printed before.
func (l *link) data(ctx context.Context, c wire.Channel, v *wire.Value, msg []byte) error {
	id := text(v, "I")
	n, err := strconv.ParseUint(text(v, "N"), 10, 64)
	if err != nil {
		return fmt.Errorf("a message of the server has no N: %w", err)
	}
	key := seenKey{c, id}
	before := l.seen[key]
	if c == wire.OrderBook {
		if good, err := l.chains(ctx, id, v, before); !good {
			return err
		}
	} else if n <= before {
		return nil
	}
	if c == wire.Trades && before > 0 && n > before+1 {
		l.talk("lost: trades %s #%d to #%d", id, before+1, n-1)
	}
	l.seen[key] = n
	if err := l.print.message(v, msg); err != nil {
		return writeError{err}
	}
	if l.left > 0 {
		if l.left--; l.left == 0 {
			return errEnough
		}
	}
	return nil
}

// chains says whether a book message goes on from what was printed before. Where it does not, the
// whole book is asked for, once, and nothing of it printed until it comes.
func (l *link) chains(ctx context.Context, id string, v *wire.Value, before uint64) (bool, error) {
	if v.Get("R").True {
		delete(l.torn, id)
		return true, nil
	}
	if l.torn[id] {
		return false, nil
	}
	if text(v, "L") == strconv.FormatUint(before, 10) {
		return true, nil
	}
	l.torn[id] = true
	l.talk("book of %s does not chain at #%s: asking for it again", id, text(v, "N"))
	return false, l.send(ctx, map[string]any{"action": "resync", "order_book": l.covering(id)})
}

// covering are the identifiers, as written, of the subscriptions that give an instrument.
func (l *link) covering(id string) []string {
	if slices.Contains(l.ids, id) {
		return []string{id}
	}
	return l.ids
}
