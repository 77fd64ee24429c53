// Package jsonscan scans JSON texts strictly, as RFC 8259 and I-JSON (RFC 7493) require. It has the
// tokens; its callers have the values. Texts must be valid UTF-8, which callers check.
package jsonscan

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// MaxDepth is the maximum nesting of arrays and objects.
const MaxDepth = 16

// Scanner reads a JSON text. At is the offset of the next byte of In.
type Scanner struct {
	In []byte
	At int
}

// Error is what is wrong with a text at an offset.
type Error struct {
	What string
	At   int
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s at offset %d", e.What, e.At) }

// Fail returns an *Error at the current offset.
func (p *Scanner) Fail(what string) error { return &Error{what, p.At} }

// Space skips white space.
func (p *Scanner) Space() {
	if p.At < len(p.In) && p.In[p.At] > ' ' {
		return // as in every message of a server
	}
	p.skipSpace()
}

func (p *Scanner) skipSpace() {
	for p.At < len(p.In) {
		switch p.In[p.At] {
		case ' ', '\t', '\n', '\r':
			p.At++
		default:
			return
		}
	}
}

// Word skips true, false or null.
func (p *Scanner) Word(w string) error {
	if !bytes.HasPrefix(p.In[p.At:], []byte(w)) {
		return p.Fail("unexpected character")
	}
	p.At += len(w)
	return nil
}

// End skips white space and returns an error unless it is the end of the text.
func (p *Scanner) End() error {
	if p.Space(); p.At != len(p.In) {
		return p.Fail("text after the value")
	}
	return nil
}

// Open skips an opening bracket, and the closing one if it comes next.
func (p *Scanner) Open(end byte) (empty bool) {
	p.At++
	if p.Space(); p.At < len(p.In) && p.In[p.At] == end {
		p.At++
		return true
	}
	return false
}

// Name reads the name of a member of an object, and skips the colon after it. The name is a view of
// the input if it has no escapes.
func (p *Scanner) Name() ([]byte, error) {
	if in := p.In[p.At:]; len(in) > 5 && in[0] == '"' && isNameByte(in[1]) { // one or two letters
		switch {
		case in[2] == '"' && in[3] == ':' && in[4] > ' ':
			p.At += 4
			return in[1:2], nil
		case isNameByte(in[2]) && in[3] == '"' && in[4] == ':' && in[5] > ' ':
			p.At += 5
			return in[1:3], nil
		}
	}
	if p.At == len(p.In) || p.In[p.At] != '"' {
		return nil, p.Fail("expected a name")
	}
	name, err := p.Text()
	if err != nil {
		return nil, err
	}
	return name, p.Colon()
}

func isNameByte(c byte) bool { return c >= 'A' && c <= 'Z' }

// Colon skips a colon and the white space around it.
func (p *Scanner) Colon() error {
	if p.Space(); p.At == len(p.In) || p.In[p.At] != ':' {
		return p.Fail("expected a colon")
	}
	p.At++
	p.Space()
	return nil
}

// Next skips a comma or the closing bracket.
func (p *Scanner) Next(end byte) (more bool, err error) {
	if in := p.In[p.At:]; len(in) > 1 && in[0] == ',' && in[1] > ' ' {
		p.At++
		return true, nil
	}
	p.Space()
	if p.At == len(p.In) {
		return false, p.Fail("unexpected end")
	}
	switch p.In[p.At] {
	case ',':
		p.At++
		p.Space()
		return true, nil
	case end:
		p.At++
		return false, nil
	}
	return false, p.Fail("expected a comma")
}

// Number skips a number and returns its text, a view of the input.
func (p *Scanner) Number() ([]byte, error) {
	in, start := p.In, p.At
	i := start
	if in[i] == '-' {
		i++
	}
	digits := i
	for i < len(in) && in[i]-'0' <= 9 {
		i++
	}
	if i > digits && in[digits] == '0' {
		i = digits + 1 // what follows is not a part of the number
	}
	ok := i > digits
	if ok && i < len(in) && in[i] == '.' {
		i++
		digits = i
		for i < len(in) && in[i]-'0' <= 9 {
			i++
		}
		ok = i > digits
	}
	if ok && i < len(in) && in[i]|0x20 == 'e' {
		if i++; i < len(in) && (in[i] == '+' || in[i] == '-') {
			i++
		}
		digits = i
		for i < len(in) && in[i]-'0' <= 9 {
			i++
		}
		ok = i > digits
	}
	if p.At = i; !ok {
		return nil, p.Fail("bad number")
	}
	return in[start:i], nil
}

// Text decodes a string. The result is a view of the input if it has no escapes.
func (p *Scanner) Text() ([]byte, error) {
	in, start := p.In, p.At+1
	i := start + plain(in[start:])
	p.At = i
	switch {
	case i == len(in):
		return nil, p.Fail("unexpected end")
	case in[i] == '"':
		p.At++
		return in[start:i], nil
	case in[i] == '\\':
		return p.escaped(start)
	}
	return nil, p.Fail("control character in a string")
}

// plain returns how many bytes come before the first quote, backslash or control character.
func plain(in []byte) int {
	const ones, highest = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; len(in)-i >= 8; i += 8 {
		w := binary.LittleEndian.Uint64(in[i:])
		quote, backslash := w^'"'*ones, w^'\\'*ones // bytes that are 0
		// A subtraction that borrows sets the highest bit. It may be wrong in later bytes only.
		found := ((quote-ones)&^quote | (backslash-ones)&^backslash | (w-' '*ones)&^w) & highest
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(in) && in[i] >= ' ' && in[i] != '"' && in[i] != '\\' {
		i++
	}
	return i
}

// escaped continues to decode a string whose first escape is at p.At.
func (p *Scanner) escaped(start int) ([]byte, error) {
	b := append(make([]byte, 0, p.At-start+32), p.In[start:p.At]...)
	for p.At < len(p.In) {
		switch c := p.In[p.At]; {
		case c == '"':
			p.At++
			return b, nil
		case c < ' ':
			return nil, p.Fail("control character in a string")
		case c != '\\':
			b = append(b, c)
			p.At++
		default:
			var err error
			if b, err = p.AppendEscaped(b); err != nil {
				return nil, err
			}
		}
	}
	return nil, p.Fail("unexpected end")
}

// AppendEscaped decodes an escape and appends its character.
func (p *Scanner) AppendEscaped(b []byte) ([]byte, error) {
	if p.At+1 >= len(p.In) {
		return b, p.Fail("unexpected end")
	}
	c := p.In[p.At+1]
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		p.At += 2
		return append(b, "\"\\/\b\f\n\r\t"[i]), nil
	}
	if c != 'u' {
		return b, p.Fail("bad escape")
	}
	r, ok := p.hex4(p.At + 2)
	if !ok {
		return b, p.Fail("bad escape")
	}
	p.At += 6
	if r < 0xD800 || r > 0xDFFF {
		return utf8.AppendRune(b, r), nil
	}
	low, ok := rune(0), false
	if r < 0xDC00 && p.At+1 < len(p.In) && p.In[p.At] == '\\' && p.In[p.At+1] == 'u' {
		low, ok = p.hex4(p.At + 2)
	}
	if !ok || low < 0xDC00 || low > 0xDFFF {
		return b, p.Fail("lone surrogate")
	}
	p.At += 6
	return utf8.AppendRune(b, 0x10000+(r-0xD800)<<10+(low-0xDC00)), nil
}

func (p *Scanner) hex4(at int) (rune, bool) {
	if at+4 > len(p.In) {
		return 0, false
	}
	var r rune
	for _, c := range p.In[at : at+4] {
		switch {
		case c-'0' <= 9:
			r = r<<4 + rune(c-'0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r = r<<4 + rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// IsPlain reports whether s needs no escapes in JSON, and is ASCII.
func IsPlain[T string | []byte](s T) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	if IsPlain(s) { // the usual case
		b = append(b, s...)
		return append(b, '"')
	}
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r < ' ' || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
