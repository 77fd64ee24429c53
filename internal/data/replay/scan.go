package replay

import (
	"bytes"
	"fmt"

	"github.com/ruedahq/rueda/market"
)

// scanError is an error in a line, with its position.
type scanError struct {
	at   int
	what string
}

func (e *scanError) Error() string { return e.what }

// scanner parses the JSON of a message in one pass, without building a tree: a recording consists
// mostly of levels, which are stored directly. It accepts only valid JSON.
type scanner struct {
	in []byte
	at int
}

func (s *scanner) fail(format string, args ...any) error {
	return &scanError{s.at, fmt.Sprintf(format, args...)}
}

// peek returns the next byte that is not space, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.at < len(s.in); s.at++ {
		switch c := s.in[s.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

// expect skips the byte c.
func (s *scanner) expect(c byte) error {
	if got := s.peek(); got != c {
		if s.at >= len(s.in) {
			return s.fail("bad JSON: ends early")
		}
		return s.fail("bad JSON: %q where %q should be", got, c)
	}
	s.at++
	return nil
}

// more skips the comma or the closing bracket after an element.
func (s *scanner) more(end byte) (bool, error) {
	if s.peek() == ',' {
		s.at++
		return true, nil
	}
	return false, s.expect(end)
}

// open skips an opening bracket and reports whether the brackets have content.
func (s *scanner) open(begin, end byte) (bool, error) {
	if err := s.expect(begin); err != nil {
		return false, err
	}
	if s.peek() == end {
		s.at++
		return false, nil
	}
	return true, nil
}

// name skips a member's name and its colon.
func (s *scanner) name() ([]byte, error) {
	name, err := s.text()
	if err != nil {
		return nil, err
	}
	return name, s.expect(':')
}

// text skips a string and returns it as written: no expected text has escapes.
func (s *scanner) text() ([]byte, error) {
	if err := s.expect('"'); err != nil {
		return nil, err
	}
	start := s.at
	for ; s.at < len(s.in); s.at++ {
		switch c := s.in[s.at]; {
		case c == '"':
			s.at++
			return s.in[start : s.at-1], nil
		case c < ' ':
			return nil, s.fail("bad JSON: control character in a string")
		case c == '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		}
	}
	return nil, s.fail("bad JSON: ends early")
}

// escape moves to the last byte of an escape.
func (s *scanner) escape() error {
	s.at++
	if s.at == len(s.in) {
		return s.fail("bad JSON: ends early")
	}
	if bytes.IndexByte([]byte(`"\/bfnrt`), s.in[s.at]) >= 0 {
		return nil
	}
	if s.in[s.at] != 'u' {
		return s.fail("bad JSON: escape %q", s.in[s.at])
	}
	for range 4 {
		s.at++
		if s.at == len(s.in) || bytes.IndexByte([]byte("0123456789abcdefABCDEF"), s.in[s.at]) < 0 {
			return s.fail("bad JSON: escape")
		}
	}
	return nil
}

// integer skips a non-negative integer that fits an int64.
func (s *scanner) integer() (uint64, error) {
	if s.peek() == 0 {
		return 0, s.fail("bad JSON: ends early")
	}
	start, v := s.at, uint64(0)
	for ; s.at < len(s.in) && s.in[s.at]-'0' <= 9; s.at++ {
		if v > (1<<63-10)/10 {
			return 0, s.fail("bad number: too large")
		}
		v = v*10 + uint64(s.in[s.at]-'0')
	}
	if s.at == start || s.in[start] == '0' && s.at > start+1 {
		return 0, s.fail("bad number: not an integer")
	}
	return v, nil
}

// price skips a price, which is a string.
func (s *scanner) price(decimals *int) (market.Price, error) {
	text, err := s.text()
	if err != nil {
		return 0, err
	}
	p, err := market.ParsePrice(text)
	if err != nil {
		s.at -= len(text) + 1
		return 0, s.fail("bad price %q: %v", text, err)
	}
	countDecimals(decimals, text)
	return p, nil
}

// size skips a size, which is a string.
func (s *scanner) size(decimals *int) (market.Size, error) {
	text, err := s.text()
	if err != nil {
		return 0, err
	}
	z, err := market.ParseSize(text)
	if err != nil {
		s.at -= len(text) + 1
		return 0, s.fail("bad size %q: %v", text, err)
	}
	countDecimals(decimals, text)
	return z, nil
}

func countDecimals(decimals *int, text []byte) {
	if point := bytes.IndexByte(text, '.'); point >= 0 {
		*decimals = max(*decimals, len(text)-point-1)
	}
}

// levels skips an array of [price,size], both strings.
func (s *scanner) levels(dst []market.Level, f *fields) ([]market.Level, error) {
	more, err := s.open('[', ']')
	for more && err == nil {
		var l market.Level
		if l, err = s.level(f); err == nil {
			dst = append(dst, l)
			more, err = s.more(']')
		}
	}
	return dst, err
}

func (s *scanner) level(f *fields) (market.Level, error) {
	var l market.Level
	err := s.expect('[')
	if err != nil {
		return l, err
	}
	if l.Price, err = s.price(&f.priceDecimals); err != nil {
		return l, err
	}
	if err = s.expect(','); err != nil {
		return l, err
	}
	if l.Size, err = s.size(&f.sizeDecimals); err != nil {
		return l, err
	}
	return l, s.expect(']')
}

// boolean skips true or false.
func (s *scanner) boolean() (bool, error) {
	if s.peek() == 't' {
		return true, s.word("true")
	}
	return false, s.word("false")
}

func (s *scanner) word(w string) error {
	if !bytes.HasPrefix(s.in[s.at:], []byte(w)) {
		return s.fail("bad JSON: no value")
	}
	s.at += len(w)
	return nil
}

// maxDepth is the maximum nesting of skipped values.
const maxDepth = 32

// skip skips any value.
func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return s.fail("bad JSON: nested too deep")
	}
	switch s.peek() {
	case '"':
		_, err := s.text()
		return err
	case '{':
		more, err := s.open('{', '}')
		for more && err == nil {
			if _, err = s.name(); err == nil {
				if err = s.skip(depth + 1); err == nil {
					more, err = s.more('}')
				}
			}
		}
		return err
	case '[':
		more, err := s.open('[', ']')
		for more && err == nil {
			if err = s.skip(depth + 1); err == nil {
				more, err = s.more(']')
			}
		}
		return err
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	return s.number()
}

// number skips any number.
func (s *scanner) number() error {
	digits := func() bool {
		start := s.at
		for s.at < len(s.in) && s.in[s.at]-'0' <= 9 {
			s.at++
		}
		return s.at > start
	}
	at := func(set string) bool {
		return s.at < len(s.in) && bytes.IndexByte([]byte(set), s.in[s.at]) >= 0
	}
	if at("-") {
		s.at++
	}
	if at("0") {
		s.at++
	} else if !digits() {
		return s.fail("bad JSON: no value")
	}
	if at(".") {
		s.at++
		if !digits() {
			return s.fail("bad number")
		}
	}
	if at("eE") {
		s.at++
		if at("+-") {
			s.at++
		}
		if !digits() {
			return s.fail("bad number")
		}
	}
	return nil
}
