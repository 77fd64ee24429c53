package market

import (
	"cmp"
	"errors"
	"strings"
)

// InstrumentID names an instrument: what trades, where, and when it settles.
// Its text is SYMBOL|MARKET|TERM. In a pattern, and only there, a whole part may
// be "*" and then matches every value of that part.
type InstrumentID struct {
	Symbol string // 1 to 32 printable ASCII characters, none of space | * , " \ ;
	Market string // [A-Za-z0-9][A-Za-z0-9._-]{0,15}
	Term   string // settlement term, a word of the market: CI, 24hs, SPOT; grammar as Market
}

// Any is the part of a pattern that matches every value.
const Any = "*"

// MaxIDLength is the longest text of an InstrumentID, in bytes.
const MaxIDLength = 32 + 1 + 16 + 1 + 16

// ErrBadInstrument says that a text is not SYMBOL|MARKET|TERM by the grammar above.
var ErrBadInstrument = errors.New("not of the form SYMBOL|MARKET|TERM")

// ParseInstrumentID reads an exact identifier. It folds no case, trims nothing
// and fills in nothing. The error is ErrBadInstrument.
func ParseInstrumentID(s string) (InstrumentID, error) {
	id, err := ParsePattern(s)
	if err != nil || id.IsPattern() {
		return InstrumentID{}, ErrBadInstrument
	}
	return id, nil
}

// ParsePattern reads an identifier in which whole parts may be "*".
// The error is ErrBadInstrument.
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

// Valid says whether id is an exact identifier by the grammar.
func (id InstrumentID) Valid() bool {
	return validSymbol(id.Symbol) && validWord(id.Market) && validWord(id.Term)
}

// IsPattern says whether a part of id is "*".
func (id InstrumentID) IsPattern() bool {
	return id.Symbol == Any || id.Market == Any || id.Term == Any
}

// Matches says whether the pattern id covers the exact identifier x.
// An exact id matches itself alone.
func (id InstrumentID) Matches(x InstrumentID) bool {
	return (id.Symbol == Any || id.Symbol == x.Symbol) &&
		(id.Market == Any || id.Market == x.Market) &&
		(id.Term == Any || id.Term == x.Term)
}

// String is the text SYMBOL|MARKET|TERM.
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

// Compare orders identifiers by symbol, market and term: under 0, 0 or above, as cmp.Compare.
func (id InstrumentID) Compare(other InstrumentID) int {
	return cmp.Or(strings.Compare(id.Symbol, other.Symbol), strings.Compare(id.Market, other.Market), strings.Compare(id.Term, other.Term))
}
