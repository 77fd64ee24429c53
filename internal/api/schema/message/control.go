package message

import (
	"slices"

	"github.com/ruedahq/rueda/internal/api/reason"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

// maxInteger is the greatest integer that every JSON reader keeps exact.
const maxInteger = 1 << 53

// Control returns the components of the messages of the stream without market data, as package wire
// encodes them.
func Control() []schema.Named {
	return []schema.Named{
		named("Success", success()),
		named("Subscription", subscription()),
		named("CaughtUp", caughtUp()),
		named("Alive", alive()),
		named("TokenExpiring", tokenExpiring()),
		named("SlowClient", slowClient()),
		named("ShuttingDown", shuttingDown()),
		named("Error", failure()),
		named("Sim", simAnswer()),
		named("ServerPing", serverPing()),
		named("ServerPong", serverPong()),
	}
}

// StreamValues returns the components of the values that only messages without market data have.
func StreamValues() []schema.Named {
	return []schema.Named{
		named("RequestID", schema.Any("Text of up to 36 bytes or an integer. The answer repeats it exactly.").
			Keyword("type", []string{"string", "integer"}).Length(0, 36).Between(-maxInteger, maxInteger).Example(2)),
		named("SessionName", schema.String("Name of a session of the user. A newer connection with the same name takes over.").
			Pattern(`^[A-Za-z0-9._-]{1,36}$`).Example("bot")),
		named("BarsIdentifier", schema.String("Identifier of an instrument or of several, as in InstrumentPattern. "+
			"A fourth part names the interval of the bars.").
			Pattern(barsPattern()).Example("GGAL|BYMA|24hs|5m")),
		named("AnyIdentifier", schema.String("An identifier as the client wrote it, valid or not.").Example("NOPE|BYMA|CI")),
		named("SequenceMap", schema.MapOf("The newest N by identifier.", schema.Integer("").AtLeast(0))),
		named("SequencesByChannel", byChannel("The newest N of instruments, by channel and identifier.", schema.Ref("SequenceMap"))),
		named("LostMap", schema.MapOf("Lost messages by identifier.", schema.Ref("LostRange"))),
		named("LostRange", lostRange()),
		named("Rejection", rejection()),
		named("Removal", removal()),
		named("Move", move()),
	}
}

// barsPattern is the pattern of an identifier of bars: one of other channels, and an interval.
func barsPattern() string {
	words := ""
	for i, word := range intervals() {
		if i > 0 {
			words += "|"
		}
		words += word
	}
	return wildcardPattern[:len(wildcardPattern)-1] + `(\|(` + words + `))?$`
}

// byChannel returns an object with a member for each channel.
func byChannel(text string, values *schema.Schema) *schema.Schema {
	var fields []schema.Field
	for _, name := range Channels() {
		fields = append(fields, schema.Optional(name, values))
	}
	return schema.Object(text, fields...)
}

// control returns the members that a message without market data begins with.
func control(kind string, more ...schema.Field) []schema.Field {
	return slices.Concat([]schema.Field{
		schema.Required("type", schema.Const(kind)),
		schema.Required("code", schema.Code(200)),
	}, more)
}

func echoedID() schema.Field {
	return schema.Optional("id", schema.Ref("RequestID").Describe("The id of the request. Absent if it had none."))
}

func epoch() *schema.Schema {
	return schema.Ref("Epoch").Describe("Epoch of the sequence numbers.")
}

func position() *schema.Schema {
	return schema.Ref("Position").Describe("Point in the stream up to which the client has everything. Absent while it is unknown.")
}

func success() *schema.Schema {
	return schema.Object("Answer to auth_token: the connection is authenticated. It begins with type, code and msg in this order.", control("Success",
		schema.Required("msg", schema.Const("Connected")),
		echoedID(),
		schema.Optional("session", schema.Ref("SessionName").Describe("Present if the request named the session.")),
		schema.Required("version", schema.String("Version of the gateway.").Example("1.0.0")),
		schema.Required("time", schema.Ref("Time").Describe("The gateway's clock.")),
		schema.Required("expires_in", schema.Integer("Seconds until the token expires.").AtLeast(0).Example(86400)),
		schema.Required("heartbeat", schema.Object("Heartbeat of the connection.",
			schema.Required("interval", schema.Integer("Seconds between pings of the gateway.").AtLeast(0).Example(20)),
			schema.Required("timeout", schema.Integer("Seconds within which a pong must arrive.").AtLeast(0).Example(30)))),
		schema.Required("limits", schema.Object("Limits of the connection.",
			schema.Required("subscriptions", schema.Integer("Identifiers in the set of subscriptions.").AtLeast(0).Example(2000)),
			schema.Required("messages_per_second", schema.Integer("Messages of the client a second.").AtLeast(0).Example(20)),
			schema.Required("work_per_second", schema.Integer("Units of work of the user's messages that recover in a second.").AtLeast(0).Example(50000)),
			schema.Required("work", schema.Integer("Units of work that the user's messages may cost at once.").AtLeast(0).Example(2000000)),
			schema.Required("message_bytes", schema.Integer("Bytes of a message of the client.").AtLeast(0).Example(65536)),
			schema.Required("max_message_bytes", schema.Integer("Bytes of the longest message of the gateway.").AtLeast(0).Example(10485760)),
			schema.Required("connections", schema.Integer("Connections of the user at the same time.").AtLeast(0).Example(8)),
			schema.Optional("max_depth", schema.Ref("Depth").Describe("Greatest depth of order books, 0 for all levels. Absent: no order books.")))),
		schema.Optional("reauth", schema.True("The connection was authenticated before. Absent otherwise.")),
	)...)
}

func subscription() *schema.Schema {
	fields := control("Subscription",
		schema.Required("msg", schema.String("What was done: Subscribed, Unsubscribed, Resynced, Subscriptions, Rights changed or Epoch.").Example("Subscribed")),
		echoedID(),
		schema.Required("epoch", epoch()),
		schema.Optional("position", position()),
	)
	for _, name := range Channels() {
		fields = append(fields, schema.Optional(name, identifiers(name).Describe(
			"Accepted identifiers of the request as the client wrote them, or those that the set has. Absent: the request did not concern "+name+".")))
	}
	var counts []schema.Field
	for _, name := range Channels() {
		counts = append(counts, schema.Optional(name, schema.Integer("").AtLeast(0)))
	}
	return schema.Object("Answer to subscribe, unsubscribe, subscriptions and resync. The server also sends it if the set changes for another reason.", append(fields,
		schema.Optional("count", schema.Object("Instruments that the set covers now, by channel. Present with the lists.", counts...)),
		schema.Optional("interval", schema.Ref("Interval").Describe("Interval of the listed bars whose identifiers name none. Absent without such bars.")),
		schema.Optional("rejected", schema.Array("Identifiers that were refused. Absent: none.", schema.Ref("Rejection"))),
		schema.Optional("removed", schema.Array("Identifiers that the server removed from the set. Absent: none.", schema.Ref("Removal"))),
		schema.Optional("moved", schema.Array("Identifiers whose data have another delay from now on. Absent: none.", schema.Ref("Move"))),
		schema.Optional("resumed", schema.Ref("SequencesByChannel").Describe("The N up to which a resume or start replays, or the current N of what was subscribed before. Absent: nothing is resumed.")),
		schema.Optional("lost", byChannel("Missed messages that are not replayed, by channel and identifier. Absent: none.", schema.Ref("LostMap"))),
	)...)
}

// identifiers returns the schema of the list of a channel.
func identifiers(channel string) *schema.Schema {
	item := "InstrumentPattern"
	if channel == wire.Bars.String() {
		item = "BarsIdentifier"
	}
	return schema.Array("", schema.Ref(item))
}

func rejection() *schema.Schema {
	return schema.Object("An identifier that was refused.",
		schema.Required("channel", schema.Ref("Channel")),
		schema.Required("instrument", schema.Ref("AnyIdentifier")),
		schema.Required("code", schema.Integer("Code of the reason, as in HTTP.").Keyword("enum", socketCodes()).Example(404)),
		schema.Required("reason", socketReason()),
		schema.Required("msg", schema.String("What is wrong, for people.")),
		schema.Optional("hint", schema.String("What to do, for people. Absent: the server has no suggestion.")),
	)
}

func removal() *schema.Schema {
	return schema.Object("An identifier that the server removed from the set.",
		schema.Required("channel", schema.Ref("Channel")),
		schema.Required("instrument", schema.Ref("BarsIdentifier")),
		schema.Required("reason", socketReason()),
	)
}

func move() *schema.Schema {
	return schema.Object("An identifier whose data have another delay from now on.",
		schema.Required("channel", schema.Ref("Channel")),
		schema.Required("instrument", schema.Ref("BarsIdentifier")),
		schema.Required("delay", schema.Integer("New delay in seconds, 0 for real time.").AtLeast(0).Example(900)),
	)
}

func lostRange() *schema.Schema {
	return schema.Object("Messages that are lost.",
		schema.Optional("from", schema.Ref("Sequence").Describe("First lost N. Absent: unknown.")),
		schema.Optional("to", schema.Ref("Sequence").Describe("Last lost N. Absent: unknown.")),
		schema.Required("reason", schema.Enum("Why they are lost.", reason.Words(func(e reason.Entry) bool { return e.Lost })...)),
	)
}

func caughtUp() *schema.Schema {
	return schema.Object("The replay of a subscribe with resume or start has ended. Live messages follow.", control("CaughtUp",
		echoedID(),
		schema.Required("epoch", epoch()),
		schema.Optional("position", position()),
		schema.Optional("resumed", schema.Ref("SequencesByChannel").Describe("The N up to which messages were replayed. Absent: none were.")),
	)...)
}

func alive() *schema.Schema {
	return schema.Object("Mark that the stream works although instruments are quiet, every 15 s after a subscribe with alive. It never overtakes data.",
		schema.Required("type", schema.Const("Alive")),
		schema.Required("epoch", epoch()),
		schema.Optional("position", position()),
		schema.Required("last", schema.Ref("SequencesByChannel").Describe("The newest N of instruments that were quiet since the last mark, at most 500.")),
	)
}

// warning returns the members that a warning begins with.
func warning(word string, more ...schema.Field) []schema.Field {
	return slices.Concat(control("Warning",
		schema.Required("reason", schema.Const(word)),
		schema.Required("msg", schema.String("The warning, for people.")),
	), more)
}

func tokenExpiring() *schema.Schema {
	return schema.Object("The token expires soon. Refresh it over REST, or send auth_token with a new one.", warning(string(reason.TokenExpiring),
		schema.Required("expires_in", schema.Integer("Seconds until the token expires.").AtLeast(0).Example(300)),
	)...)
}

func slowClient() *schema.Schema {
	return schema.Object("The client reads too slowly. It is closed with slow_client if that continues.", warning(string(wire.SlowClient),
		schema.Required("behind_ms", schema.Integer("Milliseconds that the client is behind.").AtLeast(0).Example(1800)),
		schema.Required("queued", schema.Integer("Messages that wait for the client.").AtLeast(0).Example(412)),
	)...)
}

func shuttingDown() *schema.Schema {
	return schema.Object("The server is about to close the connection with shutting_down. Data continue until then.", warning(string(wire.ShuttingDown),
		schema.Required("reconnect_in_ms", schema.Integer("Milliseconds until the connection is closed, when the client should reconnect.").AtLeast(0).Example(3120)),
	)...)
}

func failure() *schema.Schema {
	return schema.Object("A request failed, or the connection is about to be closed. The code of the close frame is then 4000 + code and its text is reason.",
		schema.Required("type", schema.Const("Error")),
		schema.Required("code", schema.Integer("Code of the reason, as in HTTP.").Keyword("enum", socketCodes()).Example(401)),
		schema.Required("reason", socketReason()),
		schema.Required("msg", schema.String("What is wrong, for people.")),
		echoedID(),
		schema.Required("retry", schema.Boolean("True: the same request may succeed later.")),
		schema.Optional("retry_after", schema.Integer("Seconds after which to retry. Absent: unknown.").AtLeast(1).Example(1)),
		schema.Optional("hint", schema.String("What to do, for people. Absent: the server has no suggestion.")),
		schema.Optional("rejected", schema.Array("Every identifier of the request, if all are refused.", schema.Ref("Rejection"))),
		schema.Optional("last", schema.Ref("SequencesByChannel").Describe("The N that the client will have received, of at most 1,000 instruments with waiting messages. Present with slow_client.")),
	)
}

func simAnswer() *schema.Schema {
	return schema.Object("Answer to sim: the fault follows.", control("Sim",
		schema.Required("msg", schema.String("What will happen, for people.")),
		echoedID(),
		schema.Required("fault", schema.Enum("Name of the fault.", faults(false)...)),
		schema.Optional("speed", schema.Number("With speed: seconds that pass on the market per second.")),
	)...)
}

// faults returns the names of the faults of sim, with their aliases or without.
func faults(aliases bool) (names []string) {
	for _, f := range wire.SimFaults() {
		names = append(names, f.Name)
		if aliases && f.Alias != "" {
			names = append(names, f.Alias)
		}
	}
	return names
}

func serverPing() *schema.Schema {
	return schema.Object("Heartbeat of the server, to be answered with pong. It always has exactly these bytes.",
		schema.Required("action", schema.Const("ping")),
	)
}

func serverPong() *schema.Schema {
	return schema.Object("Answer to a ping of the client.",
		schema.Required("action", schema.Const("pong")),
		echoedID(),
		schema.Required("time", schema.Ref("Time").Describe("The gateway's clock.")),
	)
}

// socketReason returns the schema of the reason of an error on the socket.
func socketReason() *schema.Schema {
	return schema.Enum("Stable word to branch on. New words may be added.", reason.Words(onSocket)...)
}

// socketCodes returns the codes of errors on the socket, in ascending order.
func socketCodes() (codes []int) {
	for _, word := range reason.Words(onSocket) {
		codes = append(codes, wire.Reason(word).Socket().Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

func onSocket(e reason.Entry) bool { return e.Socket }
