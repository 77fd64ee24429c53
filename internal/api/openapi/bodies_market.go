package openapi

import (
	"slices"

	"github.com/ruedahq/rueda/internal/api/schema"
)

// nextCursor returns the optional member with the cursor of the next page.
func nextCursor() schema.Field { return maybe("next_cursor", "Absent on the last page.") }

func accountSchemas() []schema.Named {
	words := func(name, description string) schema.Field {
		return schema.Optional(name, schema.Array(description, schema.String("")))
	}
	return []schema.Named{
		named("Account", schema.Object("An account. Optional members are absent if the broker's user base does not have them.",
			text("account_id", ""), text("number", ""), maybe("name", ""), text("type", "cash or margin."),
			schema.Required("status", schema.String("active, restricted or closed.")), text("currency", ""),
			words("currencies", ""), words("roles", ""), words("permissions", ""),
			schema.Required("is_default", schema.Boolean("")), schema.Optional("created_at", schema.String("").Format("date-time")))),
		named("AccountPage", schema.Object("", schema.Required("accounts", schema.Array("", schema.Ref("Account"))), nextCursor())),
	}
}

// phase returns the members that describe a trading status.
func phase() []schema.Field {
	return []schema.Field{
		schema.Required("status", schema.Ref("Phase")),
		maybe("reason", "A word of the market."),
		schema.Optional("next_change", schema.Ref("Time").Describe("When the status is expected to change.")),
	}
}

func marketSchemas() []schema.Named {
	days := schema.Required("settlement_days", schema.Integer("Days until settlement.").AtLeast(0))
	decimals := func(name, description string) schema.Field {
		return schema.Required(name, schema.Integer(description).Between(0, 8))
	}
	const word = `^[A-Za-z0-9][A-Za-z0-9._-]{0,15}$` // as package market parses it
	return []schema.Named{
		named("MarketID", schema.String("Name of a market.").Pattern(word).Example("BYMA")),
		named("TermID", schema.String("Settlement term, as its market names it.").Pattern(word).Example("24hs")),
		named("Market", schema.Object("A market.", schema.Required("market", schema.Ref("MarketID")), maybe("name", ""), text("timezone", "Name of the IANA database."),
			schema.Required("terms", schema.Array("", schema.Object("A settlement term.", schema.Required("term", schema.Ref("TermID")), days))))),
		named("Markets", schema.Object("", schema.Required("markets", schema.Array("", schema.Ref("Market"))))),
		named("Instrument", schema.Object("An instrument.",
			schema.Required("instrument", schema.Ref("InstrumentID")), schema.Required("symbol", schema.Ref("Symbol")),
			schema.Required("market", schema.Ref("MarketID")), schema.Required("term", schema.Ref("TermID")), days,
			maybe("name", ""), maybe("kind", "Such as equity, bond or index."), maybe("isin", ""), maybe("currency", ""),
			schema.Required("multiplier", schema.Ref("Size")),
			decimals("price_decimals", "Decimals of prices in checksums."), decimals("size_decimals", "Decimals of sizes in checksums."),
			schema.Optional("tick", schema.Array("Price steps: from a price on, the step.", schema.Tuple("", 2, schema.Ref("Price"), schema.Ref("Price")))),
			schema.Optional("lot", schema.Ref("Size")), schema.Optional("min_size", schema.Ref("Size")),
			schema.Optional("status", schema.Ref("Phase").Describe("With any right to the market, at the user's delay.")),
			schema.Required("channels", schema.Array("", schema.Ref("Channel"))))),
		named("InstrumentPage", schema.Object("", schema.Required("instruments", schema.Array("", schema.Ref("Instrument"))), nextCursor())),
		named("MarketStatuses", schema.Object("", schema.Required("markets", schema.Array("", schema.Object("", slices.Concat(
			[]schema.Field{schema.Required("market", schema.Ref("MarketID"))}, phase(),
			[]schema.Field{schema.Required("instruments", schema.Array("Instruments in another phase.", schema.Object("", slices.Concat(
				[]schema.Field{schema.Required("instrument", schema.Ref("InstrumentID"))}, phase())...)))},
		)...))))),
		named("MissingRange", schema.Object("Rows that are not stored.",
			schema.Optional("from", schema.Ref("Sequence").Describe("First missing N. Absent: unknown.")),
			schema.Optional("to", schema.Ref("Sequence").Describe("Last missing N. Absent: unknown, and so is whether there were any.")),
			schema.Optional("start", schema.Ref("Time").Describe("Event time of the row before it, if there is one.")),
			schema.Optional("end", schema.Ref("Time").Describe("Event time of the row after it, if there is one.")),
			schema.Required("reason", schema.Enum("Why they are missing.", "buffer_exceeded")))),
		named("Snapshot", schema.Object("", schema.Required("epoch", schema.Ref("Epoch")), schema.Required("position", schema.Ref("Position")),
			schema.Required("instruments", schema.Array("", schema.Object("The newest messages of an instrument, as far as the user may see them.",
				schema.Required("instrument", schema.Ref("InstrumentID")), schema.Optional("T", schema.Ref("Trade")), schema.Optional("Q", schema.Ref("Quote")),
				schema.Optional("D", schema.Ref("Summary")), schema.Optional("H", schema.Ref("Status"))))))),
	}
}

func calendarSchemas() []schema.Named {
	date := schema.Required("date", dateSchema(""))
	sessions := schema.Array("Spans in which the market is not closed.", schema.Ref("TradingSession"))
	return []schema.Named{
		named("TradingSession", schema.Object("", schema.Required("status", schema.Ref("Phase")),
			schema.Required("start", schema.Ref("Time")), schema.Required("end", schema.Ref("Time")))),
		named("Calendar", schema.Object("The plan of a market.", slices.Concat(
			[]schema.Field{schema.Required("market", schema.Ref("MarketID")), text("timezone", "")}, phase(),
			[]schema.Field{
				schema.Required("terms", schema.Array("", schema.Object("", slices.Concat([]schema.Field{schema.Required("term", schema.Ref("TermID"))}, phase())...))),
				schema.Required("holidays", schema.Array("", schema.Object("", date, maybe("name", ""), maybe("closes", "Local time at which this day ends early."),
					schema.Optional("terms", schema.Array("The terms it is for. Absent: all.", schema.Ref("TermID")))))),
				schema.Required("days", schema.Array("", schema.Object("A local date.", date, schema.Required("sessions", sessions),
					schema.Required("terms", schema.Array("", schema.Object("", schema.Required("term", schema.Ref("TermID")),
						schema.Required("available", schema.Boolean("The term is traded on this day.")), schema.Optional("sessions", sessions))))))),
			})...)),
		named("Calendars", schema.Object("", schema.Required("markets", schema.Array("", schema.Ref("Calendar"))))),
	}
}
