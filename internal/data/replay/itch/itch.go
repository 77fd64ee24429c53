package itch

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// Market is the market of the instruments.
const Market = "NASDAQ"

// Config holds what a file does not contain.
type Config struct {
	Midnight int64 // Unix nanoseconds of the midnight in New York from which times count
	Filter   decode.Filter
}

// Decoder decodes one file from beginning to end.
type Decoder struct {
	config   Config
	begun    bool
	wholeDay bool  // the file begins with the start of messages
	last     int64 // newest time, after midnight
	venue    market.Handle
	listed   bool // the venue is listed
	index    [1 << 16]int32
	stocks   []stock // the first one is unused
	orders   int     // in all books
	trades   tradeRing
}

// stock is the instrument of a locate code.
type stock struct {
	symbol  string
	handle  market.Handle
	skipped bool         // excluded by the filter
	phase   market.Phase // stated by the newest H
	stopped bool         // set by h
	orders  decode.Orders
}

// New returns a decoder for a file.
func New(c Config) *Decoder {
	return &Decoder{config: c, stocks: make([]stock, 1)}
}

// lengths holds the lengths of messages, by type.
var lengths = [256]uint8{
	'S': 12, 'R': 39, 'H': 25, 'Y': 20, 'L': 26, 'V': 35, 'W': 12, 'K': 28, 'J': 35, 'h': 21,
	'A': 36, 'F': 40, 'E': 31, 'C': 36, 'X': 23, 'D': 19, 'U': 35, 'P': 44, 'Q': 40, 'B': 19,
	'I': 50, 'N': 20, 'O': 48,
}

// prefix is the size of the length that precedes a message.
const prefix = 2

// fullDay is the maximum length of a day, in nanoseconds.
const fullDay = 24 * 3600 * 1_000_000_000

// Sniff reports whether data may be the beginning of an ITCH file: whether its first messages have
// valid types and lengths. whole means that the file ends with data.
func Sniff(data []byte, whole bool) bool {
	found := false
	for n := 0; n < 16 && len(data) > prefix; n++ {
		size := int(lengths[data[prefix]])
		if length := int(binary.BigEndian.Uint16(data)); size == 0 || length != 0 && length != size {
			return false
		}
		if len(data) < prefix+size {
			return found || !whole
		}
		if time48(data[prefix:]) >= fullDay {
			return false
		}
		found = true
		data = data[prefix+size:]
	}
	return found
}

// time48 returns the time of a message.
func time48(m []byte) int64 {
	return int64(binary.BigEndian.Uint64(m[3:]) & (1<<48 - 1))
}

// Decode implements the decoder interface of package decode.
func (d *Decoder) Decode(data []byte, b *decode.Batch) (n int, err error) {
	for !b.Full() && len(data)-n > prefix {
		length := int(binary.BigEndian.Uint16(data[n:]))
		kind := data[n+prefix]
		size := int(lengths[kind])
		switch {
		case size == 0 && length == 0:
			return n, fmt.Errorf("message of unknown type %q without a length", kind)
		case size == 0:
			size = length
		case length != 0 && length != size:
			return n, fmt.Errorf("message of type %q has length %d instead of %d", kind, length, size)
		}
		if len(data)-n < prefix+size {
			break
		}
		if lengths[kind] == 0 {
			b.Skip(decode.Unsupported)
		} else if err := d.message(data[n+prefix:n+prefix+size:n+prefix+size], b); err != nil {
			return n, err
		}
		b.EndRecord()
		b.Cut()
		n += prefix + size
	}
	return n, nil
}

// End implements the decoder interface of package decode.
func (d *Decoder) End(rest []byte, _ *decode.Batch) error {
	if len(rest) == 0 || len(rest) == prefix && rest[0] == 0 && rest[1] == 0 {
		return nil
	}
	return errors.New("the file ends within a message")
}

func (d *Decoder) message(m []byte, b *decode.Batch) error {
	t := time48(m)
	if t < d.last {
		return fmt.Errorf("the time goes back by %d ns", d.last-t)
	}
	if t >= fullDay {
		return errors.New("the time is past the end of the day")
	}
	d.last = t
	if !d.begun {
		d.begun, d.wholeDay = true, m[0] == 'S' && m[11] == 'O'
	}
	t += d.config.Midnight
	switch m[0] {
	case 'S':
		d.system(m[11], t, b)
		return nil
	case 'R':
		return d.directory(m, b)
	case 'L', 'V', 'W', 'Y', 'K', 'J', 'I', 'N', 'O':
		b.Skip(decode.OtherType)
		return nil
	}
	s := &d.stocks[d.index[binary.BigEndian.Uint16(m[1:])]]
	if s.symbol == "" {
		var err error
		if s, err = d.missing(m, b); s == nil {
			return err
		}
	}
	if s.skipped {
		b.Skip(decode.Filtered)
		return nil
	}
	switch m[0] {
	case 'A', 'F':
		return d.add(s, m, t, b)
	case 'E', 'C':
		return d.execute(s, m, t, b)
	case 'X':
		return d.reduce(s, m, t, b)
	case 'D':
		return d.remove(s, m, t, b)
	case 'U':
		return d.replace(s, m, t, b)
	case 'P', 'Q':
		return d.trade(s, m, t, b)
	case 'B':
		d.broken(s, m, t, b)
	case 'H', 'h':
		d.status(s, m, t, b)
	}
	return nil
}

// system publishes the status of the market as a whole.
func (d *Decoder) system(code byte, t int64, b *decode.Batch) {
	var phase market.Phase
	switch code {
	case 'S':
		phase = market.PreOpen
	case 'Q':
		phase = market.Open
	case 'M':
		phase = market.PostClose
	case 'E':
		phase = market.Closed
	default: // the start and end of messages
		b.Skip(decode.NoEffect)
		return
	}
	if !d.listed {
		d.listed, d.venue = true, b.List(decode.WholeMarket(Market))
	}
	b.Stats.Statuses++
	e := b.Add(market.KindStatus, d.venue)
	e.Time, e.Phase = t, phase
}

// directory lists a stock.
func (d *Decoder) directory(m []byte, b *decode.Batch) error {
	_, err := d.list(binary.BigEndian.Uint16(m[1:]), m[11:19], b)
	return err
}

func (d *Decoder) list(locate uint16, name []byte, b *decode.Batch) (*stock, error) {
	symbol := decode.Symbol(name)
	if symbol == "" {
		return nil, errors.New("a stock without a symbol")
	}
	if i := d.index[locate]; i != 0 {
		s := &d.stocks[i]
		if s.symbol != symbol {
			return nil, fmt.Errorf("locate code %d is of %s and of %s", locate, s.symbol, symbol)
		}
		return s, nil
	}
	s := stock{symbol: symbol, phase: market.Unknown}
	in := decode.Equity(symbol, Market)
	in.Phase = s.phase
	if s.skipped = !d.config.Filter.Matches(in.ID); !s.skipped {
		if d.wholeDay {
			in.StartsEmpty = true
		}
		s.handle = b.List(in)
	}
	d.index[locate] = int32(len(d.stocks))
	d.stocks = append(d.stocks, s)
	return &d.stocks[len(d.stocks)-1], nil
}

// missing returns the stock of a message whose locate code is not known yet. If the file covers
// part of a day, the message may name the stock; otherwise it is skipped.
func (d *Decoder) missing(m []byte, b *decode.Batch) (*stock, error) {
	locate := binary.BigEndian.Uint16(m[1:])
	if d.wholeDay {
		return nil, fmt.Errorf("message of type %q of locate code %d, which is not assigned", m[0], locate)
	}
	switch m[0] {
	case 'A', 'F', 'P':
		return d.list(locate, m[24:32], b)
	case 'Q':
		return d.list(locate, m[19:27], b)
	case 'H', 'h':
		return d.list(locate, m[11:19], b)
	}
	b.Skip(decode.UnknownBook)
	return nil, nil
}

// status publishes the status of a stock: H for all markets, h for NASDAQ only.
func (d *Decoder) status(s *stock, m []byte, t int64, b *decode.Batch) {
	reason := ""
	switch {
	case m[0] == 'h' && m[19] != 'Q': // another market of the same owner
		b.Skip(decode.OtherType)
		return
	case m[0] == 'h':
		stop := m[20] == 'H'
		if stop == s.stopped {
			b.Skip(decode.NoEffect)
			return
		}
		if s.stopped = stop; stop {
			reason = "operational_halt"
		}
	default:
		phase := phaseOf(m[19])
		if phase == market.NoPhase {
			b.Skip(decode.NoEffect)
			return
		}
		s.phase, reason = phase, decode.HaltReason(m[21:25])
	}
	phase := s.phase
	if s.stopped {
		phase = market.Halt
	}
	b.Stats.Statuses++
	e := b.Add(market.KindStatus, s.handle)
	e.Time, e.Phase, e.Reason = t, phase, reason
}

// phaseOf returns the phase of a trading state, NoPhase if it is unknown.
func phaseOf(state byte) market.Phase {
	switch state {
	case 'T':
		return market.Open
	case 'H':
		return market.Halt
	case 'P':
		return market.Pause
	case 'Q':
		return market.Quoting
	}
	return market.NoPhase
}
