package market

import (
	"cmp"
	"errors"
	"strings"
)

// InstrumentID identifies an instrument by what trades, where, and when it settles. Its text is
// SYMBOL|MARKET|TERM. A pattern may have "*" as a whole part, which matches every value of that
// part.
type InstrumentID struct {
	Symbol string // 1 to 32 printable ASCII characters except space | * , " \ ;
	Market string // [A-Za-z0-9][A-Za-z0-9._-]{0,15}
	Term   string // settlement term as the market names it: CI, 24hs, SPOT; same grammar as Market
}

// Any is the pattern part that matches every value.
const Any = "*"

// MaxIDLength is the maximum length of the text of an InstrumentID, in bytes.
const MaxIDLength = 32 + 1 + 16 + 1 + 16

// ErrBadInstrument is returned for a text that does not follow the grammar SYMBOL|MARKET|TERM.
var ErrBadInstrument = errors.New("not of the form SYMBOL|MARKET|TERM")

// ParseInstrumentID parses an exact identifier. It does not change case, trim spaces or fill in
// missing parts. It returns ErrBadInstrument for any other text.
func ParseInstrumentID(s string) (InstrumentID, error) {
	id, err := ParsePattern(s)
	if err != nil || id.IsPattern() {
		return InstrumentID{}, ErrBadInstrument
	}
	return id, nil
}

// ParsePattern parses an identifier whose parts may be "*". It returns ErrBadInstrument for any
// other text.
func ParsePattern(s string) (InstrumentID, error) {
	if len(s) > MaxIDLength {
		return InstrumentID{}, ErrBadInstrument
	}
	symbol, rest, ok := strings.Cut(s, "|")
	if !ok {
		return InstrumentID{}, ErrBadInstrument
	}
	mkt, term, ok := strings.Cut(rest, "|")
	if !ok {
		return InstrumentID{}, ErrBadInstrument
	}
	id := InstrumentID{Symbol: symbol, Market: mkt, Term: term}
	if (symbol != Any && !validSymbol(symbol)) || (mkt != Any && !validWord(mkt)) || (term != Any && !validWord(term)) {
		return InstrumentID{}, ErrBadInstrument
	}
	return id, nil
}

// Valid reports whether id is an exact identifier that follows the grammar.
func (id InstrumentID) Valid() bool {
	return validSymbol(id.Symbol) && validWord(id.Market) && validWord(id.Term)
}

// IsPattern reports whether any part of id is "*".
func (id InstrumentID) IsPattern() bool {
	return id.Symbol == Any || id.Market == Any || id.Term == Any
}

// Matches reports whether the pattern id matches the exact identifier x. An exact id matches only
// itself.
func (id InstrumentID) Matches(x InstrumentID) bool {
	return (id.Symbol == Any || id.Symbol == x.Symbol) &&
		(id.Market == Any || id.Market == x.Market) &&
		(id.Term == Any || id.Term == x.Term)
}

// String returns the text SYMBOL|MARKET|TERM.
func (id InstrumentID) String() string {
	return id.Symbol + "|" + id.Market + "|" + id.Term
}

// Append appends the text of id to b.
func (id InstrumentID) Append(b []byte) []byte {
	b = append(b, id.Symbol...)
	b = append(b, '|')
	b = append(b, id.Market...)
	b = append(b, '|')
	return append(b, id.Term...)
}

func validSymbol(s string) bool {
	if len(s) == 0 || len(s) > 32 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c <= ' ' || c > '~' {
			return false
		}
		switch c {
		case '|', '*', ',', '"', '\\', ';':
			return false
		}
	}
	return true
}

func validWord(s string) bool {
	if len(s) == 0 || len(s) > 16 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case i > 0 && (c == '.' || c == '_' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// Compare orders identifiers by symbol, market and term. Its result is that of cmp.Compare.
func (id InstrumentID) Compare(other InstrumentID) int {
	return cmp.Or(strings.Compare(id.Symbol, other.Symbol), strings.Compare(id.Market, other.Market), strings.Compare(id.Term, other.Term))
}
