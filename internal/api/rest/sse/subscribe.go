package sse

import (
	"strings"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/wire"
)

func channels() []string {
	return []string{"trades", "quotes", "order_book", "status", "summary", "bars"}
}

// subscribeMessage returns the subscribe message for the query and the Last-Event-ID of a request.
// It checks only the form of values; the session checks the rest.
func subscribeMessage(q *api.Request) ([]byte, *wire.Failure) {
	b := append([]byte(nil), `{"action":"subscribe"`...)
	some := false
	for _, channel := range channels() {
		text := q.Params.Get(channel)
		if text == "" {
			continue
		}
		some = true
		b = append(wire.AppendString(append(b, ','), channel), ':')
		b = wire.AppendStrings(b, strings.Split(text, ","))
	}
	if !some {
		return nil, wire.NewFailure(wire.BadField, "trades", "is missing: name trades, quotes, order_book, status, summary or bars with identifiers")
	}
	for _, name := range [...]string{"conflate", "interval"} {
		if text := q.Params.Get(name); text != "" {
			b = append(wire.AppendString(append(b, ','), name), ':')
			b = wire.AppendString(b, text)
		}
	}
	var f *wire.Failure
	if b, f = appendOptions(b, q); f != nil {
		return nil, f
	}
	if b, f = appendStart(b, q); f != nil {
		return nil, f
	}
	return append(b, '}'), nil
}

// appendOptions appends the members of a subscribe that are numbers or booleans.
func appendOptions(b []byte, q *api.Request) ([]byte, *wire.Failure) {
	switch depth := q.Params.Get("depth"); depth {
	case "":
	case "0", "1", "5", "10", "25":
		b = append(append(b, `,"depth":`...), depth...)
	default:
		return nil, wire.NewFailure(wire.BadField, "depth", "must be 1, 5, 10, 25 or 0 (all)")
	}
	for _, name := range [...]string{"snapshot", "alive"} {
		text := q.Params.Get(name)
		// JSON lines have no comments that show that the stream is alive.
		if name == "alive" && text == "" && q.Media == api.MediaLines {
			text = "true"
		}
		switch text {
		case "":
		case "true", "false":
			b = append(wire.AppendString(append(b, ','), name), ':')
			b = append(b, text...)
		default:
			return nil, wire.NewFailure(wire.BadField, name, "must be true or false")
		}
	}
	return b, nil
}

// appendStart appends the point at which the stream begins. For a client that reconnects, this is
// the position in Last-Event-ID, and otherwise the parameter start.
func appendStart(b []byte, q *api.Request) ([]byte, *wire.Failure) {
	start := q.Params.Get("start")
	ids := q.Header.Values("Last-Event-Id")
	if len(ids) == 0 {
		if start != "" {
			b = wire.AppendString(append(b, `,"start":`...), start)
		}
		return b, nil
	}
	cut := strings.LastIndexByte(ids[0], ':')
	if len(ids) > 1 || cut <= 0 {
		return nil, wire.NewFailure(wire.BadField, "Last-Event-ID", "is not an event id of this stream")
	}
	b = wire.AppendString(append(b, `,"resume":{"epoch":`...), ids[0][:cut])
	b = wire.AppendString(append(b, `,"position":`...), ids[0])
	return append(b, '}'), nil
}
