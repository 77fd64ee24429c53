package openapi

import (
	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/wire"
)

// rightReasons returns the reasons of errors that any request for the data of an instrument may
// get, followed by the reasons in more.
func rightReasons(more ...wire.Reason) []wire.Reason {
	return append([]wire.Reason{wire.BadInstrument, wire.UnknownInstrument, wire.NotEntitled, wire.SubscriptionLimit, wire.Unavailable}, more...)
}

// filterBy returns an optional query parameter that selects rows. An empty value selects all rows.
func filterBy(name, text string) Parameter {
	return Parameter{Name: name, Empty: true, Schema: schema.String(text).Length(0, 64)}
}

func instrumentParameter() Parameter {
	return Parameter{Name: "instrument", Empty: true, Required: true, Schema: schema.Ref("InstrumentID")}
}

func depthParameter() Parameter {
	return Parameter{Name: "depth", Schema: schema.Enum("Levels of each side, 0 for all.", "0", "1", "5", "10", "25").Default("5")}
}

// timeParameter returns an optional query parameter for a time, which has one of three forms.
func timeParameter(name, text string) Parameter {
	return Parameter{Name: name, Schema: schema.String(text+" RFC 3339, a date for the start of that trading day in the market, or Unix nanoseconds from 1973 on.").Example("2026-11-20T14:30:00Z", "2026-11-20")}
}

func dateSchema(text string) *schema.Schema {
	return schema.String(text).Format("date").Pattern(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)
}

func marketOperations() []Operation {
	return []Operation{
		{
			ID: "listMarkets", Method: "GET", Path: "/market/markets", Tag: tagMarket, Needs: broker.ScopeRead,
			Summary: "List the markets and their settlement terms",
			Answer:  Answer{Description: "The markets.", Data: schema.Ref("Markets")},
		},
		{
			ID: "listInstruments", Method: "GET", Path: "/market/instruments", Tag: tagMarket, Needs: broker.ScopeRead, Compressed: true,
			Summary: "List the instruments",
			Query: []Parameter{
				filterBy("market", "Only instruments of this market."), filterBy("term", "Only instruments of this settlement term."),
				filterBy("kind", "Only instruments of this kind."), filterBy("q", "Part of the symbol, name or ISIN, in any case."),
				pageLimit(100, 1000), pageCursor(),
			},
			Answer:  Answer{Description: "A page of instruments.", Data: schema.Ref("InstrumentPage"), Tagged: true},
			Reasons: []wire.Reason{wire.Unavailable},
		},
		{
			ID: "getMarketStatus", Method: "GET", Path: "/market/status", Tag: tagMarket, Needs: broker.ScopeRead,
			Summary: "Get the trading status of the markets",
			Answer:  Answer{Description: "The markets, with their instruments in another phase.", Data: schema.Ref("MarketStatuses")},
			Reasons: []wire.Reason{wire.Unavailable},
		},
		{
			ID: "getTime", Method: "GET", Path: "/market/time", Tag: tagMarket, Needs: AnyUser,
			Summary: "Get the time of the server",
			Answer:  Answer{Description: "The time.", Data: schema.Object("", schema.Required("time", schema.Ref("Time")))},
		},
		{
			ID: "getSnapshot", Method: "GET", Path: "/market/snapshot", Tag: tagMarket, Needs: broker.ScopeRead,
			Summary: "Get the newest messages of instruments",
			Query: []Parameter{{Name: "instruments", Empty: true, Required: true, List: true,
				Schema: schema.Array("Up to 100 identifiers.", schema.Ref("InstrumentID")).Items(1, 100)}},
			Answer:  Answer{Description: "The messages, and the position from which a client can resume.", Data: schema.Ref("Snapshot")},
			Reasons: rightReasons(),
		},
		{
			ID: "getBook", Method: "GET", Path: "/market/book", Tag: tagMarket, Needs: broker.ScopeRead, Also: []string{broker.ScopeDepth, broker.ScopeHistory},
			Summary: "Get an order book, now or in the past",
			Query:   []Parameter{instrumentParameter(), depthParameter(), timeParameter("at", "Time of the book: before the first change whose T is later."), {Name: "by", Schema: schema.Enum("The time is that of publication.", "published")}},
			Answer:  Answer{Description: "The order book.", Data: schema.Ref("BookSnapshot")},
			Reasons: rightReasons(wire.NotFound, wire.RateLimited),
		},
		{
			ID: "getCalendar", Method: "GET", Path: "/market/calendar", Tag: tagMarket, Needs: broker.ScopeRead, Compressed: true,
			Summary: "Get the planned trading days of the markets",
			Query: []Parameter{filterBy("market", "Only this market."),
				{Name: "from", Schema: dateSchema("First day, in the time zone of each market.")},
				{Name: "to", Schema: dateSchema("Day after the last one. At most 366 days after from.")}},
			Answer:  Answer{Description: "The calendars.", Data: schema.Ref("Calendars"), Tagged: true},
			Reasons: []wire.Reason{wire.RangeTooLarge, wire.Unavailable},
		},
	}
}

// historyOperation returns an operation that serves pages of past rows. list is the name of the
// member with the rows, and row is the schema of a row. The parameters in more come first.
func historyOperation(id, path, list, summary string, row *schema.Schema, more ...Parameter) Operation {
	page := schema.Object("", schema.Required(list, schema.Array("The rows, in the order of N.", row)), schema.Required("epoch", schema.Ref("Epoch")),
		schema.Optional("complete_from", schema.Ref("Sequence").Describe("The least N of the current epoch from which no row is missing. Absent: 1.")),
		schema.Optional("lost", schema.Array("Rows that are not stored where the page would have them, and on the first page those that are no longer kept. Absent: none.", schema.Ref("MissingRange"))),
		schema.Optional("next_cursor", schema.String("Absent on the last page.")))
	return Operation{
		ID: id, Method: "GET", Path: path, Tag: tagHistory, Needs: broker.ScopeHistory, Compressed: true,
		Summary:     summary,
		Description: "A row is the message that was streamed. Users of delayed data get rows with the same delay.",
		Offers:      []string{JSON, CSV, Lines},
		Query: append(more, instrumentParameter(), timeParameter("start", "First event time."), timeParameter("end", "Event time after the last one."),
			Parameter{Name: "after_sequence", Schema: schema.Integer("Rows of the current epoch above this N.").AtLeast(0)},
			Parameter{Name: "epoch", Schema: schema.Ref("Epoch")},
			Parameter{Name: "order", Schema: schema.Enum("Order of the rows.", "asc", "desc").Default("asc")},
			pageLimit(1000, 10_000), pageCursor()),
		Answer: Answer{Description: "A page of rows.", Data: page, Tagged: true, Header: []string{"Link", "Rueda-Lost"}, Text: map[string]*schema.Schema{
			CSV:   schema.String("A line of column names, and a line for each row."),
			Lines: schema.String("A message on each line.")}},
		Reasons: rightReasons(wire.EpochChanged, wire.NotFound, wire.RateLimited),
	}
}

func historyOperations() []Operation {
	statuses := historyOperation("listStatuses", "/market/statuses", "statuses", "List trading statuses of an instrument, or of a market (*|MARKET|*)", schema.Ref("Status"))
	for i := range statuses.Query {
		if statuses.Query[i].Name == "instrument" {
			statuses.Query[i].Schema = schema.Ref("InstrumentPattern")
		}
	}
	return []Operation{
		historyOperation("listTrades", "/market/trades", "trades", "List trades, cancels and corrections",
			schema.OneOf("", schema.Ref("Trade"), schema.Ref("Cancel"), schema.Ref("Correction"))),
		historyOperation("listQuotes", "/market/quotes", "quotes", "List quotes", schema.Ref("Quote")),
		statuses,
		historyOperation("listBars", "/market/bars", "bars", "List bars, including revisions", schema.Ref("Bar"),
			Parameter{Name: "interval", Schema: schema.Ref("Interval")}),
		{
			ID: "exportDay", Method: "GET", Path: "/market/export", Tag: tagHistory, Needs: broker.ScopeHistory, Also: []string{broker.ScopeDepth}, Compressed: true,
			Summary:     "Download a closed day as a file",
			Description: "depth needs the right to whole books. Parquet files are compressed themselves.",
			Offers:      []string{Parquet, CSV, Lines},
			Query: []Parameter{
				{Name: "type", Required: true, Schema: schema.Enum("Table.", "trades", "quotes", "bars", "depth")},
				{Name: "date", Required: true, Schema: dateSchema("Day in UTC.")},
				{Name: "market", Schema: schema.Ref("MarketID")},
				{Name: "format", Schema: schema.Enum("Format of the file. Without it Accept decides.", "parquet", "csv", "ndjson").Default("parquet")},
			},
			Answer: Answer{Description: "The file.", Bare: true, Tagged: true, Header: []string{"Content-Disposition", "Rueda-Lost"}, Text: map[string]*schema.Schema{
				Parquet: schema.Any("A Parquet file."), CSV: schema.String("A line of column names, and a line for each row."), Lines: schema.String("An object on each line.")}},
			Reasons: []wire.Reason{wire.NotFound, wire.NotEntitled, wire.SubscriptionLimit, wire.RateLimited, wire.Unavailable},
		},
	}
}

// identifiers returns a query parameter that lists the identifiers to subscribe to in a channel.
func identifiers(channel string) Parameter {
	return Parameter{Name: channel, List: true, Schema: schema.Array("Identifiers of the channel "+channel+".", schema.String(""))}
}

func option(name, text string) Parameter {
	return Parameter{Name: name, Schema: schema.Boolean(text)}
}

func streamOperations() []Operation {
	channels := []Parameter{identifiers("trades"), identifiers("quotes"), identifiers("order_book"), identifiers("status"), identifiers("summary"), identifiers("bars")}
	return []Operation{
		{
			ID: "streamEvents", Method: "GET", Path: "/market/stream", Tag: tagStream, Needs: broker.ScopeRead,
			Summary:     "The stream over HTTP",
			Description: "The messages of the stream as server-sent events or JSON lines: see /asyncapi.json. The first message is the Subscription. An error before it is an HTTP status.",
			Offers:      []string{Events, Lines},
			Query: append(channels, depthParameter(),
				Parameter{Name: "conflate", Schema: schema.String("Time between two messages of an instrument: none, 100ms, 250ms or 1s.")},
				Parameter{Name: "interval", Schema: schema.String("Interval of bars that name none.")},
				option("snapshot", "false: no snapshots."), option("alive", "true: marks for quiet instruments."),
				Parameter{Name: "start", Schema: schema.String("Replay from this time on, or from the open of the market today (open).")},
				Parameter{Name: "slow", Schema: schema.String("What happens to a slow client: conflate or strict.")}),
			Header: []Parameter{{Name: "Last-Event-ID", Schema: schema.String("The id of the last event that the client received. The stream resumes there.")}},
			Answer: Answer{Description: "The stream.", Bare: true, Header: []string{"X-Accel-Buffering"}, Text: map[string]*schema.Schema{
				Events: schema.String("Events. The id of an event is a position."), Lines: schema.String("A message on each line.")}},
			Reasons: []wire.Reason{
				wire.BadInstrument, wire.UnsupportedOption, wire.UnknownInstrument, wire.UnknownChannel, wire.NotEntitled, wire.SubscriptionLimit,
				wire.RangeTooLarge, wire.ConnectionLimit, wire.RateLimited, wire.TooManyFailures, wire.NotFound, wire.Unavailable, wire.Overloaded, wire.ShuttingDown,
			},
		},
		{
			ID: "openStream", Method: "GET", Path: StreamPath, Tag: tagStream, Upgrade: true, Lax: true,
			Summary:     "WebSocket handshake of the stream",
			Description: "The messages after the handshake are described by /asyncapi.json. A Bearer token may be sent here instead of auth_token.",
			Answer:      Answer{Description: "The connection is a WebSocket now.", Bare: true},
		},
	}
}
