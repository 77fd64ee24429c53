package stream

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/ruedahq/rueda/internal/base/jsonscan"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// ErrMessage is wrapped by every error of a Decoder.
var ErrMessage = errors.New("bad message")

// Limits on the texts that a decoder remembers, so that a stream with many distinct texts costs no
// memory beyond them.
const (
	maxIDs   = 1 << 16
	maxWords = 1 << 10
	maxText  = 200     // bytes of a text of a data message
	block    = 4 << 10 // bytes of trade ids that are allocated together

	// maxValues is how many values a control message may have: acknowledgements of 50,000
	// identifiers have fewer. The values of a text of zeros take a hundred times its length.
	maxValues = 2 << 20
)

// A Decoder decodes messages. It keeps its buffers and frequent texts, so that in the steady state
// trades, quotes and books are decoded without an allocation for each. The ids of trades are parts
// of blocks of 4 KiB: clone one to keep it without its block. The zero Decoder is ready to use. A
// Decoder is not safe for concurrent use.
type Decoder struct {
	// Lenient accepts market data of servers that send less: without T, and books without DL and K.
	Lenient bool

	ids        map[string]known
	newest     known // in the message before
	words      map[string]string
	texts      strings.Builder
	bids, asks []market.Level

	second [len("2006-01-02T15:04:05")]byte // of the newest time
	unix   int64                            // its ns; 0: none

	scan jsonscan.Scanner
	kind []byte
	bid  market.Level
	ask  market.Level
	err  error
}

// known is an identifier that was parsed before.
type known struct {
	text  string
	id    market.InstrumentID
	index int
}

// Decode decodes one message, a JSON object, into m. The error wraps ErrMessage and names the first
// member that does not follow docs/protocol.md. The levels in m are valid until the next call; m
// keeps nothing else of data.
func (d *Decoder) Decode(data []byte, m *Message) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("%w: not UTF-8", ErrMessage)
	}
	d.scan = jsonscan.Scanner{In: data}
	d.scan.Space()
	if _, err := d.next(m); err != nil {
		return err
	}
	if err := d.scan.End(); err != nil {
		return fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return nil
}

// DecodeBatch decodes a frame of the format rueda.v1.json.batch, an array of messages. It decodes
// one after another into m, and calls handle with the text of each, which is a part of data. handle
// must not use d. The first error ends it: one of handle, or one that wraps ErrMessage.
func (d *Decoder) DecodeBatch(data []byte, m *Message, handle func(text []byte) error) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("%w: not UTF-8", ErrMessage)
	}
	d.scan = jsonscan.Scanner{In: data}
	p := &d.scan
	if p.Space(); p.At == len(p.In) || p.In[p.At] != '[' {
		return fmt.Errorf("%w: %w", ErrMessage, p.Fail("not a JSON array"))
	}
	var err error
	for more := !p.Open(']'); more; {
		var text []byte
		if text, err = d.next(m); err != nil {
			return err
		}
		if err = handle(text); err != nil {
			return err
		}
		if more, err = p.Next(']'); err != nil {
			return fmt.Errorf("%w: %w", ErrMessage, err)
		}
	}
	if err = p.End(); err != nil {
		return fmt.Errorf("%w: %w", ErrMessage, err)
	}
	return nil
}

// next decodes the object at which the scanner is, and returns its text.
func (d *Decoder) next(m *Message) (text []byte, err error) {
	m.reset()
	d.err, d.kind, d.bid, d.ask = nil, nil, market.Level{}, market.Level{}
	d.bids, d.asks = d.bids[:0], d.asks[:0]
	from := d.scan.At
	if err := d.members(m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	text = d.scan.In[from:d.scan.At:d.scan.At]
	if !d.data(m) {
		return text, d.control(text, m)
	}
	d.complete(m)
	if d.err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMessage, d.err)
	}
	return text, nil
}

// members scans the object at which the scanner is, and decodes the members of data messages.
func (d *Decoder) members(m *Message) error {
	p := &d.scan
	if p.At == len(p.In) || p.In[p.At] != '{' {
		return p.Fail("not a JSON object")
	}
	for more := !p.Open('}'); more; {
		name, err := p.Name()
		if err != nil {
			return err
		}
		if err := d.member(name, m); err != nil {
			return err
		}
		if more, err = p.Next('}'); err != nil {
			return err
		}
	}
	return nil
}

// data sets the kind of a data message. It reports whether the message is one.
func (d *Decoder) data(m *Message) bool {
	switch string(d.kind) {
	case "T":
		m.Kind, m.Trade.Kind = Trade, market.KindTrade
	case "X":
		m.Kind, m.Trade.Kind = Trade, market.KindCancel
	case "C":
		m.Kind, m.Trade.Kind = Trade, market.KindCorrect
	case "Q":
		m.Kind = Quote
	case "O":
		m.Kind = Book
	case "H":
		m.Kind = Status
		m.set |= memberRare
	case "D":
		m.Kind = Summary
		m.set |= memberRare
	case "K":
		m.Kind = Bar
		m.set |= memberRare
	default:
		return false
	}
	return true
}

// complete checks that a data message has the members that its kind requires, and copies those that
// have another place in other kinds.
func (d *Decoder) complete(m *Message) {
	need := uint64(memberI | memberN | memberT)
	switch m.Kind {
	case Trade:
		need |= memberP | memberZ
	case Quote:
		if d.bid.Size > 0 {
			d.bids = append(d.bids, d.bid)
		}
		if d.ask.Size > 0 {
			d.asks = append(d.asks, d.ask)
		}
	case Book:
		need |= memberK
		if m.Snapshot {
			need |= memberDL
		} else {
			need |= memberL
		}
	case Status:
		need |= memberE
	case Summary:
		m.Figures.Open, m.Figures.High, m.Figures.Low = m.Bar.Open, m.Bar.High, m.Bar.Low
		m.Figures.PreviousClose = m.Bar.Close
		m.Figures.Volume, m.Figures.Value, m.Figures.Trades = m.Bar.Volume, m.Bar.Value, m.Bar.Trades
		m.Bar = wire.Bar{}
	case Bar:
		need |= memberIV
		m.Bar.Revised, m.Snapshot = m.Snapshot, false
	}
	if d.Lenient {
		need &^= memberT | memberDL | memberK
	}
	m.Bids, m.Asks = d.bids, d.asks
	if missing := need &^ m.set; missing != 0 && d.err == nil {
		d.err = fmt.Errorf("a message %s without the member %s", d.kind, memberNames[bits.TrailingZeros64(missing)])
	}
}

// bad records the first error of a member.
func (d *Decoder) bad(name []byte, err error) {
	if d.err == nil {
		d.err = fmt.Errorf("member %.40s: %w", name, err)
	}
}
