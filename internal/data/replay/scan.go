package replay

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/ruedahq/rueda/internal/base/jsonscan"
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
type scanner struct{ jsonscan.Scanner }

func (s *scanner) fail(format string, args ...any) error {
	return &scanError{s.At, fmt.Sprintf(format, args...)}
}

// peek returns the next byte that is not space, 0 at the end.
func (s *scanner) peek() byte {
	if s.Space(); s.At < len(s.In) {
		return s.In[s.At]
	}
	return 0
}

// expected returns the error for something else than a value of the kind what.
func (s *scanner) expected(what string) error {
	if s.At == len(s.In) {
		return s.Fail("unexpected end")
	}
	return s.Fail("expected " + what)
}

// open skips an opening bracket and reports whether the brackets have content.
func (s *scanner) open(begin, end byte) (bool, error) {
	if s.peek() != begin {
		return false, s.expected(strconv.Quote(string(begin)))
	}
	return !s.Open(end), nil
}

// text skips a string and returns it.
func (s *scanner) text() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.expected("a string")
	}
	return s.Text()
}

// integer skips a non-negative integer that fits an int64.
func (s *scanner) integer() (uint64, error) {
	if s.peek()-'0' > 9 {
		return 0, s.fail("bad number: not an integer")
	}
	start := s.At
	text, err := s.Number()
	if err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(string(text), 10, 63)
	if err == nil {
		return v, nil
	}
	s.At = start
	if errors.Is(err, strconv.ErrRange) {
		return 0, s.fail("bad number: too large")
	}
	return 0, s.fail("bad number: not an integer")
}

// price skips a price, which is a string.
func (s *scanner) price(decimals *int) (market.Price, error) {
	text, err := s.text()
	if err != nil {
		return 0, err
	}
	p, err := market.ParsePrice(text)
	if err != nil {
		s.At -= len(text) + 1
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
		s.At -= len(text) + 1
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
			more, err = s.Next(']')
		}
	}
	return dst, err
}

func (s *scanner) level(f *fields) (l market.Level, err error) {
	two, err := s.open('[', ']')
	if err == nil && two {
		l.Price, err = s.price(&f.priceDecimals)
	}
	if err == nil && two {
		two, err = s.Next(']')
	}
	if err != nil {
		return l, err
	}
	if !two {
		return l, s.fail("a level without price and size")
	}
	if l.Size, err = s.size(&f.sizeDecimals); err != nil {
		return l, err
	}
	more, err := s.Next(']')
	if err == nil && more {
		err = s.fail("a level with more than price and size")
	}
	return l, err
}

// boolean skips true or false.
func (s *scanner) boolean() (bool, error) {
	if s.peek() == 't' {
		return true, s.Word("true")
	}
	return false, s.Word("false")
}

// skip skips any value.
func (s *scanner) skip(depth int) error {
	if depth > jsonscan.MaxDepth {
		return s.fail("bad JSON: nested too deep")
	}
	switch c := s.peek(); {
	case c == '"':
		_, err := s.Text()
		return err
	case c == '{' || c == '[':
		end := c + 2 // } or ]
		more, err := s.open(c, end)
		for more && err == nil {
			if c == '{' {
				_, err = s.Name()
			}
			if err == nil {
				err = s.skip(depth + 1)
			}
			if err == nil {
				more, err = s.Next(end)
			}
		}
		return err
	case c == 't':
		return s.Word("true")
	case c == 'f':
		return s.Word("false")
	case c == 'n':
		return s.Word("null")
	case c == '-' || c-'0' <= 9:
		_, err := s.Number()
		return err
	}
	return s.expected("a value")
}
