package stream

import (
	"errors"
	"strings"

	"github.com/ruedahq/rueda/internal/base/jsonscan"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Members that a kind of message may require, as bits.
const (
	memberI = 1 << iota
	memberN
	memberT
	memberP
	memberZ
	memberK
	memberL
	memberDL
	memberE
	memberIV
	memberRare // one that the messages of the highest rates do not have
)

var memberNames = [...]string{"I", "N", "T", "P", "Z", "K", "L", "DL", "E", "IV"}

// Errors of members.
var (
	errString  = errors.New("not a string of at most 200 bytes")
	errInteger = errors.New("not an integer in its range")
	errBool    = errors.New("neither true nor false")
	errLevels  = errors.New("not an array of levels [price,size] or [price,size,orders]")
	errDepth   = errors.New("nested too deep")
)

// member decodes one member. A member has the same meaning in every data message, so that its order
// does not matter. The error is one of JSON; d.err has the first error of a value.
func (d *Decoder) member(name []byte, m *Message) error {
	switch string(name) {
	case "type":
		if d.peek() == '"' {
			var err error
			d.kind, err = d.scan.Text()
			return err
		}
		return d.skip(0)
	case "S": // which I has
		return d.skip(0)
	case "I":
		return d.instrument(name, m)
	case "N":
		m.set |= memberN
		return d.integer(name, &m.N, 1<<64-1)
	case "T":
		m.set |= memberT
		return d.time(name, &m.Time)
	case "D":
		return integerOf(d, name, &m.Latency, 1<<62)
	case "DE":
		return integerOf(d, name, &m.Delay, 1<<31-1)
	case "R":
		return d.flag(name, &m.Snapshot)
	case "P":
		m.set |= memberP
		return d.price(name, &m.Trade.Price)
	case "Z":
		m.set |= memberZ
		return d.size(name, &m.Trade.Size)
	case "X":
		return d.tradeID(name, m)
	case "G":
		return d.side(name, m)
	case "B":
		return d.levels(name, &d.bids)
	case "A":
		return d.levels(name, &d.asks)
	case "BP":
		return d.price(name, &d.bid.Price)
	case "BZ":
		return d.size(name, &d.bid.Size)
	case "AP":
		return d.price(name, &d.ask.Price)
	case "AZ":
		return d.size(name, &d.ask.Size)
	case "BC":
		return integerOf(d, name, &d.bid.Orders, 1<<32-1)
	case "AC":
		return integerOf(d, name, &d.ask.Orders, 1<<32-1)
	case "K":
		m.set |= memberK
		return integerOf(d, name, &m.Checksum, 1<<32-1)
	case "L":
		m.set |= memberL
		return d.integer(name, &m.Previous, 1<<64-1)
	}
	return d.rarer(name, m)
}

// rarer decodes the members that few messages have.
func (d *Decoder) rarer(name []byte, m *Message) error {
	m.set |= memberRare
	switch string(name) {
	case "DL":
		m.set |= memberDL
		return integerOf(d, name, &m.Depth, 1<<31-1)
	case "C":
		return d.conditions(name, m)
	case "XP":
		return d.price(name, &m.Trade.OldPrice)
	case "XZ":
		return d.size(name, &m.Trade.OldSize)
	case "XN":
		return d.integer(name, &m.Trade.RefN, 1<<64-1)
	case "E":
		m.set |= memberE
		word, err := d.word(name)
		m.Phase, _ = market.ParsePhase(word) // another word is of a newer server
		return err
	case "Y":
		var err error
		m.Reason, err = d.word(name)
		return err
	case "U":
		return d.time(name, &m.Until)
	case "IV":
		word, err := d.word(name)
		if i, ok := market.ParseInterval(word); ok {
			m.set |= memberIV
			m.Bar.Interval = i
		}
		return err
	case "TD":
		text, err := d.text(name)
		if err == nil && text != nil {
			if m.Bar.TradingDate, err = market.ParseDate(string(text)); err != nil {
				d.bad(name, err)
			}
			return nil
		}
		return err
	case "OP":
		return d.price(name, &m.Bar.Open)
	case "HI":
		return d.price(name, &m.Bar.High)
	case "LO":
		return d.price(name, &m.Bar.Low)
	case "CL":
		return d.price(name, &m.Bar.Close)
	case "LA":
		return d.price(name, &m.Figures.Last)
	case "VW":
		return d.price(name, &m.Average)
	case "SE":
		return d.price(name, &m.Figures.Settlement)
	case "OI":
		return d.size(name, &m.Figures.OpenInterest)
	case "TV":
		return d.sum(name, &m.Bar.Volume, market.SizeDecimals)
	case "EV":
		return d.sum(name, &m.Bar.Value, market.ValueDecimals)
	case "TC":
		return integerOf(d, name, &m.Bar.Trades, 1<<32-1)
	}
	return d.skip(0)
}

// peek returns the first byte of the next value, 0 at the end.
func (d *Decoder) peek() byte {
	if d.scan.At == len(d.scan.In) {
		return 0
	}
	return d.scan.In[d.scan.At]
}

// text returns a string. It is a view of the input unless it has escapes.
func (d *Decoder) text(name []byte) ([]byte, error) {
	if d.peek() != '"' {
		d.bad(name, errString)
		return nil, d.skip(0)
	}
	s, err := d.scan.Text()
	if err == nil && len(s) > maxText {
		d.bad(name, errString)
		s = nil
	}
	return s, err
}

// number returns the text of a number, a view of the input.
func (d *Decoder) number(name []byte, what error) ([]byte, error) {
	if c := d.peek(); c != '-' && c-'0' > 9 {
		d.bad(name, what)
		return nil, d.skip(0)
	}
	return d.scan.Number()
}

// digits scans the digits from offset i, and returns their value and the offset after them. The
// value is right for 19 digits at most.
func (d *Decoder) digits(i int, v uint64) (uint64, int) {
	in := d.scan.In
	for i < len(in) && in[i]-'0' <= 9 {
		v = v*10 + uint64(in[i]-'0')
		i++
	}
	return v, i
}

// ends reports whether a number ends at an offset, without a fraction or an exponent after it.
func (d *Decoder) ends(i int) bool {
	in := d.scan.In
	return i < len(in) && in[i] != '.' && in[i]|0x20 != 'e'
}

// short scans an integer of at most 18 digits. Of other texts it consumes nothing, and ok is false.
func (d *Decoder) short() (v uint64, ok bool) {
	at := d.scan.At
	v, i := d.digits(at, 0)
	if n := i - at; n == 0 || n > 18 || n > 1 && d.scan.In[at] == '0' || !d.ends(i) {
		return 0, false
	}
	d.scan.At = i
	return v, true
}

// decimal scans a decimal as most are: not negative, with at most 7 digits before the point and 8
// after it. The value has the unit 1e-8. Of other texts it consumes nothing, and ok is false.
func (d *Decoder) decimal() (v uint64, ok bool) {
	const most, decimals = 7, 8 // together market.MaxDigits
	at := d.scan.At
	v, i := d.digits(at, 0)
	if n := i - at; n == 0 || n > most || n > 1 && d.scan.In[at] == '0' || i == len(d.scan.In) {
		return 0, false
	}
	fraction := 0
	if d.scan.In[i] == '.' {
		from := i + 1
		v, i = d.digits(from, v)
		if fraction = i - from; fraction == 0 || fraction > decimals {
			return 0, false
		}
	}
	if !d.ends(i) {
		return 0, false
	}
	for ; fraction < decimals; fraction++ {
		v *= 10
	}
	d.scan.At = i
	return v, true
}

func (d *Decoder) integer(name []byte, to *uint64, most uint64) error {
	if v, ok := d.short(); ok && v <= most {
		*to = v
		return nil
	} else if ok {
		d.bad(name, errInteger)
		return nil
	}
	text, err := d.number(name, errInteger)
	if text == nil || err != nil {
		return err
	}
	v, ok := parseUint(text, most)
	if !ok {
		d.bad(name, errInteger)
	}
	*to = v
	return nil
}

func integerOf[T int | int64 | uint32](d *Decoder, name []byte, to *T, most uint64) error {
	var v uint64
	err := d.integer(name, &v, most)
	*to = T(v)
	return err
}

func parseUint(text []byte, most uint64) (v uint64, ok bool) {
	for _, c := range text {
		digit := uint64(c - '0')
		if digit > 9 || v > (most-digit)/10 {
			return 0, false
		}
		v = v*10 + digit
	}
	return v, true
}

func (d *Decoder) price(name []byte, to *market.Price) error {
	if v, ok := d.decimal(); ok {
		*to = market.Price(v)
		return nil
	}
	text, err := d.number(name, market.ErrNotDecimal)
	if text == nil || err != nil {
		return err
	}
	p, bad := market.ParsePrice(text)
	if bad != nil {
		d.bad(name, bad)
	}
	*to = p
	return nil
}

func (d *Decoder) size(name []byte, to *market.Size) error {
	if v, ok := d.decimal(); ok {
		*to = market.Size(v)
		return nil
	}
	text, err := d.number(name, market.ErrNotDecimal)
	if text == nil || err != nil {
		return err
	}
	z, bad := market.ParseSize(text)
	if bad != nil {
		d.bad(name, bad)
	}
	*to = z
	return nil
}

func (d *Decoder) sum(name []byte, to *market.Sum, decimals int) error {
	text, err := d.number(name, market.ErrNotDecimal)
	if text == nil || err != nil {
		return err
	}
	s, bad := market.ParseSum(text, decimals)
	if bad != nil {
		d.bad(name, bad)
	}
	*to = s
	return nil
}

func (d *Decoder) time(name []byte, to *int64) error {
	if ns, ok := d.sameSecond(); ok {
		*to = ns
		return nil
	}
	text, err := d.text(name)
	if err != nil {
		return err
	}
	ns, bad := wire.ParseTime(text)
	if bad != nil {
		d.bad(name, bad)
		return nil
	}
	*to = ns
	if len(text) == timeLength && text[timeLength-1] == 'Z' {
		copy(d.second[:], text)
		d.unix = ns - ns%1e9
	}
	return nil
}

const timeLength = len("2006-01-02T15:04:05.999999999Z")

// sameSecond scans a time in the second of the newest one. Of other texts it consumes nothing, and
// ok is false.
func (d *Decoder) sameSecond() (ns int64, ok bool) {
	const point, last = 1 + len(d.second), timeLength // after the quote; the Z
	in := d.scan.In[d.scan.At:]
	if len(in) < last+2 || d.unix == 0 || in[0] != '"' || string(in[1:point]) != string(d.second[:]) || string(in[last:last+2]) != `Z"` {
		return 0, false
	}
	fraction, end := d.digits(d.scan.At+point+1, 0)
	if in[point] != '.' || end != d.scan.At+last {
		return 0, false
	}
	d.scan.At += last + 2
	return d.unix + int64(fraction), true
}

func (d *Decoder) flag(name []byte, to *bool) error {
	switch d.peek() {
	case 't':
		*to = true
		return d.scan.Word("true")
	case 'f':
		return d.scan.Word("false")
	}
	d.bad(name, errBool)
	return d.skip(0)
}

func (d *Decoder) instrument(name []byte, m *Message) error {
	m.set |= memberI
	text, err := d.text(name)
	if err != nil {
		return err
	}
	if string(text) == d.newest.text && len(text) > 0 { // often a trade and a quote
		m.ID, m.Index = d.newest.id, d.newest.index
		return nil
	}
	k, ok := d.ids[string(text)]
	if !ok {
		id, bad := market.ParsePattern(string(text))
		if bad != nil {
			d.bad(name, bad)
			return nil
		}
		if d.ids == nil || len(d.ids) == maxIDs {
			d.ids = make(map[string]known)
		}
		k = known{id.String(), id, len(d.ids)}
		d.ids[k.text] = k
	}
	d.newest = k
	m.ID, m.Index = k.id, k.index
	return nil
}

func (d *Decoder) side(name []byte, m *Message) error {
	text, err := d.text(name)
	switch string(text) {
	case "B":
		m.Trade.Side = market.Buy
	case "S":
		m.Trade.Side = market.Sell
	}
	return err
}

// word returns a string that has few distinct values, and the same string for equal texts.
func (d *Decoder) word(name []byte) (string, error) {
	text, err := d.text(name)
	if len(text) == 0 {
		return "", err
	}
	if s, ok := d.words[string(text)]; ok {
		return s, err
	}
	if d.words == nil || len(d.words) == maxWords {
		d.words = make(map[string]string)
	}
	s := string(text)
	d.words[s] = s
	return s, err
}

// tradeID copies the id of a trade to a block, so that most ids need no allocation of their own.
func (d *Decoder) tradeID(name []byte, m *Message) error {
	text, err := d.text(name)
	if len(text) == 0 {
		return err
	}
	if d.texts.Len()+len(text) > d.texts.Cap() {
		d.texts = strings.Builder{}
		d.texts.Grow(block)
	}
	from := d.texts.Len()
	d.texts.Write(text)
	m.Trade.ID = d.texts.String()[from:]
	return err
}

func (d *Decoder) conditions(name []byte, m *Message) error {
	if d.peek() != '[' {
		d.bad(name, errString)
		return d.skip(0)
	}
	for more := !d.scan.Open(']'); more; {
		word, err := d.word(name)
		if err != nil {
			return err
		}
		m.Trade.Conditions = append(m.Trade.Conditions, word)
		if more, err = d.scan.Next(']'); err != nil {
			return err
		}
	}
	return nil
}

// levels decodes a side of a book. What is not a level may be of a newer kind of message.
func (d *Decoder) levels(name []byte, to *[]market.Level) error {
	p := &d.scan
	if d.peek() != '[' {
		d.bad(name, errLevels)
		return d.skip(0)
	}
	for more := !p.Open(']'); more; {
		var err error
		if d.peek() != '[' {
			d.bad(name, errLevels)
			err = d.skip(1)
		} else {
			err = d.level(name, to)
		}
		if err == nil {
			more, err = p.Next(']')
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Decoder) level(name []byte, to *[]market.Level) error {
	p := &d.scan
	if p.Open(']') {
		d.bad(name, errLevels)
		return nil
	}
	var l market.Level
	for i, more := 0, true; more; i++ {
		var err error
		switch i {
		case 0:
			err = d.price(name, &l.Price)
		case 1:
			err = d.size(name, &l.Size)
		case 2:
			err = integerOf(d, name, &l.Orders, 1<<32-1)
		default:
			err = d.skip(2)
		}
		if err == nil {
			more, err = p.Next(']')
		}
		if err != nil {
			return err
		}
		if !more && i == 0 {
			d.bad(name, errLevels)
		}
	}
	*to = append(*to, l)
	return nil
}

// skip skips a value of any type.
func (d *Decoder) skip(depth int) error {
	p := &d.scan
	if depth > jsonscan.MaxDepth {
		return errDepth
	}
	switch c := d.peek(); {
	case c == '"':
		_, err := p.Text()
		return err
	case c == '{':
		return d.skipAll('}', depth+1)
	case c == '[':
		return d.skipAll(']', depth+1)
	case c == 't':
		return p.Word("true")
	case c == 'f':
		return p.Word("false")
	case c == 'n':
		return p.Word("null")
	case c == '-' || c-'0' <= 9:
		_, err := p.Number()
		return err
	}
	return p.Fail("unexpected character")
}

// skipAll skips an array or an object up to its closing bracket.
func (d *Decoder) skipAll(end byte, depth int) error {
	p := &d.scan
	for more := !p.Open(end); more; {
		if end == '}' {
			if _, err := p.Name(); err != nil {
				return err
			}
		}
		err := d.skip(depth)
		if err == nil {
			more, err = p.Next(end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
