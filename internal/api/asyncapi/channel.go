package asyncapi

import (
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/api/reason"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

func info() schema.Map {
	return schema.Map{
		{Name: "title", Value: "Rueda stream"},
		{Name: "version", Value: Version},
		{Name: "description", Value: strings.Join([]string{
			"Real-time market data over one WebSocket, /stream.",
			"The first message of a client is auth_token. The server sends nothing before its answer. Then the client subscribes to channels of instruments.",
			"Messages with market data have a type of one letter and members in capitals. All other messages of the server have a word as type, or an action (ping and pong).",
			"Clients ignore types, members and words that they do not know: additions are not breaking changes.",
			"Numbers are exact decimals without exponent. Read them as decimals, not as binary floating point.",
			"The server ignores members of requests that it does not know. A member that is null counts as absent.",
			"An Error comes before each close of the server. The code of the close frame is 4000 + its code, and the text is its reason (x-close-codes, x-reasons).",
		}, "\n\n")},
		{Name: "license", Value: schema.Map{
			{Name: "name", Value: "Apache-2.0"}, {Name: "url", Value: "https://www.apache.org/licenses/LICENSE-2.0.html"},
		}},
		{Name: "tags", Value: []schema.Map{
			{{Name: "name", Value: "market data"}, {Name: "description", Value: "Trades, quotes, order books, statuses, summaries and bars."}},
			{{Name: "name", Value: "session"}, {Name: "description", Value: "Authentication, subscriptions, heartbeat, errors."}},
		}},
	}
}

func servers() schema.Map {
	security := []schema.Map{ref("#/components/securitySchemes/message"), ref("#/components/securitySchemes/bearer")}
	return schema.Map{
		{Name: "gateway", Value: schema.Map{
			{Name: "host", Value: "{host}"},
			{Name: "protocol", Value: "wss"},
			{Name: "protocolVersion", Value: "13"},
			{Name: "description", Value: "The gateway of a broker."},
			{Name: "variables", Value: schema.Map{{Name: "host", Value: schema.Map{
				{Name: "description", Value: "Host and port of the gateway."}, {Name: "default", Value: "api.broker.test"},
			}}}},
			{Name: "security", Value: security},
		}},
		{Name: "development", Value: schema.Map{
			{Name: "host", Value: "127.0.0.1:8080"},
			{Name: "protocol", Value: "ws"},
			{Name: "protocolVersion", Value: "13"},
			{Name: "description", Value: "A development gateway: rueda dev."},
			{Name: "security", Value: security},
		}},
	}
}

func securitySchemes() schema.Map {
	return schema.Map{
		{Name: "message", Value: schema.Map{
			{Name: "type", Value: "apiKey"},
			{Name: "in", Value: "password"},
			{Name: "description", Value: "The access token of POST /auth/token, in the member token of the message auth_token."},
		}},
		{Name: "bearer", Value: schema.Map{
			{Name: "type", Value: "http"},
			{Name: "scheme", Value: "bearer"},
			{Name: "bearerFormat", Value: "JWT"},
			{Name: "description", Value: "The access token in the Authorization header of the handshake. Success then comes without auth_token."},
		}},
	}
}

func ref(to string) schema.Map { return schema.Map{{Name: "$ref", Value: to}} }

// channel describes /stream.
func channel() schema.Map {
	messages := schema.Map{}
	for _, e := range entries {
		messages = messages.With(e.id(), ref("#/components/messages/"+e.id()))
	}
	return schema.Map{
		{Name: "address", Value: "/stream"},
		{Name: "title", Value: "The stream"},
		{Name: "description", Value: "All messages of both directions. Answers keep the order of the messages that they answer. " +
			"For one channel of one instrument the order is: acknowledgement, snapshot or replay, live messages."},
		{Name: "messages", Value: messages},
		{Name: "bindings", Value: schema.Map{{Name: "ws", Value: schema.Map{
			{Name: "method", Value: "GET"},
			{Name: "headers", Value: handshake()},
			{Name: "bindingVersion", Value: "0.1.0"},
		}}}},
		{Name: "x-formats", Value: formats()},
		{Name: "x-heartbeat", Value: schema.Map{
			{Name: "interval", Value: 20},
			{Name: "timeout", Value: 30},
			{Name: "description", Value: "Seconds, by default; Success has the values of the connection. The server pings from authentication on. " +
				"A pong answers every ping before it. Without one in time the connection is closed with 4504 pong_timeout."},
		}},
		{Name: "x-close-codes", Value: closeCodes()},
	}
}

// handshake returns the headers of the request that opens the stream.
func handshake() *schema.Schema {
	var names []string
	for f := wire.JSON; f <= wire.Msgpack; f++ {
		names = append(names, f.Subprotocol())
	}
	return schema.Object("Headers of the handshake. A token in the URL is refused.",
		schema.Optional("Authorization", schema.String("The access token. With it the server authenticates without auth_token.").Pattern("^Bearer .+$")),
		schema.Optional("Origin", schema.String("Sent by browsers. Only origins that the gateway allows are accepted, by default its own host.")),
		schema.Optional("Sec-WebSocket-Protocol", schema.String("Formats in order of preference, separated by commas. The server selects the first one that it knows: "+
			strings.Join(names, ", ")+". Absent: plain JSON.").Example(wire.Batch.Subprotocol())),
		schema.Optional("Sec-WebSocket-Extensions", schema.String("permessage-deflate compresses each message separately, in both directions. "+
			"The server compresses frames of 200 bytes and more.").Example("permessage-deflate; client_max_window_bits")),
	)
}

// formats describes the subprotocols.
func formats() []schema.Map {
	describe := map[wire.Format][2]string{
		wire.JSON:  {"One JSON object per text frame. Also the format of a connection without subprotocol.", "text"},
		wire.Batch: {"The server sends a JSON array of one or more messages per text frame, also for pings, answers and errors. Their order is the same. The client sends one JSON object per text frame.", "text"},
		wire.Msgpack: {"One MessagePack map per binary frame, with the same keys, arrays and words. Prices, sizes and sums of them are extension type 1, which contains the ASCII text of the decimal. " +
			"All other numbers are integers. The client sends the same, or one JSON object per text frame.", "binary"},
	}
	var list []schema.Map
	for f := wire.JSON; f <= wire.Msgpack; f++ {
		list = append(list, schema.Map{
			{Name: "subprotocol", Value: f.Subprotocol()},
			{Name: "frames", Value: describe[f][1]},
			{Name: "description", Value: describe[f][0]},
		})
	}
	return list
}

// closesAfterFailures reports whether the tenth error of this reason in a minute closes the
// connection.
func closesAfterFailures(e wire.SocketError) bool { return e.Code == 400 }

// closeCodes lists the codes and reasons of the server's close frames. Those of RFC 6455 have no
// reason word.
func closeCodes() []schema.Map {
	var list []schema.Map
	add := func(code int, text, description string) {
		list = append(list, schema.Map{
			{Name: "code", Value: code}, {Name: "reason", Value: text}, {Name: "description", Value: description},
		})
	}
	for _, e := range reason.All() {
		s := e.Word.Socket()
		switch {
		case !e.Socket:
		case s.Closes:
			add(4000+s.Code, string(e.Word), e.Remedy)
		case closesAfterFailures(s):
			add(4000+s.Code, string(e.Word), "The tenth error of code "+strconv.Itoa(s.Code)+" within a minute. Correct the program.")
		}
	}
	for _, c := range []struct {
		code        int
		description string
	}{
		{1000, "The client closed the connection. The server answers with the code of the client, whichever it was, and no reason."},
		{1002, "The client violated RFC 6455. The reason says how, for people. No Error comes before it."},
		{1007, "A text frame was not UTF-8, or compressed data was invalid. The reason says which, for people. No Error comes before it."},
	} {
		list = append(list, schema.Map{{Name: "code", Value: c.code}, {Name: "description", Value: c.description}})
	}
	return list
}

// reasons lists the reason words of the stream.
func reasons() []schema.Map {
	var list []schema.Map
	for _, e := range reason.All() {
		if !e.Socket && !e.Warning && !e.Lost {
			continue
		}
		m := schema.Map{{Name: "reason", Value: string(e.Word)}}
		var in []string
		for _, use := range []struct {
			name string
			is   bool
		}{{"Error", e.Socket}, {"Warning", e.Warning}, {"lost", e.Lost}} {
			if use.is {
				in = append(in, use.name)
			}
		}
		m = m.With("in", in)
		if s := e.Word.Socket(); e.Socket {
			m = m.With("code", s.Code).With("retry", s.Retry).With("closes", s.Closes)
		}
		list = append(list, m.With("cause", e.Cause).With("remedy", e.Remedy))
	}
	return list
}
