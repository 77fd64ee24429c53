package wire

import (
	"maps"
	"slices"
	"strconv"

	"github.com/ruedahq/rueda/market"
)

// Ping is the server's heartbeat message. Clients may compare it byte by byte.
const Ping = `{"action":"ping"}`

// AppendPong appends the answer to a client's ping. id is echoed as sent.
func AppendPong(b, id []byte, now int64) []byte {
	b = append(b, `{"action":"pong"`...)
	b = appendID(b, id)
	b = append(b, `,"time":"`...)
	b = AppendTime(b, now)
	return append(b, `"}`...)
}

// AuthSuccess is the Success message, which answers auth_token. Its first three members are fixed
// by the specification and come first.
type AuthSuccess struct {
	ID        []byte // as sent; empty: none
	Session   string // takeover name; "": none
	Version   string // of the server
	Time      int64  // Unix ns
	ExpiresIn int    // seconds until the token expires
	Interval  int    // seconds between pings
	Timeout   int    // seconds to wait for a pong

	Subscriptions     int
	MessagesPerSecond int
	WorkPerSecond     int // units of work of a user that recover in a second
	Work              int // units of the whole allowance
	MessageBytes      int
	MaxMessageBytes   int // of the server
	Connections       int
	MaxDepth          int // deepest book tier: 0 all levels, -1 no books (the member is omitted)

	Reauth bool
}

// AppendAuthSuccess appends a Success message.
func AppendAuthSuccess(b []byte, s *AuthSuccess) []byte {
	b = append(b, `{"type":"Success","code":200,"msg":"Connected"`...)
	b = appendID(b, s.ID)
	b = appendText(b, "session", s.Session)
	b = appendText(b, "version", s.Version)
	b = append(b, `,"time":"`...)
	b = AppendTime(b, s.Time)
	b = append(b, '"')
	b = appendInt(b, "expires_in", s.ExpiresIn)
	b = append(b, `,"heartbeat":{"interval":`...)
	b = strconv.AppendInt(b, int64(s.Interval), 10)
	b = appendInt(b, "timeout", s.Timeout)
	b = append(b, `},"limits":{"subscriptions":`...)
	b = strconv.AppendInt(b, int64(s.Subscriptions), 10)
	b = appendInt(b, "messages_per_second", s.MessagesPerSecond)
	b = appendInt(b, "work_per_second", s.WorkPerSecond)
	b = appendInt(b, "work", s.Work)
	b = appendInt(b, "message_bytes", s.MessageBytes)
	b = appendInt(b, "max_message_bytes", s.MaxMessageBytes)
	b = appendInt(b, "connections", s.Connections)
	if s.MaxDepth >= 0 {
		b = appendInt(b, "max_depth", s.MaxDepth)
	}
	b = append(b, '}')
	if s.Reauth {
		b = append(b, `,"reauth":true`...)
	}
	return append(b, '}')
}

// Subscription acknowledges every request that reads or changes the set of subscriptions. It also
// reports changes that the server makes to the set.
//
// All intervals of bars share one key. An identifier has its interval as a fourth part, or is
// written as the client wrote it.
type Subscription struct {
	Msg      string // what was done
	ID       []byte // as sent; empty: none
	Epoch    string
	Position string
	Given    [NumChannels]bool // the channels that Lists and Count describe
	Lists    [NumChannels][]string
	Count    [NumChannels]int // instruments covered
	Interval string           // interval of the bars in Lists that name none; "": there are none
	Rejected []Rejection
	Removed  []Rejection // without Hint
	Moved    []Moved
	Resumed  [NumChannels]map[string]uint64
	Lost     [NumChannels]map[string]Range
}

// Rejection is an identifier that was rejected, or removed from the set.
type Rejection struct {
	Channel    string
	Instrument string // as written
	Reason     Reason
	Hint       string // may be empty
}

// Moved is an identifier of the set whose data have a new delay from now on.
type Moved struct {
	Channel    string
	Instrument string // as written
	Delay      int    // seconds; 0: real time
}

// Range is a range of sequence numbers that a resume could not replay.
type Range struct {
	From, To uint64 // 0: unknown
	Reason   string
}

// AppendSubscription appends a Subscription message.
func AppendSubscription(b []byte, s *Subscription) []byte {
	b = append(b, `{"type":"Subscription","code":200,"msg":`...)
	b = AppendString(b, s.Msg)
	b = appendID(b, s.ID)
	b = appendText(b, "epoch", s.Epoch)
	b = appendText(b, "position", s.Position)
	b = appendLists(b, s)
	b = appendText(b, "interval", s.Interval)
	b = AppendRejected(b, s.Rejected)
	b = appendRemoved(b, s.Removed)
	b = appendMoved(b, s.Moved)
	b = appendResumed(b, &s.Resumed)
	b = appendLost(b, &s.Lost)
	return append(b, '}')
}

// appendLists appends the lists of the given channels and the number of instruments they cover.
func appendLists(b []byte, s *Subscription) []byte {
	var bars []string
	some, someBars, covered := false, false, 0
	for c, given := range s.Given {
		switch {
		case !given:
			continue
		case Channel(c) >= Bars:
			bars, someBars, covered = append(bars, s.Lists[c]...), true, covered+s.Count[c]
		default:
			b = appendName(b, Channel(c).String())
			b = AppendStrings(b, s.Lists[c])
		}
		some = true
	}
	if !some {
		return b
	}
	if someBars {
		b = appendName(b, Bars.String())
		b = AppendStrings(b, bars)
	}
	b = appendName(b, "count")
	open := len(b)
	for c, given := range s.Given[:Bars] {
		if given {
			b = appendInt(b, Channel(c).String(), s.Count[c])
		}
	}
	if someBars {
		b = appendInt(b, Bars.String(), covered)
	}
	b[open] = '{' // replaces the first comma
	return append(b, '}')
}

// rejectionSize is the usual length of a rejection.
const rejectionSize = 176

// AppendRejected appends the member "rejected" with a leading comma, or nothing for an empty list.
func AppendRejected(b []byte, list []Rejection) []byte {
	if len(list) == 0 {
		return b
	}
	b = slices.Grow(b, len(list)*rejectionSize)
	b = append(b, `,"rejected":[`...)
	for i := range list {
		r := &list[i]
		e := r.Reason.Socket()
		b = appendRejection(b, r, i)
		b = appendInt(b, "code", e.Code)
		b = appendText(b, "reason", string(r.Reason))
		b = appendText(b, "msg", e.Msg)
		b = appendText(b, "hint", r.Hint)
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendRemoved(b []byte, list []Rejection) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(b, `,"removed":[`...)
	for i := range list {
		b = appendRejection(b, &list[i], i)
		b = appendText(b, "reason", string(list[i].Reason))
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendMoved(b []byte, list []Moved) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(b, `,"moved":[`...)
	for i := range list {
		m := &list[i]
		b = appendRejection(b, &Rejection{Channel: m.Channel, Instrument: m.Instrument}, i)
		b = appendInt(b, "delay", m.Delay)
		b = append(b, '}')
	}
	return append(b, ']')
}

func appendRejection(b []byte, r *Rejection, i int) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	b = append(b, `{"channel":`...)
	b = AppendString(b, r.Channel)
	b = append(b, `,"instrument":`...)
	return AppendString(b, r.Instrument)
}

// appendResumed appends the member "resumed" with a leading comma, sorted by name.
func appendResumed(b []byte, all *[NumChannels]map[string]uint64) []byte {
	return appendByChannel(b, "resumed", all, strconv.AppendUint)
}

func appendLost(b []byte, all *[NumChannels]map[string]Range) []byte {
	return appendByChannel(b, "lost", all, func(b []byte, l Range, _ int) []byte {
		b = append(b, '{')
		if l.From > 0 {
			b = append(b, `"from":`...)
			b = strconv.AppendUint(b, l.From, 10)
			b = append(b, ',')
		}
		if l.To > 0 {
			b = append(b, `"to":`...)
			b = strconv.AppendUint(b, l.To, 10)
			b = append(b, ',')
		}
		b = append(b, `"reason":`...)
		b = AppendString(b, l.Reason)
		return append(b, '}')
	})
}

// appendByChannel appends a member {channel:{identifier:value}} with a leading comma, or nothing if
// there are no values. Identifiers are sorted.
func appendByChannel[V any](b []byte, name string, all *[NumChannels]map[string]V, value func([]byte, V, int) []byte) []byte {
	var o byChannel
	for c := range all {
		if len(all[c]) == 0 {
			continue
		}
		for _, id := range slices.Sorted(maps.Keys(all[c])) {
			if o.members == 0 {
				b = appendName(b, name)
			}
			b = o.open(b, Channel(c))
			b = AppendString(b, id)
			b = append(b, ':')
			b = value(b, all[c][id], 10)
		}
	}
	if o.members > 0 {
		b = o.close(b)
	}
	return b
}

// byChannel writes an object of objects by channel. The channels of bars, which come last, share
// one object.
type byChannel struct {
	members int
	channel Channel
}

// open appends what comes before the next member of a channel.
func (o *byChannel) open(b []byte, c Channel) []byte {
	c = min(c, Bars)
	o.members++
	switch {
	case o.members == 1:
		b = append(b, '{')
	case c == o.channel:
		return append(b, ',')
	default:
		b = append(b, '}', ',')
	}
	o.channel = c
	b = AppendString(b, c.String())
	return append(b, ':', '{')
}

// close appends the closing brackets.
func (o *byChannel) close(b []byte) []byte {
	if o.members == 0 {
		return append(b, '{', '}')
	}
	return append(b, '}', '}')
}

// AppendCaughtUp appends the message that follows the last replayed row.
func AppendCaughtUp(b, id []byte, epoch, position string, resumed *[NumChannels]map[string]uint64) []byte {
	b = append(b, `{"type":"CaughtUp","code":200`...)
	b = appendID(b, id)
	b = appendText(b, "epoch", epoch)
	b = appendText(b, "position", position)
	b = appendResumed(b, resumed)
	return append(b, '}')
}

// Last holds the last sequence number of each instrument, by channel.
type Last [NumChannels][]Sequence

// Sequence is the last N of an instrument in a channel.
type Sequence struct {
	ID market.InstrumentID
	N  uint64
}

// AppendAlive appends an Alive message, which reports idle instruments and the position of the
// stream.
func AppendAlive(b []byte, epoch, position string, last *Last) []byte {
	b = append(b, `{"type":"Alive"`...)
	b = appendText(b, "epoch", epoch)
	b = appendText(b, "position", position)
	b = AppendLast(b, last)
	return append(b, '}')
}

// AppendLast appends the member "last" with a leading comma: an object by channel and identifier,
// empty if nothing is known.
func AppendLast(b []byte, last *Last) []byte {
	b = append(b, `,"last":`...)
	var o byChannel
	for c := range last {
		for i := range last[c] {
			b = o.open(b, Channel(c))
			b = append(b, '"')
			b = Channel(c).Append(b, last[c][i].ID) // an identifier needs no escapes
			b = append(b, '"', ':')
			b = strconv.AppendUint(b, last[c][i].N, 10)
		}
	}
	return o.close(b)
}

// AppendTokenExpiring appends the warning that a token is about to expire, in expiresIn seconds.
func AppendTokenExpiring(b []byte, expiresIn int) []byte {
	b = appendWarning(b, "token_expiring", "Access token expires soon: refresh it, or send auth_token with a new one")
	b = appendInt(b, "expires_in", expiresIn)
	return append(b, '}')
}

// AppendSlow appends the warning to a client that reads too slowly.
func AppendSlow(b []byte, msg string, behindMillis, queued int) []byte {
	b = appendWarning(b, string(SlowClient), msg)
	b = appendInt(b, "behind_ms", behindMillis)
	b = appendInt(b, "queued", queued)
	return append(b, '}')
}

// AppendShuttingDown appends the warning that the server is about to close the connection.
func AppendShuttingDown(b []byte, reconnectInMillis int) []byte {
	b = appendWarning(b, string(ShuttingDown), "Reconnect")
	b = appendInt(b, "reconnect_in_ms", reconnectInMillis)
	return append(b, '}')
}

func appendWarning(b []byte, reason, msg string) []byte {
	b = append(b, `{"type":"Warning","code":200,"reason":"`...)
	b = append(b, reason...)
	b = append(b, `","msg":`...)
	return AppendString(b, msg)
}

// appendInt appends an integer member with a leading comma.
func appendInt(b []byte, name string, n int) []byte {
	return strconv.AppendInt(appendName(b, name), int64(n), 10)
}
