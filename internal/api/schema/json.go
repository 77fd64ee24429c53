package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Map is a JSON object that keeps the order of its members.
type Map []Member

// Member is a member of a Map. Its value is a string, bool, number, Map, *Schema, json.RawMessage,
// or a slice of those.
type Member struct {
	Name  string
	Value any
}

// With returns m with a member appended. It does not replace a member with the same name.
func (m Map) With(name string, value any) Map { return append(m, Member{name, value}) }

// WithText returns m with a string member appended, or m itself if text is empty.
func (m Map) WithText(name, text string) Map {
	if text == "" {
		return m
	}
	return m.With(name, text)
}

// Get returns the value of the member with a name, or nil if there is none.
func (m Map) Get(name string) any {
	for _, member := range m {
		if member.Name == name {
			return member.Value
		}
	}
	return nil
}

// Encode returns a value of a document as compact JSON. The same value always has the same bytes.
// It returns an error if the value has a type that JSON does not have.
func Encode(value any) ([]byte, error) { return appendValue(nil, value) }

// appendValue appends the JSON of a value. It does not use json.Marshaler, whose output would be
// scanned again at each level.
func appendValue(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case Map:
		return appendMap(b, v)
	case *Schema:
		return appendMap(b, v.keywords)
	case []Map:
		return appendList(b, v)
	case []*Schema:
		return appendList(b, v)
	case []any:
		return appendList(b, v)
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return append(b, bytes.TrimSuffix(out.Bytes(), []byte("\n"))...), nil
}

func appendMap(b []byte, m Map) (_ []byte, err error) {
	b = append(b, '{')
	for i, member := range m {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, member.Name); err != nil {
			return nil, err
		}
		if b, err = appendValue(append(b, ':'), member.Value); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendList[V any](b []byte, list []V) (_ []byte, err error) {
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, v); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// Decode reads a JSON object. Its values are of type Map, []any, string, json.Number, bool or nil.
func Decode(text []byte) (Map, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	value, err := decodeValue(d)
	if err != nil {
		return nil, err
	}
	object, ok := value.(Map)
	if !ok {
		return nil, fmt.Errorf("it is a %T, not an object", value)
	}
	return object, nil
}

func decodeValue(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('{'):
		m := Map{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			m = m.With(fmt.Sprint(name), value)
		}
		_, err = d.Token()
		return m, err
	case json.Delim('['):
		list := []any{}
		for d.More() {
			value, err := decodeValue(d)
			if err != nil {
				return nil, err
			}
			list = append(list, value)
		}
		_, err = d.Token()
		return list, err
	}
	return t, nil
}

// Indent returns compact JSON with line breaks and an indentation of two spaces for each level. The
// result ends in a newline.
func Indent(compact []byte) []byte {
	var out bytes.Buffer
	if json.Indent(&out, compact, "", "  ") != nil {
		return compact
	}
	out.WriteByte('\n')
	return out.Bytes()
}
