package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxDepth is the maximum nesting of arrays and objects that ParseJSON accepts.
const MaxDepth = 16

// ErrJSON is wrapped by every error of ParseJSON.
var ErrJSON = errors.New("bad JSON")

// Kind is the type of a JSON value.
type Kind uint8

// Kinds of JSON values. The zero Value is Absent.
const (
	Absent Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// Value is a parsed JSON value. Numbers remain text, so that nothing is rounded.
type Value struct {
	Kind   Kind
	True   bool
	Text   string   // decoded string, or the text of a number
	Raw    []byte   // the value as sent; a view of the input
	Items  []Value  // of an array
	Fields []Member // of an object, in order
}

// Member is a name and value of an object.
type Member struct {
	Name  string
	Value Value
}

// Get returns the member with exactly that name, or an Absent value.
func (v *Value) Get(name string) Value {
	for i := range v.Fields {
		if v.Fields[i].Name == name {
			return v.Fields[i].Value
		}
	}
	return Value{}
}

// ParseJSON parses one JSON text strictly, as RFC 8259 and I-JSON (RFC 7493) require: valid UTF-8,
// no byte order mark, no duplicate names, no lone surrogates, nothing after the value, and at most
// MaxDepth levels. In the outermost object, names that differ only in case also count as
// duplicates, because readers disagree on which one to use. The result takes at most about 100
// bytes per byte of input, so callers must limit the input.
func ParseJSON(data []byte) (Value, error) {
	if !utf8.Valid(data) {
		return Value{}, fmt.Errorf("%w: not UTF-8", ErrJSON)
	}
	p := parser{in: data}
	p.space()
	v, err := p.value(0)
	if err != nil {
		return Value{}, err
	}
	p.space()
	if p.at != len(data) {
		return Value{}, p.fail("text after the value")
	}
	return v, nil
}

type parser struct {
	in []byte
	at int
}

func (p *parser) fail(what string) error {
	return fmt.Errorf("%w: %s at offset %d", ErrJSON, what, p.at)
}

func (p *parser) space() {
	for p.at < len(p.in) {
		switch p.in[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

func (p *parser) value(depth int) (Value, error) {
	if p.at == len(p.in) {
		return Value{}, p.fail("unexpected end")
	}
	start := p.at
	var v Value
	var err error
	switch c := p.in[p.at]; {
	case c == '{':
		v, err = p.object(depth + 1)
	case c == '[':
		v, err = p.array(depth + 1)
	case c == '"':
		v.Kind = String
		v.Text, err = p.str()
	case c == '-' || c-'0' <= 9:
		v, err = p.number()
	case c == 't':
		v, err = Value{Kind: Bool, True: true}, p.word("true")
	case c == 'f':
		v, err = Value{Kind: Bool}, p.word("false")
	case c == 'n':
		v, err = Value{Kind: Null}, p.word("null")
	default:
		err = p.fail("unexpected character")
	}
	v.Raw = p.in[start:p.at]
	return v, err
}

func (p *parser) word(w string) error {
	if !bytes.HasPrefix(p.in[p.at:], []byte(w)) {
		return p.fail("unexpected character")
	}
	p.at += len(w)
	return nil
}

// usualFields is the number of fields that most messages do not exceed.
const usualFields = 4

func (p *parser) object(depth int) (Value, error) {
	v := Value{Kind: Object}
	if depth > MaxDepth {
		return v, p.fail("nested too deep")
	}
	p.at++
	p.space()
	if p.at < len(p.in) && p.in[p.at] == '}' {
		p.at++
		return v, nil
	}
	if depth == 1 {
		v.Fields = make([]Member, 0, usualFields)
	}
	var seen nameSet
	for {
		if p.at == len(p.in) || p.in[p.at] != '"' {
			return v, p.fail("expected a name")
		}
		name, err := p.str()
		if err != nil {
			return v, err
		}
		if !seen.add(v.Fields, name, depth == 1) {
			return v, p.fail("name given twice")
		}
		p.space()
		if p.at == len(p.in) || p.in[p.at] != ':' {
			return v, p.fail("expected a colon")
		}
		p.at++
		p.space()
		val, err := p.value(depth)
		if err != nil {
			return v, err
		}
		v.Fields = append(v.Fields, Member{name, val})
		more, err := p.next('}')
		if err != nil || !more {
			return v, err
		}
	}
}

// nameSet detects duplicate names: by a linear search for a few names, with a map for many.
type nameSet map[string]struct{}

func (s *nameSet) add(before []Member, name string, fold bool) bool {
	if len(before) < 16 {
		for i := range before {
			if before[i].Name == name || fold && strings.EqualFold(before[i].Name, name) {
				return false
			}
		}
		return true
	}
	key := func(n string) string {
		if fold {
			return strings.Map(leastFold, n)
		}
		return n
	}
	if *s == nil {
		*s = make(nameSet, 64)
		for i := range before {
			(*s)[key(before[i].Name)] = struct{}{}
		}
	}
	if _, dup := (*s)[key(name)]; dup {
		return false
	}
	(*s)[key(name)] = struct{}{}
	return true
}

// leastFold returns the same rune for all runes that strings.EqualFold treats as equal.
func leastFold(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

// next skips a comma or the closing bracket.
func (p *parser) next(end byte) (more bool, err error) {
	p.space()
	if p.at == len(p.in) {
		return false, p.fail("unexpected end")
	}
	switch p.in[p.at] {
	case ',':
		p.at++
		p.space()
		return true, nil
	case end:
		p.at++
		return false, nil
	}
	return false, p.fail("expected a comma")
}

func (p *parser) array(depth int) (Value, error) {
	v := Value{Kind: Array}
	if depth > MaxDepth {
		return v, p.fail("nested too deep")
	}
	p.at++
	p.space()
	if p.at < len(p.in) && p.in[p.at] == ']' {
		p.at++
		return v, nil
	}
	for {
		item, err := p.value(depth)
		if err != nil {
			return v, err
		}
		if v.Items == nil {
			v.Items = make([]Value, 0, 2)
		}
		v.Items = append(v.Items, item)
		more, err := p.next(']')
		if err != nil || !more {
			return v, err
		}
	}
}

func (p *parser) number() (Value, error) {
	text, err := p.numberText()
	return Value{Kind: Number, Text: string(text)}, err
}

// numberText skips a number and returns its text, a view of the input.
func (p *parser) numberText() ([]byte, error) {
	start := p.at
	digits := func() bool {
		from := p.at
		for p.at < len(p.in) && p.in[p.at]-'0' <= 9 {
			p.at++
		}
		return p.at > from
	}
	if p.in[p.at] == '-' {
		p.at++
	}
	if p.at < len(p.in) && p.in[p.at] == '0' {
		p.at++
	} else if !digits() {
		return nil, p.fail("bad number")
	}
	if p.at < len(p.in) && p.in[p.at] == '.' {
		p.at++
		if !digits() {
			return nil, p.fail("bad number")
		}
	}
	if p.at < len(p.in) && p.in[p.at]|0x20 == 'e' {
		p.at++
		if p.at < len(p.in) && (p.in[p.at] == '+' || p.in[p.at] == '-') {
			p.at++
		}
		if !digits() {
			return nil, p.fail("bad number")
		}
	}
	return p.in[start:p.at], nil
}

func (p *parser) str() (string, error) {
	p.at++
	start := p.at
	for p.at < len(p.in) {
		switch c := p.in[p.at]; {
		case c == '"':
			s := string(p.in[start:p.at])
			p.at++
			return s, nil
		case c == '\\':
			return p.escaped(start)
		case c < ' ':
			return "", p.fail("control character in a string")
		}
		p.at++
	}
	return "", p.fail("unexpected end")
}

// escaped continues to parse a string whose first escape is at p.at.
func (p *parser) escaped(start int) (string, error) {
	b := append(make([]byte, 0, p.at-start+32), p.in[start:p.at]...)
	for p.at < len(p.in) {
		switch c := p.in[p.at]; {
		case c == '"':
			p.at++
			return string(b), nil
		case c < ' ':
			return "", p.fail("control character in a string")
		case c != '\\':
			b = append(b, c)
			p.at++
		default:
			var err error
			if b, err = p.escape(b); err != nil {
				return "", err
			}
		}
	}
	return "", p.fail("unexpected end")
}

func (p *parser) escape(b []byte) ([]byte, error) {
	if p.at+1 >= len(p.in) {
		return b, p.fail("unexpected end")
	}
	c := p.in[p.at+1]
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		p.at += 2
		return append(b, "\"\\/\b\f\n\r\t"[i]), nil
	}
	if c != 'u' {
		return b, p.fail("bad escape")
	}
	r, ok := p.hex4(p.at + 2)
	if !ok {
		return b, p.fail("bad escape")
	}
	p.at += 6
	if r < 0xD800 || r > 0xDFFF {
		return utf8.AppendRune(b, r), nil
	}
	low, ok := rune(0), false
	if r < 0xDC00 && p.at+1 < len(p.in) && p.in[p.at] == '\\' && p.in[p.at+1] == 'u' {
		low, ok = p.hex4(p.at + 2)
	}
	if !ok || low < 0xDC00 || low > 0xDFFF {
		return b, p.fail("lone surrogate")
	}
	p.at += 6
	return utf8.AppendRune(b, 0x10000+(r-0xD800)<<10+(low-0xDC00)), nil
}

func (p *parser) hex4(at int) (rune, bool) {
	if at+4 > len(p.in) {
		return 0, false
	}
	var r rune
	for _, c := range p.in[at : at+4] {
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

// isPlain reports whether s needs no escapes in JSON.
func isPlain(s string) bool {
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
	if isPlain(s) { // the usual case
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
