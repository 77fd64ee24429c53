// Package pattern defines what a measurement publishes and when. It is the same for a gateway and
// the bare program, so that they differ only in the work between event and socket.
package pattern

import (
	"strconv"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Kinds of patterns.
const (
	Lockstep = "lockstep" // next batch when every shard has handled the last, or all except Ahead, and almost no socket is full
	Window   = "window"   // next batch when all connections have all except Window messages
	Rate     = "rate"     // Rate messages per second, evenly
	Once     = "once"     // one batch
	Market   = "market"   // the simulated market, as fast as its trades are received
)

// Pattern describes what to publish.
type Pattern struct {
	Kind   string
	Batch  int     // messages published together; 0: 1
	Ahead  int     // batches that a shard may be behind; with Lockstep
	Window int     // messages that may be in flight; with Window and Market
	Rate   float64 // messages per second; with Rate
	Spread int     // number of instruments used in rotation; 0: 1
	Quotes bool    // each trade comes with a change of the best bid
	InStep bool    // for the bare program: threads begin each batch together
	Fanout int     // connections that receive each message; with Window and several instruments
	// Readers is the number of connections that receive an instrument's trades; no entry: all. Only
	// with Market, where Window counts trades of single connections.
	Readers map[string]int
}

// Trade returns trade number n. Its fields have realistic lengths, so that a message has about 160
// bytes.
func Trade(n uint64) (price market.Price, size market.Size, side market.Side, id string) {
	var b [32]byte
	text := strconv.AppendUint(append(b[:0], "BENCH2026-"...), 1_000_000_000+n%1_000_000_000, 10)
	return market.Price(705_000_000_000 + int64(n%97)*50_000_000), market.Size(100_000_000 * int64(1+n%900)),
		market.Buy + market.Side(n&1), string(text)
}

// AppendFrame appends trade n as a text frame as Rueda sends it, for programs without a gateway. It
// uses scratch for the payload and returns it for reuse.
func AppendFrame(b, scratch []byte, ident wire.Ident, n uint64, at, now int64) (frame, reuse []byte) {
	scratch = AppendMessage(scratch[:0], ident, n, at, now)
	return wire.AppendText(b, scratch), scratch
}

// AppendMessage appends the payload of AppendFrame.
func AppendMessage(b []byte, ident wire.Ident, n uint64, at, now int64) []byte {
	price, size, side, id := Trade(n)
	return wire.AppendTrade(b,
		&wire.Header{Ident: ident, N: n, Time: at, Latency: now - at},
		&wire.Trade{Kind: market.KindTrade, Price: price, Size: size, Side: side, ID: id})
}

// ID returns the instrument with index i.
func ID(i int) market.InstrumentID {
	name := strconv.AppendInt([]byte("B"), 10_000+int64(i), 10)
	return market.InstrumentID{Symbol: string(name), Market: "BENCH", Term: "24hs"}
}

// Published describes what was published.
type Published struct {
	Last    map[string]uint32 // newest N of each instrument's trades
	Events  uint64
	Batches uint64
	Seconds float64
}
