package wire

import (
	"fmt"
	"iter"
	"math/bits"
	"strings"
	"unicode/utf8"

	"github.com/ruedahq/rueda/market"
)

// lineKey is a known name of a member of a line.
type lineKey uint8

const (
	keyType lineKey = iota
	keyI
	keyS
	keyT
	keyRT
	keySQ
	keyP
	keyZ
	keyX
	keyG
	keyC
	keyXP
	keyXZ
	keyBP
	keyBZ
	keyBC
	keyAP
	keyAZ
	keyAC
	keyR
	keyB
	keyA
	keyE
	keyY
	keyU
	keyCL
	keySE
	keyOI
	keyName
	keyKind
	keyISIN
	keyCurrency
	keyMultiplier
	keyPriceDecimals
	keySizeDecimals
	keyTick
	keyLot
	keyMinSize
	keySettlementDays
	keyStatus
	keyOwnQuotes
	keyNoBook
	keyVirtualClock
	numLineKeys
)

var lineKeyNames = [numLineKeys]string{
	"type", "I", "S", "T", "RT", "SQ",
	"P", "Z", "X", "G", "C", "XP", "XZ",
	"BP", "BZ", "BC", "AP", "AZ", "AC",
	"R", "B", "A",
	"E", "Y", "U",
	"CL", "SE", "OI",
	"name", "kind", "isin", "currency", "multiplier", "price_decimals", "size_decimals", "tick", "lot", "min_size",
	"settlement_days", "status", "own_quotes", "no_book", "virtual_clock",
}

func (k lineKey) String() string { return lineKeyNames[k] }

// findLineKey returns the key of a name. It walks over the few names, most of which differ in
// length.
func findLineKey(name []byte) (k lineKey, ok bool) {
	for k := range numLineKeys {
		if n := lineKeyNames[k]; len(n) == len(name) && n == string(name) {
			return k, true
		}
	}
	return 0, false
}

// members holds the known members of a line, not yet converted. They are views of the line, except
// strings with escapes.
type members struct {
	set    uint64 // bit set of lineKey
	values [numLineKeys]member
	others [][]byte // unknown names
}

type member struct {
	kind Kind
	text []byte // decoded string, or the value as written
}

// get returns a member's value. ok is false if it is absent or null.
func (m *members) get(k lineKey) (v member, ok bool) {
	if m.set&(1<<k) == 0 || m.values[k].kind == Null {
		return member{}, false
	}
	return m.values[k], true
}

// scan splits a line into members. It rejects whatever ParseJSON rejects.
func (m *members) scan(data []byte) error {
	m.set, m.others = 0, m.others[:0]
	if !utf8.Valid(data) {
		return fmt.Errorf("%w: not UTF-8", ErrJSON)
	}
	if err := m.scanMembers(data); err != nil {
		return fmt.Errorf("%w: %w", ErrJSON, err)
	}
	return nil
}

func (m *members) scanMembers(data []byte) error {
	p := newParser(data)
	p.Space()
	if p.At == len(data) || data[p.At] != '{' {
		return p.Fail("a line is a JSON object")
	}
	for more := !p.Open('}'); more; {
		err := m.scanMember(&p)
		if err == nil {
			more, err = p.Next('}')
		}
		if err != nil {
			return err
		}
	}
	return p.End()
}

func (m *members) scanMember(p *parser) error {
	if p.At == len(p.In) || p.In[p.At] != '"' {
		return p.Fail("expected a name")
	}
	name, err := p.Text()
	if err != nil {
		return err
	}
	k, known := findLineKey(name)
	if !m.add(k, known, name) {
		return p.Fail("name given twice, or too many names")
	}
	if err := p.Colon(); err != nil {
		return err
	}
	v, err := p.member()
	if known {
		m.values[k] = v
	}
	return err
}

// add records a name and reports whether it is allowed.
func (m *members) add(k lineKey, known bool, name []byte) bool {
	if known && m.set&(1<<k) != 0 || bits.OnesCount64(m.set)+len(m.others) == maxLineMembers {
		return false
	}
	for _, other := range m.others {
		if strings.EqualFold(string(other), string(name)) {
			return false
		}
	}
	if known {
		m.set |= 1 << k
		return true
	}
	// No two known names differ only in case.
	for set := m.set; set != 0; set &= set - 1 {
		if strings.EqualFold(lineKeyNames[bits.TrailingZeros64(set)], string(name)) {
			return false
		}
	}
	m.others = append(m.others, name)
	return true
}

// member parses the value of a member of the outermost object.
func (p *parser) member() (member, error) {
	if p.At == len(p.In) {
		return member{}, p.Fail("unexpected end")
	}
	start := p.At
	switch c := p.In[p.At]; {
	case c == '"':
		text, err := p.Text()
		return member{String, text}, err
	case c == '-' || c-'0' <= 9:
		text, err := p.Number()
		return member{Number, text}, err
	case c == '[':
		err := p.skip(1)
		return member{Array, p.In[start:p.At]}, err
	}
	v, err := p.value(1)
	return member{v.Kind, v.Raw}, err
}

// skip skips a value inside an array or object of the given depth.
func (p *parser) skip(depth int) error {
	if p.At == len(p.In) {
		return p.Fail("unexpected end")
	}
	var err error
	switch c := p.In[p.At]; {
	case c == '"':
		_, err = p.Text()
	case c == '-' || c-'0' <= 9:
		_, err = p.Number()
	case c == '[':
		err = p.skipArray(depth + 1)
	default:
		_, err = p.value(depth)
	}
	return err
}

func (p *parser) skipArray(depth int) error {
	if depth > MaxDepth {
		return p.Fail("nested too deep")
	}
	if p.Open(']') {
		return nil
	}
	for {
		if err := p.skip(depth); err != nil {
			return err
		}
		if more, err := p.Next(']'); err != nil || !more {
			return err
		}
	}
}

// row is an inner array of up to three numbers. n is 0 if it is something else.
type row struct {
	n   int
	num [3][]byte
}

// rows iterates over the rows of an array that skip has checked.
func rows(array []byte) iter.Seq[row] {
	return func(yield func(row) bool) {
		p := newParser(array)
		for more := !p.Open(']'); more; {
			r := p.row()
			if !yield(r) || r.n == 0 {
				return
			}
			more, _ = p.Next(']')
		}
	}
}

// row parses a row. If n is 0 it is not a row, and the position of p is undefined.
func (p *parser) row() row {
	var r row
	if p.In[p.At] != '[' {
		return r
	}
	p.At++
	p.Space()
	for n := range len(r.num) {
		if c := p.In[p.At]; c != '-' && c-'0' > 9 {
			return r
		}
		r.num[n], _ = p.Number()
		if more, _ := p.Next(']'); !more {
			r.n = n + 1
			return r
		}
	}
	return r
}

// Limits on the texts that a decoder remembers, so that a feed with many distinct texts costs no
// memory beyond them.
const (
	maxLineIDs   = 1 << 16
	maxLineWords = 1 << 10
)

// id parses an identifier, exact or a pattern.
func (d *LineDecoder) id(text []byte) (market.InstrumentID, bool) {
	if id, ok := d.ids[string(text)]; ok {
		return id, true
	}
	id, err := market.ParsePattern(string(text))
	if err != nil {
		return market.InstrumentID{}, false
	}
	if d.ids == nil || len(d.ids) == maxLineIDs {
		d.ids = make(map[string]market.InstrumentID)
	}
	d.ids[id.String()] = id
	return id, true
}

// word returns text as a string, and the same string for equal texts.
func (d *LineDecoder) word(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	if s, ok := d.words[string(text)]; ok {
		return s
	}
	if d.words == nil || len(d.words) == maxLineWords {
		d.words = make(map[string]string)
	}
	s := string(text)
	d.words[s] = s
	return s
}
