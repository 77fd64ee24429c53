package dbn

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// Types of records.
const (
	typeTrades  = 0x00
	typeMBP1    = 0x01
	typeMBP10   = 0x0a
	typeStatus  = 0x12
	typeMapping = 0x16
	typeMBO     = 0xa0
	// Without trades, quotes or books. There are five of OHLCV.
	typeOldOHLCV   = 0x11
	typeDefinition = 0x13
	typeImbalance  = 0x14
	typeError      = 0x15
	typeSystem     = 0x17
	typeStatistics = 0x18
	typeOHLCV      = 0x20
)

// Sizes of records, without the send time.
const (
	headSize   = 16
	tradesSize = 48
	levelSize  = 32
	mbp1Size   = tradesSize + levelSize
	mbp10Size  = tradesSize + 10*levelSize
	mboSize    = 56
	statusSize = 40
)

// Flags of a record.
const (
	flagLast     = 1 << 7
	flagTop      = 1 << 6
	flagSnapshot = 1 << 5
	flagBadBook  = 1 << 2
)

// cacheBits is the size of the cache in front of the map of instruments, as a power of two. A map
// lookup costs a fifth of decoding a record.
const cacheBits = 11

// none marks an undefined price or time.
const none = math.MaxInt64

// Config configures a Decoder. The zero Config plays all instruments.
type Config struct {
	Filter decode.Filter
	// Orders plays each change of an order (MBO) as an event of its own. Otherwise the changes of a
	// book are played at the end of each event of the exchange.
	Orders bool
}

// Decoder decodes one file from beginning to end.
type Decoder struct {
	config    Config
	header    *header
	played    byte // the type of records that is played
	chosen    bool
	covered   map[uint64]bool // instruments with records that are played, at the beginning of a mixed file
	unplayed  [256]int        // records that are not played, by type
	single    uint16          // the first publisher
	hasSingle bool            // single is set
	live      map[uint32]string
	known     map[uint64]*instrument
	cache     [1 << cacheBits]*instrument // cache of known, by a hash of the key
	current   *instrument                 // of the record that is decoded, if it is not a trade
	time      int64                       // event time of the newest record
	receive   int64                       // receive time of the newest record
	marked    bool                        // a record had F_LAST
	unmarked  []*instrument               // whose events may end when the time advances
	orders    int                         // in all books
}

// instrument is an instrument of one publisher.
type instrument struct {
	key     uint64
	until   int64 // when to look up its symbol again
	id      market.InstrumentID
	handle  market.Handle
	skipped bool // excluded by the filter
	ready   bool // the book is known
	shown   bool // so is the one that was published
	// the newest record of MBO is part of a snapshot
	snapshot bool
	event    event
	book     market.OrderBook
	levels   [10 * levelSize]byte // of the levels that were published
}

// New returns a decoder for a file.
func New(c Config) *Decoder {
	return &Decoder{config: c, live: make(map[uint32]string), known: make(map[uint64]*instrument)}
}

// Named returns the instruments that the header names, sorted by symbol, after a record was
// decoded. The file need not have records of all of them.
func (d *Decoder) Named() []market.Instrument {
	if d.header == nil {
		return nil
	}
	seen := make(map[string]bool)
	var list []market.Instrument
	for _, names := range d.header.names {
		for _, n := range names {
			def := d.define(n.symbol, d.header.venue)
			if !seen[n.symbol] && d.config.Filter.Matches(def.ID) && def.Validate() == nil {
				seen[n.symbol] = true
				list = append(list, def)
			}
		}
	}
	slices.SortFunc(list, func(x, y market.Instrument) int { return strings.Compare(x.ID.Symbol, y.ID.Symbol) })
	return list
}

// Decode implements the decoder interface of package decode.
func (d *Decoder) Decode(data []byte, b *decode.Batch) (n int, err error) {
	if d.header == nil {
		if d.header, n, err = readHeader(data); n == 0 {
			d.header = nil
			return 0, err
		}
		if !d.playable() {
			return 0, fmt.Errorf("schema %d of the file has neither trades nor quotes nor books; mbo, mbp-1, mbp-10, tbbo, trades and status are played", d.header.schema)
		}
		d.choosePlayed()
	}
	if !d.chosen {
		d.detectPlayed(data[n:])
	}
	for !b.Full() && len(data)-n >= headSize {
		size := int(data[n]) * 4
		if size < headSize {
			return n, fmt.Errorf("a record of %d bytes", size)
		}
		if len(data)-n < size {
			break
		}
		d.current = nil
		if err := d.record(data[n:n+size:n+size], b); err != nil {
			return n, err
		}
		if b.EndRecord() && d.current != nil && d.current.event.open {
			d.current.event.played++
		}
		b.Cut()
		n += size
	}
	return n, nil
}

// End implements the decoder interface of package decode.
func (d *Decoder) End(rest []byte, b *decode.Batch) error {
	d.endAll(b)
	d.noteUnplayed(b)
	b.Cut()
	switch {
	case d.header == nil:
		return errors.New("the file ends within its header")
	case len(rest) > 0:
		return errors.New("the file ends within a record")
	}
	return nil
}

func (d *Decoder) playable() bool {
	switch d.header.schema {
	case schemaMBO, schemaMBP1, schemaMBP10, schemaTBBO, schemaTrades, schemaStatus, schemaMixed:
		return true
	}
	return false
}

// choosePlayed selects the type of records to play if the schema determines it.
func (d *Decoder) choosePlayed() {
	d.chosen = true
	switch d.header.schema {
	case schemaMBO:
		d.played = typeMBO
	case schemaMBP1, schemaTBBO:
		d.played = typeMBP1
	case schemaMBP10:
		d.played = typeMBP10
	case schemaTrades, schemaStatus:
		d.played = typeTrades
	default:
		d.chosen = false
	}
}

// detectPlayed selects the type of records to play from the first records of a mixed file.
func (d *Decoder) detectPlayed(data []byte) {
	best := 0
	rank := map[byte]int{typeTrades: 1, typeMBP1: 2, typeMBP10: 3, typeMBO: 4}
	for len(data) >= headSize && int(data[0])*4 >= headSize && len(data) >= int(data[0])*4 {
		if !d.chosen {
			d.chosen, d.covered = true, make(map[uint64]bool)
		}
		if r := rank[data[1]]; r > best {
			best, d.played = r, data[1]
			clear(d.covered)
		}
		if data[1] == d.played {
			d.covered[keyOf(data)] = true
		}
		data = data[int(data[0])*4:]
	}
}

// keyOf returns the publisher and the number of a record's instrument.
func keyOf(m []byte) uint64 { return binary.LittleEndian.Uint64(m) >> 16 }

// skip skips a record of a type that is not played.
func (d *Decoder) skip(m []byte, b *decode.Batch) {
	switch m[1] {
	case typeDefinition, typeImbalance, typeError, typeSystem, typeStatistics, typeOHLCV, typeOHLCV + 1, typeOHLCV + 2, typeOHLCV + 3, typeOHLCV + 4, typeOldOHLCV:
		b.Skip(decode.OtherType)
		return
	}
	d.unplayed[m[1]]++
	if key := keyOf(m); d.covered[key] || d.known[key] != nil {
		b.Skip(decode.Repeated)
		return
	}
	b.Skip(decode.Unsupported)
}

// noteUnplayed notes the schemas with market data that were not played.
func (d *Decoder) noteUnplayed(b *decode.Batch) {
	var list []string
	for kind, n := range d.unplayed {
		if n > 0 {
			list = append(list, fmt.Sprintf("%d of %s", n, cmp.Or(schemas[byte(kind)], fmt.Sprintf("type %#02x", kind))))
		}
	}
	if len(list) > 0 {
		b.Note("other_schemas", "of each instrument, one schema is played (here %s); records of others are not: %s", schemas[d.played], strings.Join(list, ", "))
	}
}

// schemas holds the schemas of the types with trades, quotes or books.
var schemas = map[byte]string{
	typeTrades: "trades", typeMBP1: "mbp-1", typeMBP10: "mbp-10", typeMBO: "mbo", 0xb1: "cmbp-1",
	0xc0: "cbbo-1s", 0xc1: "cbbo-1m", 0xc2: "tcbbo", 0xc3: "bbo-1s", 0xc4: "bbo-1m",
}

// record decodes one record.
func (d *Decoder) record(m []byte, b *decode.Batch) error {
	want := 0
	switch m[1] {
	case typeTrades:
		want = tradesSize
	case typeMBP1:
		want = mbp1Size
	case typeMBP10:
		want = mbp10Size
	case typeMBO:
		want = mboSize
	case typeStatus:
		want = statusSize
	case typeMapping:
		return d.mapping(m, b)
	default:
		d.skip(m, b)
		return nil
	}
	if len(m) != want+d.header.extra {
		return fmt.Errorf("a record of type %#02x has %d bytes; it should have %d", m[1], len(m), want+d.header.extra)
	}
	if m[1] != d.played && m[1] != typeStatus {
		d.skip(m, b)
		return nil
	}
	d.advance(m, b)
	in, err := d.instrument(m, b)
	if err != nil {
		return err
	}
	if in.skipped {
		b.Skip(decode.Filtered)
		return nil
	}
	switch m[1] {
	case typeMBO:
		if m[38] != 'T' {
			d.current = in
		}
		return d.order(in, m, b)
	case typeStatus:
		status(in, m, b)
	case typeMBP10, typeMBP1:
		if m[28] != 'T' {
			d.current = in
		}
		d.aggregated(in, m, b)
	default:
		d.trade(in, m, b)
	}
	return nil
}

// times returns the event time and the receive time of a record.
func times(m []byte) (event, receive int64) {
	at := 32
	switch m[1] {
	case typeMBO:
		at = 40
	case typeStatus:
		at = 16
	}
	return instant(m[8:]), instant(m[at:])
}

// instant returns a time, 0 if it is undefined.
func instant(m []byte) int64 {
	t := binary.LittleEndian.Uint64(m)
	if t >= none {
		return 0
	}
	return int64(t)
}

// instrument returns the instrument of a record.
func (d *Decoder) instrument(m []byte, b *decode.Batch) (*instrument, error) {
	key := keyOf(m)
	t := d.receive
	if t == 0 {
		t = d.time
	}
	cached := &d.cache[(key*0x9E3779B97F4A7C15)>>(64-cacheBits)]
	in := *cached
	if in == nil || in.key != key {
		in = d.known[key]
	}
	if in == nil || t >= in.until {
		var err error
		if in, err = d.resolve(in, key, t, b); err != nil {
			return nil, err
		}
	}
	*cached = in
	return in, nil
}

// resolve returns the instrument of a key, and a new one if its symbol has changed.
func (d *Decoder) resolve(was *instrument, key uint64, t int64, b *decode.Batch) (*instrument, error) {
	number, publisher := uint32(key>>16), uint16(key)
	symbol, until := d.header.find(number, t)
	if s, ok := d.live[number]; ok {
		symbol, until = s, none
	}
	if symbol == "" {
		symbol = strconv.FormatUint(uint64(number), 10)
	}
	if !d.hasSingle {
		d.hasSingle, d.single = true, publisher
	}
	venue := d.header.venue
	if publisher != d.single {
		venue += "." + strconv.Itoa(int(publisher))
	}
	def := d.define(symbol, venue)
	if err := def.Validate(); err != nil {
		return nil, err
	}
	if was != nil && was.id == def.ID {
		was.until = until
		return was, nil
	}
	in := &instrument{key: key, until: until, id: def.ID, skipped: !d.config.Filter.Matches(def.ID)}
	if was != nil {
		d.orders -= was.book.Len()
		d.drop(was, b)
		if was.shown && !def.NoBook {
			b.Gap(was.handle, 0, t, "instrument_changed")
		}
	}
	d.known[key] = in
	if in.skipped {
		return in, nil
	}
	before := len(b.Listed)
	in.handle = b.List(def)
	if len(b.Listed) == before && !def.NoBook {
		// Another number had this symbol before; its orders do not belong to this instrument.
		b.Gap(in.handle, 0, t, "instrument_changed")
	}
	return in, nil
}

func (d *Decoder) define(symbol, venue string) market.Instrument {
	term, kind := d.header.term()
	def := decode.Equity(symbol, venue)
	def.ID.Term, def.Kind, def.Phase = term, kind, market.Unknown
	if kind != "equity" {
		def.Currency, def.SettlementDays, def.PriceDecimals = "", 0, 8
	}
	switch d.played {
	case typeMBP1, typeTrades:
		def.QuotesFromFeed, def.NoBook = true, true
	}
	return def
}

// mapping applies a symbol mapping of live data.
func (d *Decoder) mapping(m []byte, b *decode.Batch) error {
	at, width := headSize+1+71+1, 71
	if d.header.version == 1 {
		at, width = headSize+oldSymbol, oldSymbol
	}
	if len(m) < at+width {
		return fmt.Errorf("a symbol mapping of %d bytes", len(m))
	}
	number := binary.LittleEndian.Uint32(m[4:])
	symbol := decode.Symbol(m[at : at+width])
	if symbol == "" || d.live[number] == symbol {
		b.Skip(decode.NoEffect)
		return nil
	}
	if len(d.live) >= maxLive {
		return fmt.Errorf("more than %d instruments are given names", maxLive)
	}
	d.live[number] = symbol
	for key, in := range d.known {
		if uint32(key>>16) == number {
			in.until = 0 // look it up again
		}
	}
	return nil
}

// maxLive limits the symbols of live data. The largest dataset has two million options.
const maxLive = 1 << 22
