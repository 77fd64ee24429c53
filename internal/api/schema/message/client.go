package message

import (
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

// Client returns the components of the messages that a client may send, one for each action of
// package wire. null counts as an absent member, and the server ignores members that it does not
// know.
func Client() []schema.Named {
	return []schema.Named{
		named("AuthToken", authToken()),
		named("Subscribe", subscribe()),
		named("Unsubscribe", unsubscribe()),
		named("Subscriptions", schema.Object("Requests the whole set of subscriptions.", action(wire.ActionSubscriptions)...)),
		named("Resync", resync()),
		named("Ping", schema.Object("Requests a pong.", action(wire.ActionPing)...)),
		named("Pong", schema.Object("Answers all pings of the server before it. It never counts towards the rate limit.",
			schema.Required("action", schema.Const(wire.ActionPong)),
			schema.Optional("id", schema.Any("Ignored: a pong has no answer.")))),
		named("SimRequest", simRequest()),
	}
}

// action returns the members that a request begins with.
func action(word string, more ...schema.Field) []schema.Field {
	return slices.Concat([]schema.Field{
		schema.Required("action", schema.Const(word)),
		schema.Optional("id", schema.Ref("RequestID").Describe("Repeated in the answer.")),
	}, more)
}

func authToken() *schema.Schema {
	return schema.Object("Authenticates the connection. Later, it replaces the token. It is the first message of a client.", action(wire.ActionAuthToken,
		schema.Required("token", schema.String("The access token of POST /auth/token.")),
		schema.Optional("session", schema.Ref("SessionName").Describe("Takes over the connection with this name of the same user.")),
		schema.Optional("slow", schema.Enum("What happens if the client reads too slowly: quotes, books and summaries are conflated, or nothing is.",
			wire.SlowConflate, wire.SlowStrict).Default(wire.SlowConflate)),
	)...)
}

// lists returns the members of a request with identifiers by channel.
func lists(channels []string) (fields []schema.Field) {
	for _, name := range channels {
		fields = append(fields, schema.Optional(name, identifiers(name).Describe("Identifiers for the channel "+name+".")))
	}
	return fields
}

// allLists returns the members for the lists of all channels.
func allLists() []schema.Field {
	return append(lists(Channels()), schema.Optional("interval", schema.Ref("Interval").Describe(
		"Interval of the bars whose identifiers name none, 1m by default. Only together with bars.")))
}

// oneOf requires one of the channels.
func oneOf(channels []string, s *schema.Schema) *schema.Schema {
	var some []*schema.Schema
	for _, name := range channels {
		some = append(some, schema.Any("").Keyword("required", []string{name}))
	}
	return s.Keyword("anyOf", some)
}

// oneChannel requires one of all channels, and bars with an interval.
func oneChannel(s *schema.Schema) *schema.Schema {
	return oneOf(Channels(), s).Keyword("dependencies", schema.Map{}.With("interval", []string{wire.Bars.String()}))
}

func unsubscribe() *schema.Schema {
	return oneChannel(schema.Object("Removes identifiers from the set, exactly as they were written. Unknown ones are ignored.",
		action(wire.ActionUnsubscribe, allLists()...)...))
}

func resync() *schema.Schema {
	var channels []string // those with snapshots
	for _, c := range []wire.Channel{wire.Quotes, wire.OrderBook, wire.Status, wire.Summary} {
		channels = append(channels, c.String())
	}
	return oneOf(channels, schema.Object("Requests new snapshots of subscribed books, quotes, statuses and summaries.",
		action(wire.ActionResync, lists(channels)...)...))
}

func subscribe() *schema.Schema {
	fields := slices.Concat(allLists(), []schema.Field{
		schema.Optional("depth", schema.Ref("Depth").Describe("Levels of a side of order_book, 0 for all, 5 by default.")),
		schema.Optional("conflate", schema.Enum("Least time between two messages of an instrument in quotes and order_book.", conflations()...).Default("none")),
		schema.Optional("snapshot", schema.Boolean("False: no snapshots of quotes, books, statuses and summaries.").Default(true)),
		schema.Optional("replace", schema.Boolean("True: the message is the whole set. False: it adds to the set.").Default(false)),
		schema.Optional("alive", schema.Boolean("True: the server sends Alive every 15 s on this connection. False: no longer.")),
		schema.Optional("resume", resume()),
		schema.Optional("start", schema.AnyOf("Replays trades, statuses and bars from this time on, or from the open of the market today. Not together with resume.",
			schema.Const("open"), schema.String("").Format("date-time").Pattern(startPattern))),
	})
	return oneChannel(schema.Object("Adds identifiers to the set of subscriptions, or replaces the set.", action(wire.ActionSubscribe, fields...)...)).
		Keyword("not", schema.Any("").Keyword("required", []string{"resume", "start"}))
}

// startPattern is the pattern of an RFC 3339 time.
const startPattern = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$`

func conflations() []string { return strings.Fields("none 100ms 250ms 1s") }

func resume() *schema.Schema {
	fields := []schema.Field{
		schema.Required("epoch", schema.Ref("Epoch").Describe("Epoch of what the client has.")),
		schema.Optional("position", schema.Ref("Position").Describe("Newest position that the client has, for identifiers without an N.")),
	}
	for _, name := range Channels() {
		fields = append(fields, schema.Optional(name, schema.MapOf("The newest N that the client has, by identifier of the message.",
			schema.Integer("").Between(0, maxInteger-1))))
	}
	return schema.Object("What the client has already received. The server sends what follows. Not together with start.", fields...)
}

func simRequest() *schema.Schema {
	return schema.Object("Requests a fault of the connection or of the market, on development gateways only.", action(wire.ActionSim,
		schema.Required("fault", schema.Enum("The fault.", faults(true)...)),
		schema.Optional("instrument", schema.Ref("InstrumentID").Describe("The instrument of the fault, for faults that take one.")),
		schema.Optional("others", schema.Boolean("True: the other connections of the user have the fault, and not this one. Only for faults of the connection.").Default(false)),
		schema.Optional("speed", schema.Number("With speed: seconds that pass on the market per second. If absent, the answer has the current number.").Range(0.1, 1000)),
	)...)
}
