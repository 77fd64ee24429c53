// Package msgpack converts the messages of the stream between JSON and MessagePack.
package msgpack

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/ruedahq/rueda/internal/base/jsonscan"
)

// extDecimal is the MessagePack extension type of a decimal, stored as ASCII text.
const extDecimal = 1

// numbers selects how the numbers of a value are encoded. It depends on the key and not on the
// number, so that a key has one type everywhere: a price of 7050 is a decimal just as 7049.5 is.
type numbers uint8

const (
	integers numbers = iota
	decimals         // all of them
	levels           // an array of levels
	level            // price and size, then a number of orders
)

// numbersOf returns the encoding of the numbers of a key.
func numbersOf(key []byte) numbers {
	switch string(key) {
	case "P", "Z", "XP", "XZ", "BP", "BZ", "AP", "AZ",
		"OP", "HI", "LO", "CL", "LA", "TV", "EV", "VW", "SE", "OI", "speed":
		return decimals
	case "A", "B":
		return levels
	}
	return integers
}

// Append appends a message, given as JSON without spaces, as MessagePack. Lengths and
// integers take their shortest form. Text that is not such JSON becomes a string; no encoder of
// this package produces it.
func Append(b, text []byte) []byte {
	start := len(b)
	p := packer{Scanner: jsonscan.Scanner{In: text}, out: b}
	if p.value(0, integers) && p.At == len(text) {
		return p.out
	}
	return appendPackedString(p.out[:start], text)
}

// A packer reads JSON and writes MessagePack.
type packer struct {
	jsonscan.Scanner
	out []byte
}

// take skips c if it comes next.
func (p *packer) take(c byte) bool {
	if p.At < len(p.In) && p.In[p.At] == c {
		p.At++
		return true
	}
	return false
}

func (p *packer) value(depth int, n numbers) bool {
	if p.At == len(p.In) {
		return false
	}
	switch c := p.In[p.At]; {
	case c == '"':
		_, ok := p.text()
		return ok
	case c == '-' || c-'0' <= 9:
		return p.packNumber(n)
	case c == '{':
		return depth < jsonscan.MaxDepth && p.packObject(depth+1)
	case c == '[':
		return depth < jsonscan.MaxDepth && p.packArray(depth+1, n)
	case c == 't':
		p.out = append(p.out, 0xc3)
		return p.Word("true") == nil
	case c == 'f':
		p.out = append(p.out, 0xc2)
		return p.Word("false") == nil
	case c == 'n':
		p.out = append(p.out, 0xc0)
		return p.Word("null") == nil
	}
	return false
}

func (p *packer) packObject(depth int) bool {
	p.At++
	start, count := len(p.out), 0
	p.out = append(p.out, 0)
	for more := !p.take('}'); more; count++ {
		if p.At == len(p.In) || p.In[p.At] != '"' {
			return false
		}
		key, ok := p.text()
		if !ok || !p.take(':') {
			return false
		}
		n := integers
		if depth == 1 {
			n = numbersOf(key)
		}
		if !p.value(depth, n) {
			return false
		}
		if more = p.take(','); !more && !p.take('}') {
			return false
		}
	}
	p.counted(start, count, 0x80, 0xde)
	return true
}

func (p *packer) packArray(depth int, n numbers) bool {
	p.At++
	start, count := len(p.out), 0
	p.out = append(p.out, 0)
	for more := !p.take(']'); more; count++ {
		item := n
		switch {
		case n == levels:
			item = level
		case n == level && count < 2:
			item = decimals
		case n == level:
			item = integers
		}
		if !p.value(depth, item) {
			return false
		}
		if more = p.take(','); !more && !p.take(']') {
			return false
		}
	}
	p.counted(start, count, 0x90, 0xdc)
	return true
}

// counted writes the header of an array or map at start, where one byte was reserved.
func (p *packer) counted(start, count int, fix, wide byte) {
	if count < 16 {
		p.out[start] = fix | byte(count)
		return
	}
	head := [5]byte{wide, byte(count >> 8), byte(count)}
	n := 3
	if count > math.MaxUint16 {
		head[0] = wide + 1
		binary.BigEndian.PutUint32(head[1:], uint32(count))
		n = 5
	}
	end := len(p.out)
	p.out = append(p.out, head[1:n]...)
	copy(p.out[start+n:], p.out[start+1:end])
	copy(p.out[start:], head[:n])
}

// text encodes a string and returns it, a view of the input or the output.
func (p *packer) text() (s []byte, ok bool) {
	start := p.At + 1
	for i := start; i < len(p.In); i++ {
		switch c := p.In[i]; {
		case c == '"':
			p.At = i + 1
			p.out = appendPackedString(p.out, p.In[start:i])
			return p.In[start:i], true
		case c == '\\':
			p.At = i
			return p.escapedText(start)
		case c < ' ':
			return nil, false
		}
	}
	return nil, false
}

// escapedText continues with a string whose first escape is at p.At.
func (p *packer) escapedText(start int) (s []byte, ok bool) {
	const most = 5 // bytes of a string's header
	begin := len(p.out)
	b := append(p.out, make([]byte, most)...)
	b = append(b, p.In[start:p.At]...)
	for p.At < len(p.In) {
		switch c := p.In[p.At]; {
		case c == '"':
			p.At++
			var head [most]byte
			n := copy(head[:], appendStringHead(head[:0], len(b)-begin-most))
			copy(b[begin:], head[:n])
			p.out = b[:begin+n+copy(b[begin+n:], b[begin+most:])]
			return p.out[begin+n:], true
		case c < ' ':
			return nil, false
		case c != '\\':
			b = append(b, c)
			p.At++
		default:
			var err error
			if b, err = p.AppendEscaped(b); err != nil {
				return nil, false
			}
		}
	}
	return nil, false
}

func (p *packer) packNumber(n numbers) bool {
	text, err := p.Number()
	if err != nil {
		return false
	}
	if n != decimals {
		if v, negative, ok := parseInteger(text); ok {
			p.out = appendPackedInt(p.out, v, negative)
			return true
		}
	}
	p.out = appendPackedDecimal(p.out, text)
	return true
}

// parseInteger parses an integer that fits MessagePack. Its value is v, or -v if negative.
func parseInteger(text []byte) (v uint64, negative, ok bool) {
	if text[0] == '-' {
		negative = true
		text = text[1:]
	}
	if len(text) > 19 { // every 19-digit number fits
		return 0, false, false
	}
	for _, c := range text {
		if c -= '0'; c > 9 {
			return 0, false, false
		}
		v = v*10 + uint64(c)
	}
	return v, negative, !negative || v <= 1<<63
}

func appendPackedInt(b []byte, v uint64, negative bool) []byte {
	if !negative {
		switch {
		case v < 1<<7:
			return append(b, byte(v))
		case v < 1<<8:
			return append(b, 0xcc, byte(v))
		case v < 1<<16:
			return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(v))
		case v < 1<<32:
			return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(v))
		}
		return binary.BigEndian.AppendUint64(append(b, 0xcf), v)
	}
	switch i := -v; {
	case v <= 1<<5:
		return append(b, byte(i))
	case v <= 1<<7:
		return append(b, 0xd0, byte(i))
	case v <= 1<<15:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(i))
	case v <= 1<<31:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(i))
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xd3), i)
	}
}

func appendPackedDecimal(b, text []byte) []byte {
	switch n := len(text); n {
	case 1:
		b = append(b, 0xd4, extDecimal)
	case 2:
		b = append(b, 0xd5, extDecimal)
	case 4:
		b = append(b, 0xd6, extDecimal)
	case 8:
		b = append(b, 0xd7, extDecimal)
	case 16:
		b = append(b, 0xd8, extDecimal)
	default:
		if n > math.MaxUint8 {
			return appendPackedString(b, text) // no encoder of this package produces such a number
		}
		b = append(b, 0xc7, byte(n), extDecimal)
	}
	return append(b, text...)
}

func appendPackedString[T string | []byte](b []byte, s T) []byte {
	return append(appendStringHead(b, len(s)), s...)
}

func appendStringHead(b []byte, n int) []byte {
	switch {
	case n < 1<<5:
		return append(b, 0xa0|byte(n))
	case n < 1<<8:
		return append(b, 0xd9, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xda), uint16(n))
	}
	return binary.BigEndian.AppendUint32(append(b, 0xdb), uint32(n))
}

// AppendJSON appends a MessagePack value as JSON. It accepts the types that JSON has: nil,
// booleans, integers, decimals (extension type 1), UTF-8 strings, arrays, and maps with string
// keys, at most jsonscan.MaxDepth levels deep. It rejects floats, binary, other extensions and
// anything after the value, but not duplicate keys, which ParseJSON rejects. n bytes of input
// produce at most 6 n bytes.
func AppendJSON(b, data []byte) ([]byte, error) {
	u := unpacker{in: data, out: b}
	if err := u.value(0); err != nil {
		return b, err
	}
	if u.at != len(data) {
		return b, u.fail("bytes after the value")
	}
	return u.out, nil
}

type unpacker struct {
	in  []byte
	at  int
	out []byte
}

func (u *unpacker) fail(what string) error {
	return fmt.Errorf("%s at offset %d", what, u.at)
}

// next consumes n bytes.
func (u *unpacker) next(n uint64) ([]byte, error) {
	if n > uint64(len(u.in)-u.at) {
		return nil, u.fail("unexpected end")
	}
	b := u.in[u.at : u.at+int(n)]
	u.at += int(n)
	return b, nil
}

// number consumes a big-endian number of n bytes.
func (u *unpacker) number(n uint64) (uint64, error) {
	b, err := u.next(n)
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v, err
}

func (u *unpacker) value(depth int) error {
	if u.at == len(u.in) {
		return u.fail("unexpected end")
	}
	c := uint64(u.in[u.at])
	u.at++
	switch {
	case c < 0x80:
		u.out = strconv.AppendUint(u.out, c, 10)
		return nil
	case c < 0x90:
		return u.values(c&15, depth+1, true)
	case c < 0xa0:
		return u.values(c&15, depth+1, false)
	case c < 0xc0:
		return u.text(c & 31)
	case c >= 0xe0:
		u.out = strconv.AppendInt(u.out, int64(int8(c)), 10)
		return nil
	}
	switch c {
	case 0xc0:
		u.out = append(u.out, "null"...)
	case 0xc2:
		u.out = append(u.out, "false"...)
	case 0xc3:
		u.out = append(u.out, "true"...)
	case 0xcc, 0xcd, 0xce, 0xcf:
		v, err := u.number(1 << (c - 0xcc))
		u.out = strconv.AppendUint(u.out, v, 10)
		return err
	case 0xd0, 0xd1, 0xd2, 0xd3:
		size := uint64(1) << (c - 0xd0)
		v, err := u.number(size)
		unused := 64 - 8*size
		u.out = strconv.AppendInt(u.out, int64(v<<unused)>>unused, 10)
		return err
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return u.decimal(1 << (c - 0xd4))
	case 0xc7, 0xd9, 0xda, 0xdb, 0xdc, 0xdd, 0xde, 0xdf:
		return u.long(c, depth)
	default:
		u.at--
		return u.fail("a type that JSON does not have")
	}
	return nil
}

// long consumes a value whose length or count has bytes of its own.
func (u *unpacker) long(c uint64, depth int) error {
	var size uint64 = 4
	switch c {
	case 0xc7, 0xd9:
		size = 1
	case 0xda, 0xdc, 0xde:
		size = 2
	}
	n, err := u.number(size)
	switch {
	case err != nil:
		return err
	case c == 0xc7:
		return u.decimal(n)
	case c < 0xdc:
		return u.text(n)
	}
	return u.values(n, depth+1, c >= 0xde)
}

func (u *unpacker) values(count uint64, depth int, isMap bool) error {
	if depth > jsonscan.MaxDepth {
		return u.fail("nested too deep")
	}
	brackets := "[]"
	if isMap {
		brackets = "{}"
	}
	u.out = append(u.out, brackets[0])
	for i := range count {
		if i > 0 {
			u.out = append(u.out, ',')
		}
		if isMap {
			if u.at < len(u.in) && !isPackedString(u.in[u.at]) {
				return u.fail("a key that is not a string")
			}
			if err := u.value(depth); err != nil {
				return err
			}
			u.out = append(u.out, ':')
		}
		if err := u.value(depth); err != nil {
			return err
		}
	}
	u.out = append(u.out, brackets[1])
	return nil
}

func isPackedString(c byte) bool { return c&0xe0 == 0xa0 || c >= 0xd9 && c <= 0xdb }

func (u *unpacker) text(n uint64) error {
	b, err := u.next(n)
	switch {
	case err != nil:
		return err
	case jsonscan.IsPlain(b): // the usual case
		u.out = append(u.out, '"')
		u.out = append(u.out, b...)
		u.out = append(u.out, '"')
		return nil
	case !utf8.Valid(b):
		return u.fail("a string that is not UTF-8")
	}
	u.out = jsonscan.AppendString(u.out, string(b))
	return nil
}

func (u *unpacker) decimal(n uint64) error {
	kind, err := u.number(1)
	if err != nil {
		return err
	}
	if kind != extDecimal {
		return u.fail("an extension other than decimals")
	}
	b, err := u.next(n)
	if err != nil {
		return err
	}
	p := jsonscan.Scanner{In: b}
	if len(b) > 0 && (b[0] == '-' || b[0]-'0' <= 9) {
		if _, err := p.Number(); err == nil && p.At == len(b) {
			u.out = append(u.out, b...)
			return nil
		}
	}
	return u.fail("a decimal that is not a number's text")
}
