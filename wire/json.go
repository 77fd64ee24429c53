package wire

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/ruedahq/rueda/internal/base/jsonscan"
)

// MaxDepth is the maximum nesting of arrays and objects that ParseJSON accepts.
const MaxDepth = jsonscan.MaxDepth

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
	v, _, err := parse(data, 0, nil)
	return v, err
}

// parse does what ParseJSON does. It also returns the number of values that it has read, which
// includes those in arrays and objects. members is the largest number of members of the outermost
// object; 0: no limit. visit is called as by ReadMessage.
func parse(data []byte, members int, visit func(bytes int)) (_ Value, values int, _ error) {
	if !utf8.Valid(data) {
		return Value{}, 0, fmt.Errorf("%w: not UTF-8", ErrJSON)
	}
	p := newParser(data)
	p.members, p.visit = members, visit
	p.Space()
	v, err := p.value(0)
	if err == nil {
		err = p.End()
	}
	if err != nil {
		return Value{}, p.values, fmt.Errorf("%w: %w", ErrJSON, err)
	}
	return v, p.values, nil
}

// parser parses JSON into values.
type parser struct {
	jsonscan.Scanner
	values  int // that were begun
	members int // that the outermost object may have; 0: any

	visit   func(bytes int) // nil: not called
	visited int             // offset of its last call
}

func newParser(data []byte) parser { return parser{Scanner: jsonscan.Scanner{In: data}} }

func (p *parser) value(depth int) (Value, error) {
	if p.At == len(p.In) {
		return Value{}, p.Fail("unexpected end")
	}
	p.values++
	start := p.At
	var v Value
	var text []byte
	var err error
	switch c := p.In[p.At]; {
	case c == '{':
		v, err = p.object(depth + 1)
	case c == '[':
		v, err = p.array(depth + 1)
	case c == '"':
		text, err = p.Text()
		v = Value{Kind: String, Text: string(text)}
	case c == '-' || c-'0' <= 9:
		text, err = p.Number()
		v = Value{Kind: Number, Text: string(text)}
	case c == 't':
		v, err = Value{Kind: Bool, True: true}, p.Word("true")
	case c == 'f':
		v, err = Value{Kind: Bool}, p.Word("false")
	case c == 'n':
		v, err = Value{Kind: Null}, p.Word("null")
	default:
		err = p.Fail("unexpected character")
	}
	v.Raw = p.In[start:p.At]
	if p.visit != nil && p.At-p.visited >= visitBytes {
		p.visit(p.At - p.visited)
		p.visited = p.At
	}
	return v, err
}

// visitBytes is the least number of bytes between two calls of a parser's visit.
const visitBytes = 2 << 10

// usualFields is the number of fields that most messages do not exceed.
const usualFields = 4

func (p *parser) object(depth int) (Value, error) {
	v := Value{Kind: Object}
	if depth > MaxDepth {
		return v, p.Fail("nested too deep")
	}
	if p.Open('}') {
		return v, nil
	}
	if depth == 1 {
		v.Fields = make([]Member, 0, usualFields)
	}
	var seen nameSet
	for {
		if p.At == len(p.In) || p.In[p.At] != '"' {
			return v, p.Fail("expected a name")
		}
		text, err := p.Text()
		if err != nil {
			return v, err
		}
		if depth == 1 && p.members > 0 && len(v.Fields) == p.members {
			return v, p.Fail(fmt.Sprintf("more than %d members", p.members))
		}
		name := string(text)
		if !seen.add(v.Fields, name, depth == 1) {
			return v, p.Fail("name given twice")
		}
		if err := p.Colon(); err != nil {
			return v, err
		}
		val, err := p.value(depth)
		if err != nil {
			return v, err
		}
		v.Fields = append(v.Fields, Member{name, val})
		more, err := p.Next('}')
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
			return foldedName(n)
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

// foldedName returns the same text for all names that strings.EqualFold treats as equal.
func foldedName(name string) string {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return strings.Map(leastFold, name)
		}
	}
	return strings.ToUpper(name) // of a letter of ASCII, the capital is the least one
}

// leastFold returns the same rune for all runes that strings.EqualFold treats as equal.
func leastFold(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}

func (p *parser) array(depth int) (Value, error) {
	v := Value{Kind: Array}
	if depth > MaxDepth {
		return v, p.Fail("nested too deep")
	}
	if p.Open(']') {
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
		more, err := p.Next(']')
		if err != nil || !more {
			return v, err
		}
	}
}

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendString(b []byte, s string) []byte { return jsonscan.AppendString(b, s) }
