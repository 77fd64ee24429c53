package stream

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// control decodes a message that is not market data. Its values are taken as they are: a member of
// another type than documented counts as absent.
func (d *Decoder) control(data []byte, m *Message) error {
	if bytes.Count(data, []byte{','}) > maxValues {
		return fmt.Errorf("%w: more than %d values", ErrMessage, maxValues)
	}
	v, err := wire.ParseJSON(data)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMessage, err)
	}
	*m = Message{Kind: controlKind(&v), Latency: -1}
	if m.Kind == Unknown || m.Kind == Ping {
		return nil
	}
	c := &Control{
		Code:       number(&v, "code"),
		Msg:        text(&v, "msg"),
		ID:         string(v.Get("id").Raw),
		Reason:     wire.Reason(text(&v, "reason")),
		Hint:       text(&v, "hint"),
		Retry:      v.Get("retry").True,
		RetryAfter: duration(&v, "retry_after", time.Second),
		Reconnect:  duration(&v, "reconnect_in_ms", time.Millisecond),
		ExpiresIn:  duration(&v, "expires_in", time.Second),
		Behind:     duration(&v, "behind_ms", time.Millisecond),
		Queued:     number(&v, "queued"),
		Epoch:      text(&v, "epoch"),
		Position:   text(&v, "position"),
	}
	if at := text(&v, "time"); at != "" {
		c.Time, _ = wire.ParseTime(at)
	}
	switch m.Kind {
	case Success:
		c.success(&v)
	case Subscription:
		c.accepted(&v)
		c.Removed = rejections(&v, "removed")
		c.moved(&v)
		c.lost(&v)
	}
	c.Rejected = rejections(&v, "rejected")
	c.Resumed = numbers(&v, "resumed")
	c.Last = numbers(&v, "last")
	m.Control = c
	return nil
}

func controlKind(v *wire.Value) Kind {
	switch text(v, "action") {
	case wire.ActionPing:
		return Ping
	case wire.ActionPong:
		return Pong
	}
	for k, name := range [...]string{
		Success: "Success", Subscription: "Subscription", CaughtUp: "CaughtUp", Alive: "Alive",
		Warning: "Warning", Error: "Error", Sim: "Sim",
	} {
		if name != "" && name == text(v, "type") {
			return Kind(k)
		}
	}
	return Unknown
}

func text(v *wire.Value, name string) string {
	m := v.Get(name)
	if m.Kind != wire.String {
		return ""
	}
	return m.Text
}

func number(v *wire.Value, name string) int {
	m := v.Get(name)
	n, err := strconv.Atoi(m.Text)
	if m.Kind != wire.Number || err != nil {
		return 0
	}
	return n
}

// duration returns a number of units that is not negative, at most a century.
func duration(v *wire.Value, name string, unit time.Duration) time.Duration {
	const most = 100 * 365 * 24 * time.Hour
	return time.Duration(min(max(number(v, name), 0), int(most/unit))) * unit
}

func (c *Control) success(v *wire.Value) {
	heartbeat, limits := v.Get("heartbeat"), v.Get("limits")
	c.Session, c.Version, c.Reauth = text(v, "session"), text(v, "version"), v.Get("reauth").True
	c.Heartbeat.Interval = duration(&heartbeat, "interval", time.Second)
	c.Heartbeat.Timeout = duration(&heartbeat, "timeout", time.Second)
	c.Limits = Limits{
		Subscriptions:     number(&limits, "subscriptions"),
		MessagesPerSecond: number(&limits, "messages_per_second"),
		WorkPerSecond:     number(&limits, "work_per_second"),
		Work:              number(&limits, "work"),
		MessageBytes:      number(&limits, "message_bytes"),
		MaxMessageBytes:   number(&limits, "max_message_bytes"),
		Connections:       number(&limits, "connections"),
		MaxDepth:          number(&limits, "max_depth"),
	}
	if depth := limits.Get("max_depth"); depth.Kind == wire.Absent {
		c.Limits.MaxDepth = -1
	}
}

// accepted reads the lists of identifiers.
func (c *Control) accepted(v *wire.Value) {
	interval, ok := market.ParseInterval(text(v, "interval"))
	if !ok {
		interval = market.Minute
	}
	for channel := range wire.Bars + 1 {
		list := v.Get(channel.String())
		c.Given[channel] = list.Kind == wire.Array
		for i := range list.Items {
			if s, ok := series(channel, list.Items[i].Text, interval); ok {
				c.Accepted = append(c.Accepted, s)
			}
		}
	}
}

// series parses an identifier or pattern of a channel. Identifiers of bars may name their interval.
func series(channel wire.Channel, id string, interval market.Interval) (Series, bool) {
	if channel == wire.Bars {
		if cut := strings.LastIndexByte(id, '|'); strings.Count(id, "|") == 3 {
			named, ok := market.ParseInterval(id[cut+1:])
			if !ok {
				return Series{}, false
			}
			id, interval = id[:cut], named
		}
		channel = wire.BarsOf(interval)
	}
	parsed, err := market.ParsePattern(id)
	return Series{channel, parsed}, err == nil
}

func rejections(v *wire.Value, name string) (list []Rejection) {
	all := v.Get(name)
	for i := range all.Items {
		r := &all.Items[i]
		list = append(list, Rejection{
			Channel: text(r, "channel"), Instrument: text(r, "instrument"), Code: number(r, "code"),
			Reason: wire.Reason(text(r, "reason")), Msg: text(r, "msg"), Hint: text(r, "hint"),
		})
	}
	return list
}

func (c *Control) moved(v *wire.Value) {
	all := v.Get("moved")
	for i := range all.Items {
		r := &all.Items[i]
		c.Moved = append(c.Moved, Moved{text(r, "channel"), text(r, "instrument"), duration(r, "delay", time.Second)})
	}
}

func (c *Control) lost(v *wire.Value) {
	for s, value := range bySeries(v, "lost") {
		if c.Lost == nil {
			c.Lost = map[Series]wire.Range{}
		}
		from, to := value.Get("from"), value.Get("to")
		c.Lost[s] = wire.Range{From: sequence(&from), To: sequence(&to), Reason: text(value, "reason")}
	}
}

// numbers reads an object of numbers N by channel and identifier.
func numbers(v *wire.Value, name string) (all map[Series]uint64) {
	for s, value := range bySeries(v, name) {
		if all == nil {
			all = map[Series]uint64{}
		}
		all[s] = sequence(value)
	}
	return all
}

func sequence(v *wire.Value) uint64 {
	n, err := strconv.ParseUint(v.Text, 10, 64)
	if v.Kind != wire.Number || err != nil {
		return 0
	}
	return n
}

// bySeries iterates over an object of values by channel and identifier.
func bySeries(v *wire.Value, name string) func(yield func(Series, *wire.Value) bool) {
	interval, ok := market.ParseInterval(text(v, "interval"))
	if !ok {
		interval = market.Minute
	}
	all := v.Get(name)
	return func(yield func(Series, *wire.Value) bool) {
		for channel := range wire.Bars + 1 {
			ids := all.Get(channel.String())
			for i := range ids.Fields {
				s, ok := series(channel, ids.Fields[i].Name, interval)
				if ok && !yield(s, &ids.Fields[i].Value) {
					return
				}
			}
		}
	}
}
