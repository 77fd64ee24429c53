package recording

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Message is a decoded message of a stream. Type determines which fields are set.
type Message struct {
	Type string     // T X C Q O H D K for market data; otherwise a word; "": none
	JSON wire.Value // the whole message, a view of the decoded text

	// Fields of market data.
	ID       string // the instrument
	N        uint64
	Time     int64 // T, Unix ns; 0: unknown
	State    bool  // R:true
	Delay    int64 // DE, seconds
	Previous uint64
	HasPrev  bool // O: Previous is L
	Checksum uint32
	HasSum   bool // O: Checksum is K
	Depth    int  // O with R:true: DL

	Price, OldPrice market.Price // T X C
	Size, OldSize   market.Size
	Side            market.Side
	TradeID         string
	RefN            uint64 // XN
	market.TradeDetails

	Bids, Asks []market.Level // O and Q; valid until the next message

	Phase  market.Phase // H
	Reason string
	Until  int64

	Bar Bar // K

	PreviousClose, Settlement market.Price // D: CL (previous close) and SE; 0: unknown
	OpenInterest              market.Size  // D: OI
}

// Bar holds the figures of a bar.
type Bar struct {
	Interval               string
	Open, High, Low, Close market.Price
	Volume                 string // TV, EV and VW as written, because sums may exceed a size
	Value                  string
	Average                string
	Trades                 uint64
}

// Decoder decodes messages and reuses its memory. The zero Decoder is ready to use.
type Decoder struct {
	bids, asks []market.Level
	err        error
}

// maxValues is the maximum number of values in a line: the definitions of 50,000 instruments have
// half as many. The values of a line of zeros would take a hundred times its length.
const maxValues = 2 << 20

var errValues = fmt.Errorf("more than %d values in one line", maxValues)

// Decode decodes a message into m. Unknown members are available in m.JSON. The error names the
// first member that does not follow docs/protocol.md.
func (d *Decoder) Decode(body []byte, m *Message) error {
	if bytes.Count(body, []byte{','}) > maxValues {
		return errValues
	}
	v, err := wire.ParseJSON(body)
	if err != nil {
		return err
	}
	d.err = nil
	*m = Message{JSON: v}
	m.Type = text(&v, "type")
	switch m.Type {
	case "T", "X", "C", "Q", "O", "H", "D", "K":
		d.data(&v, m)
	}
	return d.err
}

// IsData reports whether the message is market data.
func (m *Message) IsData() bool { return len(m.Type) == 1 }

// Text returns a string or number member as text, "" if there is none.
func (m *Message) Text(name string) string { return text(&m.JSON, name) }

func text(v *wire.Value, name string) string {
	member := v.Get(name)
	return member.Text
}

// data decodes the members of market data in their order.
func (d *Decoder) data(v *wire.Value, m *Message) {
	var bid, ask market.Level
	d.bids, d.asks = d.bids[:0], d.asks[:0]
	for i := range v.Fields {
		f := &v.Fields[i]
		switch f.Name {
		case "I":
			m.ID = d.str(f)
		case "N":
			m.N = d.integer(f, 64)
		case "T":
			m.Time = d.time(f)
		case "R":
			m.State = f.Value.True
		case "DE":
			m.Delay = int64(d.integer(f, 32))
		case "P":
			m.Price = d.price(f)
		case "Z":
			m.Size = d.size(f)
		case "XP":
			m.OldPrice = d.price(f)
		case "XZ":
			m.OldSize = d.size(f)
		case "X":
			m.TradeID = d.str(f)
		case "XN":
			m.RefN = d.integer(f, 64)
		case "G":
			m.Side = d.side(f)
		case "C":
			m.Conditions = d.list(f)
		case "L":
			m.Previous, m.HasPrev = d.integer(f, 64), true
		case "DL":
			m.Depth = int(d.integer(f, 31))
		case "K":
			m.Checksum, m.HasSum = uint32(d.integer(f, 32)), true
		case "B":
			d.bids = d.levels(f, d.bids)
		case "A":
			d.asks = d.levels(f, d.asks)
		case "BP":
			bid.Price = d.price(f)
		case "BZ":
			bid.Size = d.size(f)
		case "BC":
			bid.Orders = uint32(d.integer(f, 32))
		case "AP":
			ask.Price = d.price(f)
		case "AZ":
			ask.Size = d.size(f)
		case "AC":
			ask.Orders = uint32(d.integer(f, 32))
		case "E":
			m.Phase = d.phase(f)
		case "Y":
			m.Reason = d.str(f)
		case "U":
			m.Until = d.time(f)
		default:
			d.figures(f, m)
		}
	}
	if bid.Size > 0 {
		d.bids = append(d.bids, bid)
	}
	if ask.Size > 0 {
		d.asks = append(d.asks, ask)
	}
	m.Bids, m.Asks = d.bids, d.asks
	d.complete(m)
}

// figures decodes the members that only bars or summaries have.
func (d *Decoder) figures(f *wire.Member, m *Message) {
	switch {
	case m.Type == "K":
		d.bar(f, &m.Bar)
	case m.Type != "D":
	case f.Name == "CL":
		m.PreviousClose = d.price(f)
	case f.Name == "SE":
		m.Settlement = d.price(f)
	case f.Name == "OI":
		m.OpenInterest = d.size(f)
	}
}

// bar decodes the members of a bar.
func (d *Decoder) bar(f *wire.Member, b *Bar) {
	switch f.Name {
	case "IV":
		b.Interval = d.str(f)
	case "OP":
		b.Open = d.price(f)
	case "HI":
		b.High = d.price(f)
	case "LO":
		b.Low = d.price(f)
	case "CL":
		b.Close = d.price(f)
	case "TV":
		b.Volume = f.Value.Text
	case "EV":
		b.Value = f.Value.Text
	case "VW":
		b.Average = f.Value.Text
	case "TC":
		b.Trades = d.integer(f, 64)
	}
}

// complete checks that the message has the members that its type requires.
func (d *Decoder) complete(m *Message) {
	switch {
	case d.err != nil:
	case m.ID == "":
		d.err = fmt.Errorf("a message %s without I, the instrument", m.Type)
	case m.N == 0:
		d.err = fmt.Errorf("a message %s without N, its number", m.Type)
	case m.Type == "O" && !m.State && !m.HasPrev:
		d.err = fmt.Errorf("a message O with neither R:true nor L")
	case m.Type == "K" && m.Bar.Interval == "":
		d.err = fmt.Errorf("a message K without IV, its interval")
	case m.Type == "H" && m.Phase == market.NoPhase:
		d.err = fmt.Errorf("a message H without E, the status")
	case (m.Type == "T" || m.Type == "X" || m.Type == "C") && m.Size == 0:
		d.err = fmt.Errorf("a message %s without a size above 0", m.Type)
	}
}

func (d *Decoder) bad(f *wire.Member, err error) {
	if d.err == nil {
		d.err = fmt.Errorf("member %s: %s: %w", f.Name, shorten(f.Value.Raw), err)
	}
}

// shorten truncates a value for an error.
func shorten(raw []byte) string {
	if len(raw) > 64 {
		return string(raw[:61]) + "..."
	}
	return string(raw)
}

func (d *Decoder) str(f *wire.Member) string {
	if f.Value.Kind != wire.String {
		d.bad(f, fmt.Errorf("not a string"))
	}
	return f.Value.Text
}

func (d *Decoder) integer(f *wire.Member, bits int) uint64 {
	n, err := strconv.ParseUint(f.Value.Text, 10, bits)
	if f.Value.Kind != wire.Number || err != nil {
		d.bad(f, fmt.Errorf("not an integer in its range"))
	}
	return n
}

func (d *Decoder) time(f *wire.Member) int64 {
	ns, err := wire.ParseTime(f.Value.Text)
	if err != nil {
		d.bad(f, err)
	}
	return ns
}

func (d *Decoder) price(f *wire.Member) market.Price {
	p, err := market.ParsePrice(f.Value.Text)
	if err != nil {
		d.bad(f, err)
	}
	return p
}

func (d *Decoder) size(f *wire.Member) market.Size {
	z, err := market.ParseSize(f.Value.Text)
	if err != nil {
		d.bad(f, err)
	}
	return z
}

func (d *Decoder) side(f *wire.Member) market.Side {
	switch f.Value.Text {
	case "B":
		return market.Buy
	case "S":
		return market.Sell
	}
	d.bad(f, fmt.Errorf("neither B nor S"))
	return market.NoSide
}

func (d *Decoder) phase(f *wire.Member) market.Phase {
	p, ok := market.ParsePhase(f.Value.Text)
	if !ok {
		d.bad(f, fmt.Errorf("not a trading status"))
	}
	return p
}

func (d *Decoder) list(f *wire.Member) []string {
	var list []string
	for i := range f.Value.Items {
		list = append(list, f.Value.Items[i].Text)
	}
	return list
}

// levels decodes a side of a book.
func (d *Decoder) levels(f *wire.Member, dst []market.Level) []market.Level {
	if f.Value.Kind != wire.Array {
		d.bad(f, fmt.Errorf("not an array of levels"))
	}
	for i := range f.Value.Items {
		item := &f.Value.Items[i]
		if len(item.Items) < 2 {
			d.bad(f, fmt.Errorf("level %d is not [price,size] or [price,size,orders]", i+1))
			return dst
		}
		p, err := market.ParsePrice(item.Items[0].Text)
		if err != nil {
			d.bad(f, fmt.Errorf("price of level %d: %w", i+1, err))
		}
		z, err := market.ParseSize(item.Items[1].Text)
		if err != nil {
			d.bad(f, fmt.Errorf("size of level %d: %w", i+1, err))
		}
		l := market.Level{Price: p, Size: z}
		if len(item.Items) > 2 {
			n, err := strconv.ParseUint(item.Items[2].Text, 10, 32)
			if err != nil {
				d.bad(f, fmt.Errorf("orders of level %d: not a whole number", i+1))
			}
			l.Orders = uint32(n)
		}
		dst = append(dst, l)
	}
	return dst
}
