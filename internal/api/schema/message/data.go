package message

import (
	"slices"

	"github.com/ruedahq/rueda/internal/api/schema"
)

// Data returns the components of the messages with market data, as package wire encodes them.
func Data() []schema.Named {
	return []schema.Named{
		named("Trade", trade()),
		named("Cancel", cancel()),
		named("Correction", correction()),
		named("Quote", quote()),
		named("BookSnapshot", bookSnapshot()),
		named("BookUpdate", bookUpdate()),
		named("Status", status()),
		named("Summary", summary()),
		named("Bar", bar()),
	}
}

// header returns the members that every message with market data begins with.
func header(kind string, more ...schema.Field) []schema.Field {
	return numbered(kind, schema.Ref("Sequence"), more...)
}

func numbered(kind string, n *schema.Schema, more ...schema.Field) []schema.Field {
	return slices.Concat([]schema.Field{
		schema.Required("type", schema.Const(kind)),
		schema.Required("S", schema.Ref("Symbol")),
		schema.Required("I", schema.Ref("InstrumentPattern")),
		schema.Optional("DE", schema.Ref("Delay")),
		schema.Required("N", n),
		schema.Required("T", schema.Ref("Time")),
		schema.Optional("D", schema.Integer("Nanoseconds from T to publication. Absent if the market provides no time or has a virtual clock, and in delayed data over REST.").AtLeast(0)),
	}, more)
}

func sideOf() *schema.Schema {
	return schema.Enum("Aggressor: B is the buyer, S the seller. Absent: unknown.", "B", "S")
}

func conditions() *schema.Schema {
	return schema.Array("Words of the market about the trade.", schema.String("").Length(1, 64)).Items(1, 8)
}

func tradeID() *schema.Schema { return schema.String("The market's id of the trade.").Length(1, 64) }

func price(text string) *schema.Schema { return schema.Ref("Price").Describe(text) }

func size(text string) *schema.Schema { return schema.Ref("Size").Describe(text) }

func snapshotFlag() *schema.Schema {
	return schema.True("The message is a snapshot, for a new subscriber or after a gap.")
}

func trade() *schema.Schema {
	return schema.Object("A trade.", header("T",
		schema.Required("P", price("Price.")),
		schema.Required("Z", size("Size.")),
		schema.Optional("X", tradeID()),
		schema.Optional("G", sideOf()),
		schema.Optional("C", conditions()),
	)...).Example(raw(`{"type":"T","S":"GGAL","I":"GGAL|BYMA|24hs","N":1042,"T":"2026-11-20T14:30:00.123456789Z","D":184200,"P":7050,"Z":120,"X":"88123","G":"B"}`))
}

// tradeReference returns the members that refer to an earlier trade. They follow a message's own.
func tradeReference() []schema.Field {
	return []schema.Field{
		schema.Optional("G", sideOf()),
		schema.Optional("C", conditions()),
		schema.Optional("XN", schema.Ref("Sequence").Describe("N of the trade. Absent: the trade is older than the epoch.")),
	}
}

func cancel() *schema.Schema {
	return schema.Object("A trade is cancelled.", header("X", slices.Concat([]schema.Field{
		schema.Optional("X", tradeID()),
		schema.Required("P", price("Price of the cancelled trade.")),
		schema.Required("Z", size("Size of the cancelled trade.")),
	}, tradeReference())...)...)
}

func correction() *schema.Schema {
	return schema.Object("A trade is corrected.", header("C", slices.Concat([]schema.Field{
		schema.Optional("X", tradeID()),
		schema.Required("P", price("New price.")),
		schema.Required("Z", size("New size.")),
		schema.Required("XP", price("Old price.")),
		schema.Required("XZ", size("Old size.")),
	}, tradeReference())...)...)
}

func quote() *schema.Schema {
	return schema.Object("The whole best bid and offer. The members of an empty side are absent.", header("Q",
		schema.Optional("R", snapshotFlag()),
		schema.Optional("BP", price("Best bid.")),
		schema.Optional("BZ", size("Size of the best bid.")),
		schema.Optional("AP", price("Best ask.")),
		schema.Optional("AZ", size("Size of the best ask.")),
		schema.Optional("BC", schema.Integer("Orders at the best bid.").AtLeast(1)),
		schema.Optional("AC", schema.Integer("Orders at the best ask.").AtLeast(1)),
	)...)
}

func levels(text string) *schema.Schema { return schema.Array(text, schema.Ref("BookLevel")) }

func checksum() *schema.Schema {
	return schema.Integer("CRC-32 (IEEE) of the book after this message.").Between(0, 1<<32-1)
}

func bookSnapshot() *schema.Schema {
	return schema.Object("An order book, which replaces the one that the client has.", header("O",
		schema.Required("R", snapshotFlag()),
		schema.Required("DL", schema.Ref("Depth")),
		schema.Required("B", levels("Bids, best first.")),
		schema.Required("A", levels("Asks, best first.")),
		schema.Required("K", checksum()),
	)...)
}

func bookUpdate() *schema.Schema {
	return schema.Object("Changes of the order book of the message whose N is L.", header("O",
		schema.Required("L", schema.Ref("Sequence").Describe("N of the message that this one changes.")),
		schema.Optional("B", levels("Changed bids, best first. Absent: none.")),
		schema.Optional("A", levels("Changed asks, best first. Absent: none.")),
		schema.Required("K", checksum()),
	)...)
}

func status() *schema.Schema {
	return schema.Object("Trading status of an instrument, or of a whole market (*|MARKET|*).", numbered("H",
		schema.Integer("As in other messages; 0 in a state (R) of a market that has had no status.").AtLeast(0),
		schema.Optional("R", snapshotFlag()),
		schema.Required("E", schema.Ref("Phase")),
		schema.Optional("Y", schema.String("Reason, a word of the market.").Length(1, 64)),
		schema.Optional("U", schema.Ref("Time").Describe("When the status is expected to change.")),
	)...)
}

// turnover returns the members for the sums of trades.
func turnover() []schema.Field {
	return []schema.Field{
		schema.Required("TV", schema.Ref("Volume")),
		schema.Required("EV", schema.Ref("Turnover")),
		schema.Required("TC", schema.Integer("Number of trades.").AtLeast(0)),
		schema.Optional("VW", price("Average price: EV / TV. Absent without trades.")),
	}
}

func summary() *schema.Schema {
	return schema.Object("Summary of the trading day so far.", header("D", slices.Concat([]schema.Field{
		schema.Optional("R", snapshotFlag()),
		schema.Optional("OP", price("First price. Absent without trades, as HI, LO and LA.")),
		schema.Optional("HI", price("Highest price.")),
		schema.Optional("LO", price("Lowest price.")),
		schema.Optional("CL", price("Close of the day before.")),
		schema.Optional("LA", price("Last price.")),
	}, turnover(), []schema.Field{
		schema.Optional("SE", price("Settlement price.")),
		schema.Optional("OI", size("Open interest.")),
	})...)...)
}

func bar() *schema.Schema {
	return schema.Object("Bar: the trades of an interval. T is its start.", header("K", slices.Concat([]schema.Field{
		schema.Required("IV", schema.Ref("Interval")),
		schema.Optional("TD", schema.Ref("TradingDate")),
		schema.Optional("OP", price("First price. Absent without trades, as HI, LO and CL.")),
		schema.Optional("HI", price("Highest price.")),
		schema.Optional("LO", price("Lowest price.")),
		schema.Optional("CL", price("Last price.")),
	}, turnover(), []schema.Field{
		schema.Required("R", schema.Boolean("True: it revises a bar that was sent before.")),
	})...)...)
}
