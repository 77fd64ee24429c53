package dbn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/feed/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// Kinds of records.
const (
	typeTrades  = 0x00
	typeMBP1    = 0x01
	typeMBP10   = 0x0a
	typeStatus  = 0x12
	typeMapping = 0x16
	typeMBO     = 0xa0
)

// Sizes of records, without the time they were sent.
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

// cacheBits sizes what stands before the table of instruments: a map costs a fifth of a record.
const cacheBits = 11

// none is the price that is none, and the time that is none.
const none = math.MaxInt64

// maxGroup bounds how many events wait for a record with F_LAST: snapshots are the
// longest, at one event an order.
const maxGroup = 1 << 14

// Decoder decodes one file from its beginning to its end.
type Decoder struct {
	filter  decode.Filter
	header  *header
	play    byte // the kind of record that is played
	chosen  bool
	single  uint16 // the first publisher
	several bool   // a publisher is known
	live    map[uint32]string
	known   map[uint64]*instrument
	near    [1 << cacheBits]*instrument // some of them, by a hash of the key
	time    uint64                      // event time of the newest record
	orders  int                         // in all books
}

// instrument is one publisher's instrument.
type instrument struct {
	key     uint64
	until   int64 // when its symbol is to be looked up again
	id      market.InstrumentID
	handle  market.Handle
	skipped bool // not asked for
	ready   bool // the book is known
	orders  decode.Orders
	levels  [10 * levelSize]byte // of the newest record of levels
}

// New is a decoder for a file.
func New(filter decode.Filter) *Decoder {
	return &Decoder{filter: filter, live: make(map[uint32]string), known: make(map[uint64]*instrument)}
}

// Named are the instruments that the header names, by symbol, once a record was decoded.
// A file need not have records of all.
func (d *Decoder) Named() []market.Instrument {
	if d.header == nil {
		return nil
	}
	seen := make(map[string]bool)
	var list []market.Instrument
	for _, names := range d.header.names {
		for _, n := range names {
			def := d.define(n.symbol, d.header.venue)
			if !seen[n.symbol] && d.filter.Takes(def.ID) && def.Validate() == nil {
				seen[n.symbol] = true
				list = append(list, def)
			}
		}
	}
	slices.SortFunc(list, func(x, y market.Instrument) int { return strings.Compare(x.ID.Symbol, y.ID.Symbol) })
	return list
}

// Decode implements what package decode says of it.
func (d *Decoder) Decode(data []byte, b *decode.Batch) (n int, err error) {
	if d.header == nil {
		if d.header, n, err = readHeader(data); n == 0 {
			d.header = nil
			return 0, err
		}
		if !d.playable() {
			return 0, fmt.Errorf("schema %d of the file has neither trades nor quotes nor books; mbo, mbp-1, mbp-10, tbbo, trades and status are played", d.header.schema)
		}
		d.fix()
	}
	if !d.chosen {
		d.choose(data[n:])
	}
	for !d.full(b) && len(data)-n >= headSize {
		size := int(data[n]) * 4
		if size < headSize {
			return n, fmt.Errorf("a record of %d bytes", size)
		}
		if len(data)-n < size {
			break
		}
		if err := d.record(data[n:n+size:n+size], b); err != nil {
			return n, err
		}
		b.Stats.Lines++
		n += size
	}
	return n, nil
}

// full lets a group of events that belong together become whole, within bounds.
func (d *Decoder) full(b *decode.Batch) bool {
	if len(b.Events) >= maxGroup {
		b.Cut()
	}
	return b.Full() && len(b.Cuts) > 0 && b.Cuts[len(b.Cuts)-1] == len(b.Events)
}

// End implements what package decode says of it.
func (d *Decoder) End(rest []byte, b *decode.Batch) error {
	b.Cut()
	switch {
	case d.header == nil:
		return errors.New("the file breaks off within its header")
	case len(rest) > 0:
		return errors.New("the file breaks off within a record")
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

// fix sets the kind of records that is played, where the schema says it.
func (d *Decoder) fix() {
	d.chosen = true
	switch d.header.schema {
	case schemaMBO:
		d.play = typeMBO
	case schemaMBP1, schemaTBBO:
		d.play = typeMBP1
	case schemaMBP10:
		d.play = typeMBP10
	case schemaTrades, schemaStatus:
		d.play = typeTrades
	default:
		d.chosen = false
	}
}

// choose finds it out by the first records where they are mixed.
func (d *Decoder) choose(data []byte) {
	best := 0
	rank := map[byte]int{typeTrades: 1, typeMBP1: 2, typeMBP10: 3, typeMBO: 4}
	for len(data) >= headSize && int(data[0])*4 >= headSize && len(data) >= int(data[0])*4 {
		d.chosen = true
		if r := rank[data[1]]; r > best {
			best, d.play = r, data[1]
		}
		data = data[int(data[0])*4:]
	}
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
		b.Stats.Other++
		return nil
	}
	if len(m) != want+d.header.extra {
		return fmt.Errorf("a record of type %#02x has %d bytes; it should have %d", m[1], len(m), want+d.header.extra)
	}
	if m[1] != d.play && m[1] != typeStatus {
		b.Stats.Other++
		return nil
	}
	d.part(m, b)
	in, err := d.instrument(m, b)
	if err != nil {
		return err
	}
	if in.skipped {
		b.Stats.Filtered++
		return nil
	}
	switch m[1] {
	case typeMBO:
		return d.order(in, m, b)
	case typeStatus:
		status(in, m, b)
	case typeMBP10:
		d.levels(in, m, b)
	case typeMBP1:
		d.quote(in, m, b)
	default:
		trade(in, m, 0, b)
		b.Cut()
	}
	return nil
}

// part ends a group of events where time goes on, should F_LAST be missing. Records of a
// snapshot have the times at which their orders came.
func (d *Decoder) part(m []byte, b *decode.Batch) {
	t, flags := binary.LittleEndian.Uint64(m[8:]), byte(0)
	switch m[1] {
	case typeMBO:
		flags = m[36]
	case typeStatus:
	default:
		flags = m[30]
	}
	if t != d.time && flags&flagSnapshot == 0 {
		b.Cut()
	}
	d.time = t
}

// clock is the times of a record: of the event, and when it was received.
func clock(m []byte) (event, receive int64) {
	at := 32
	switch m[1] {
	case typeMBO:
		at = 40
	case typeStatus:
		at = 16
	}
	return instant(m[8:]), instant(m[at:])
}

// instant is a time, 0 where it is none.
func instant(m []byte) int64 {
	t := binary.LittleEndian.Uint64(m)
	if t >= none {
		return 0
	}
	return int64(t)
}

// instrument is what a record is of.
func (d *Decoder) instrument(m []byte, b *decode.Batch) (*instrument, error) {
	key := binary.LittleEndian.Uint64(m) >> 16 // publisher and number
	event, receive := clock(m)
	t := receive
	if t == 0 {
		t = event
	}
	near := &d.near[(key*0x9E3779B97F4A7C15)>>(64-cacheBits)]
	in := *near
	if in == nil || in.key != key {
		in = d.known[key]
	}
	if in == nil || t >= in.until {
		var err error
		if in, err = d.meet(in, key, t, b); err != nil {
			return nil, err
		}
	}
	*near = in
	return in, nil
}

// meet makes the instrument of a key, or looks whether it has another name by now.
func (d *Decoder) meet(was *instrument, key uint64, t int64, b *decode.Batch) (*instrument, error) {
	number, publisher := uint32(key>>16), uint16(key)
	symbol, until := d.header.find(number, t)
	if s, ok := d.live[number]; ok {
		symbol, until = s, none
	}
	if symbol == "" {
		symbol = strconv.FormatUint(uint64(number), 10)
	}
	if !d.several {
		d.several, d.single = true, publisher
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
	in := &instrument{key: key, until: until, id: def.ID, skipped: !d.filter.Takes(def.ID)}
	if was != nil {
		d.orders -= was.orders.Len()
		if was.ready && !def.NoBook {
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
		// Another number had this name until now: what rests there is not this one's.
		b.Gap(in.handle, 0, t, "instrument_changed")
	}
	return in, nil
}

func (d *Decoder) define(symbol, venue string) market.Instrument {
	term, kind := d.header.term()
	def := decode.Equity(symbol, venue)
	def.ID.Term, def.Kind = term, kind
	if kind != "equity" {
		def.Currency, def.SettlementDays, def.PriceDecimals = "", 0, 8
	}
	switch d.play {
	case typeMBP1, typeTrades:
		def.OwnQuotes, def.NoBook = true, true
	}
	return def
}

// mapping takes a name of live data.
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
		b.Stats.Other++
		return nil
	}
	if len(d.live) >= maxLive {
		return fmt.Errorf("more than %d instruments are given names", maxLive)
	}
	d.live[number] = symbol
	for key, in := range d.known {
		if uint32(key>>16) == number {
			in.until = 0 // to be looked up again
		}
	}
	b.Stats.Other++
	return nil
}

// maxLive bounds the names of live data; the largest dataset has two million options.
const maxLive = 1 << 22
