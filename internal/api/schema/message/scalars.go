package message

import (
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Patterns of identifiers, as package market parses them.
const (
	wordPattern       = `[A-Za-z0-9][A-Za-z0-9._-]{0,15}`
	symbolPattern     = `[!#-)+\-.-:<-\[\]-{}~]{1,32}`
	anyPattern        = `\*`
	instrumentPattern = `^` + symbolPattern + `\|` + wordPattern + `\|` + wordPattern + `$`
	wildcardPattern   = `^(` + symbolPattern + `|` + anyPattern + `)\|(` + wordPattern + `|` + anyPattern + `)\|(` + wordPattern + `|` + anyPattern + `)$`
	timePattern       = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{9}Z$`
)

// Depths returns the depths of order books.
func Depths() []int { return []int{0, 1, 5, 10, 25} }

// Scalars returns the components of single values.
func Scalars() []schema.Named {
	return []schema.Named{
		named("InstrumentID", schema.String("Identifier of an instrument: SYMBOL|MARKET|TERM.").
			Pattern(instrumentPattern).Example("GGAL|BYMA|24hs")),
		named("InstrumentPattern", schema.String("Identifier of an instrument, or of several: * can replace a whole part.").
			Pattern(wildcardPattern).Example("*|BYMA|24hs")),
		named("Symbol", schema.String("Symbol of an instrument. It is * in the status of a whole market.").
			Pattern(`^(`+symbolPattern+`|`+anyPattern+`)$`).Example("GGAL")),
		named("MarketID", schema.String("Name of a market.").Pattern("^"+wordPattern+"$").Example("BYMA")),
		named("TermID", schema.String("Settlement term, as its market names it.").Pattern("^"+wordPattern+"$").Example("24hs")),
		named("Price", schema.Number("Exact decimal with at most 15 significant digits: no exponent, no trailing zeros.").Example(raw("7049.5"))),
		named("Size", schema.Number("Exact decimal with at most 15 significant digits, not negative.").AtLeast(0).Example(raw("300"))),
		named("Volume", schema.Number("Exact sum of sizes, with at most 15 significant digits.").AtLeast(0).Example(raw("184233"))),
		named("Turnover", schema.Number("Exact sum of prices times sizes, with at most 15 significant digits.").Example(raw("1297000320"))),
		named("Time", schema.String("RFC 3339 in UTC with nine fraction digits, so that times sort as text.").
			Format("date-time").Pattern(timePattern).Example("2026-11-20T14:30:00.123456789Z")),
		named("TradingDate", schema.String("Date of a trading day, which is a calendar day in the time zone of its market.").
			Format("date").Pattern(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`).Example("2026-11-20")),
		named("Epoch", schema.String("Opaque name of a series of sequence numbers.").Length(1, 64).Example("e7k2")),
		named("Position", schema.String("Opaque name of a point in the whole stream, from which a client can resume.").Length(1, 128).Example("e7k2:918273")),
		named("Sequence", schema.Integer("Sequence number of a message in its channel of its instrument, from 1 on within the epoch.").AtLeast(1).Example(1042)),
		named("Delay", schema.Integer("Delay of the data in seconds.").AtLeast(1).Example(900)),
		named("Phase", schema.Enum("Trading status. It is unknown until a source that states it has stated one. The words feed_down, feed_up and gap are about the source and not about trading.", phases()...)),
		named("Interval", schema.Enum("Length of a bar.", intervals()...)),
		named("Channel", schema.Enum("Kind of data that a client subscribes to.", Channels()...)),
		named("Depth", schema.Integer("Depth of an order book in levels, 0 for all levels.").Keyword("enum", Depths())),
		named("BookLevel", schema.Tuple("Price level: price, size, and the number of orders if the market provides it. A size of 0 in an update removes the level.",
			2, schema.Ref("Price"), schema.Ref("Size"), schema.Integer("Orders.").AtLeast(1)).Example(raw("[7049.5,300,4]"))),
	}
}

func phases() (words []string) {
	for p := market.NoPhase + 1; p.String() != ""; p++ {
		words = append(words, p.String())
	}
	return words
}

func intervals() (words []string) {
	for i := range market.NumIntervals {
		words = append(words, i.String())
	}
	return words
}

// Channels returns the names of the channels.
func Channels() (names []string) {
	for c := range wire.Bars + 1 {
		names = append(names, c.String())
	}
	return names
}
