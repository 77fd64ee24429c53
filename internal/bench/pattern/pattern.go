// Package pattern is what is published in a measurement and when: the same for a gateway and for the
// bare program, so that the two differ in nothing but what is between the event and the socket.
package pattern

import (
	"strconv"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Kinds of patterns.
const (
	Lockstep = "lockstep" // the next batch as soon as every shard has taken the last, but for those it may be behind, and hardly anybody's socket is full
	Window   = "window"   // the next batch as soon as everybody has received all but so many messages
	Rate     = "rate"     // so many messages a second, evenly
	Once     = "once"     // one batch
	Market   = "market"   // what the simulated market does, as fast as its trades are received
)

// Pattern says what to publish.
type Pattern struct {
	Kind   string
	Batch  int     // messages published together; 0: 1
	Ahead  int     // batches that a shard may have yet to take when the next is published; with Lockstep
	Window int     // messages that may be on their way; with Window and Market
	Rate   float64 // messages a second; with Rate
	Spread int     // instruments taken in turn, the first ones; 0: 1
	Quotes bool    // each trade comes with a change of the book's best bid
	InStep bool    // of the bare program: no thread begins a batch before all have begun the one before
	Fanout int     // connections that receive each message; with Window where there are more instruments than one
	// Readers are the connections that receive an instrument's trades, and all where there is
	// no entry; with Market. Window then counts trades of single connections.
	Readers map[string]int
}

// Trade is the trade with number n: what it says has the length of a real one, so that a message has
// about 160 bytes.
func Trade(n uint64) (price market.Price, size market.Size, side market.Side, id string) {
	var b [32]byte
	text := strconv.AppendUint(append(b[:0], "BENCH2026-"...), 1_000_000_000+n%1_000_000_000, 10)
	return market.Price(705_000_000_000 + int64(n%97)*50_000_000), market.Size(100_000_000 * int64(1+n%900)),
		market.Buy + market.Side(n&1), string(text)
}

// AppendFrame appends trade n as a server's text frame, as Rueda makes it, for programs that have
// no gateway. scratch is used for the payload and returned for reuse.
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

// ID is the instrument with index i.
func ID(i int) market.InstrumentID {
	name := strconv.AppendInt([]byte("B"), 10_000+int64(i), 10)
	return market.InstrumentID{Symbol: string(name), Market: "BENCH", Term: "24hs"}
}

// Published is what was published.
type Published struct {
	Last    map[string]uint32 // the newest N of each instrument's trades
	Events  uint64
	Batches uint64
	Seconds float64
}
