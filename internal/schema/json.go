package schema

import (
	"bytes"
	"encoding/json"
)

// Map is a JSON object whose members keep their order.
type Map []Member

// Member is a member of a Map. Its value is a string, bool, number, Map, *Schema, json.RawMessage,
// or a slice of those.
type Member struct {
	Name  string
	Value any
}

// With returns m with one more member.
func (m Map) With(name string, value any) Map { return append(m, Member{name, value}) }

// WithText returns m with one more member, or m itself if text is empty.
func (m Map) WithText(name, text string) Map {
	if text == "" {
		return m
	}
	return m.With(name, text)
}

// Get returns the value of a member, or nil if there is none.
func (m Map) Get(name string) any {
	for _, member := range m {
		if member.Name == name {
			return member.Value
		}
	}
	return nil
}

// MarshalJSON implements json.Marshaler.
func (m Map) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, member := range m {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := Encode(member.Name)
		if err != nil {
			return nil, err
		}
		value, err := Encode(member.Value)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), value...)
	}
	return append(b, '}'), nil
}

// Encode returns a value of a document as compact JSON. The same value always has the same bytes.
// The error says that the value has a type which is not one of JSON.
func Encode(value any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Indent returns compact JSON with two spaces for each level, and with a newline at its end.
func Indent(compact []byte) []byte {
	var out bytes.Buffer
	if json.Indent(&out, compact, "", "  ") != nil {
		return compact
	}
	out.WriteByte('\n')
	return out.Bytes()
}
