package docsite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/api/asyncapi"
	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/schema"
)

// contract holds the routes, channels and messages that the OpenAPI and AsyncAPI documents
// describe.
type contract struct {
	routes   []*route // in the order of the documents
	channels []*channel
	messages map[string]*message // of the stream, by id
}

// readContract parses both OpenAPI documents and the AsyncAPI document. A route in both OpenAPI
// documents appears once, as a public route.
func readContract() (*contract, error) {
	c := &contract{}
	for _, from := range []struct {
		build func() ([]byte, error)
		admin bool
	}{{openapi.PublicDocument, false}, {openapi.AdminDocument, true}} {
		text, err := from.build()
		if err != nil {
			return nil, err
		}
		d, err := parseDocument(text)
		if err != nil {
			return nil, fmt.Errorf("read the OpenAPI document: %w", err)
		}
		for _, r := range readRoutes(d, from.admin) {
			known := slices.ContainsFunc(c.routes, func(o *route) bool { return o.ID == r.ID })
			if !known {
				c.routes = append(c.routes, r)
			}
		}
	}
	stream, err := parseDocument(asyncapi.Document())
	if err != nil {
		return nil, fmt.Errorf("read the AsyncAPI document: %w", err)
	}
	c.messages = readMessages(stream)
	c.channels = readChannels(stream)
	return c, nil
}

// document is a parsed OpenAPI or AsyncAPI document. Its objects keep the order of their members.
type document struct{ root schema.Map }

func parseDocument(text []byte) (*document, error) {
	root, err := schema.Decode(text)
	return &document{root}, err
}

// Members of objects that may be absent, or have another type.

func object(m schema.Map, path ...string) schema.Map {
	for _, name := range path {
		m, _ = m.Get(name).(schema.Map)
	}
	return m
}

func words(m schema.Map, name string) string {
	text, _ := m.Get(name).(string)
	return text
}

func items(m schema.Map, name string) []any {
	list, _ := m.Get(name).([]any)
	return list
}

func texts(list []any) (all []string) {
	for _, v := range list {
		all = append(all, fmt.Sprint(v))
	}
	return all
}

// follow returns value as an object. If value is a $ref, or an allOf with one $ref, follow returns
// the object that it refers to and the name of that component. A description next to the reference
// takes priority.
func (d *document) follow(value any) (m schema.Map, name string) {
	m, _ = value.(schema.Map)
	ref := words(m, "$ref")
	if ref == "" && len(items(m, "allOf")) == 1 {
		inner, _ := items(m, "allOf")[0].(schema.Map)
		ref = words(inner, "$ref")
	}
	if ref == "" {
		return m, ""
	}
	path := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	to, _ := d.follow(object(d.root, path...))
	if text := words(m, "description"); text != "" {
		to = append(schema.Map{{Name: "description", Value: text}}, to...)
	}
	return to, path[len(path)-1]
}

// field is a row of the table that describes a JSON value.
type field struct {
	Depth    int // 0: a member of the value itself
	Name     string
	Type     string
	Required bool
	Variant  bool // the row begins a variant of the value; Name is its name
	Text     string
	Facts    []fact
}

// fact is a property of a value that a keyword of its schema states, such as "at most 100". Phrase
// is a format for Value, which the page translates.
type fact struct {
	Phrase string
	Value  any
}

const maxDepth = 4 // of objects in objects that a table shows

// fields returns the rows that describe the values of a schema: one for each member of an object,
// or a single row for other types.
func (d *document) fields(value any) []field {
	m, name := d.follow(value)
	rows := d.members(m, 0)
	if len(rows) == 0 && len(m) > 0 {
		return []field{d.row(value, "", true, 0)}
	}
	if text := words(m, "description"); text != "" && name != "" && !rows[0].Variant {
		rows = append([]field{{Name: name, Variant: true, Text: text}}, rows...)
	}
	return rows
}

// members returns rows for the members of an object, of the items of an array, and of the variants
// of oneOf and anyOf. It stops at objects deeper than maxDepth.
func (d *document) members(m schema.Map, depth int) (rows []field) {
	if depth > maxDepth {
		return nil
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		for _, v := range items(m, keyword) {
			variant, name := d.follow(v)
			if within := d.members(variant, depth); len(within) > 0 {
				rows = append(rows, field{Depth: depth, Name: name, Variant: true, Text: words(variant, "description")})
				rows = append(rows, within...)
			}
		}
	}
	required := texts(items(m, "required"))
	for _, p := range object(m, "properties") {
		rows = append(rows, d.row(p.Value, p.Name, slices.Contains(required, p.Name), depth))
		inner, _ := d.follow(p.Value)
		rows = append(rows, d.members(inner, depth+1)...)
	}
	if within, ok := m.Get("items").(schema.Map); ok {
		inner, _ := d.follow(within)
		rows = append(rows, d.members(inner, depth)...)
	}
	return rows
}

// row returns the row that describes a member with the schema value.
func (d *document) row(value any, name string, required bool, depth int) field {
	m, component := d.follow(value)
	return field{Depth: depth, Name: name, Type: d.kind(m, component), Required: required, Text: words(m, "description"), Facts: facts(m)}
}

// kind returns the name of the type that m describes, such as "array of string". component is the
// name of m as a component, or "".
func (d *document) kind(m schema.Map, component string) string {
	if within, ok := m.Get("items").(schema.Map); ok {
		inner, of := d.follow(within)
		return "array of " + d.kind(inner, of)
	}
	switch t := m.Get("type").(type) {
	case string:
		if t == "object" && component != "" {
			return component
		}
		return t
	case []any:
		return strings.Join(texts(t), " or ")
	}
	if list := append(items(m, "oneOf"), items(m, "anyOf")...); len(list) > 0 && component == "" {
		var kinds []string
		for _, v := range list {
			inner, of := d.follow(v)
			if k := d.kind(inner, of); !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
		return strings.Join(kinds, " or ")
	}
	if component != "" {
		return component
	}
	return "any"
}

// facts returns the facts that a schema states about a value besides its type, such as its limits.
func facts(m schema.Map) (list []fact) {
	say := func(phrase, keyword string) {
		if v := m.Get(keyword); v != nil {
			list = append(list, fact{phrase, v})
		}
	}
	if words := texts(items(m, "enum")); len(words) > 0 && len(words) <= 12 {
		list = append(list, fact{"one of %v", strings.Join(words, ", ")})
	}
	say("always %v", "const")
	say("default %v", "default")
	if f := words(m, "format"); f != "" && f != "int64" && f != "double" {
		list = append(list, fact{"%v", f})
	}
	say("at least %v", "minimum")
	say("at most %v", "maximum")
	say("up to %v characters", "maxLength")
	say("up to %v items", "maxItems")
	return list
}

// sample returns an example value for a schema. An object has only its required members.
func (d *document) sample(value any, depth int) any {
	m, _ := d.follow(value)
	if depth > maxDepth {
		return schema.Map{}
	}
	for _, keyword := range []string{"const", "default"} {
		if v := m.Get(keyword); v != nil {
			return v
		}
	}
	for _, keyword := range []string{"examples", "enum"} {
		if list := items(m, keyword); len(list) > 0 {
			return list[0]
		}
	}
	if list := append(items(m, "oneOf"), items(m, "anyOf")...); len(list) > 0 {
		return d.sample(list[0], depth)
	}
	kind := words(m, "type")
	if list := items(m, "type"); kind == "" && len(list) > 0 {
		kind = fmt.Sprint(list[0])
	}
	switch kind {
	case "object":
		out := schema.Map{}
		required := texts(items(m, "required"))
		for _, p := range object(m, "properties") {
			if slices.Contains(required, p.Name) {
				out = out.With(p.Name, d.named(p.Name, p.Value, depth+1))
			}
		}
		return out
	case "array":
		return []any{d.sample(m.Get("items"), depth+1)}
	case "integer", "number":
		return json.Number("1")
	case "boolean":
		return true
	}
	return "..."
}

// named returns an example value for the member with a name. For well-known names, such as
// instrument, it returns a value that works at a development gateway.
func (d *document) named(name string, value any, depth int) any {
	m, _ := d.follow(value)
	if m.Get("const") == nil {
		switch name {
		case "instrument", "instruments", "trades", "quotes", "order_book", "status", "summary", "bars":
			if kind, _ := d.follow(value); words(kind, "type") == "array" {
				return []any{exampleInstrument}
			}
			return exampleInstrument
		case "username":
			return "demo"
		case "password":
			return "demo"
		case "date":
			return "2026-11-20"
		case "token", "refresh_token":
			return exampleToken
		}
	}
	return d.sample(value, depth)
}

// Example values. A script on the page replaces the origin and the token with the reader's own.
const (
	exampleInstrument = "GGAL|BYMA|24hs"
	exampleOrigin     = "http://127.0.0.1:8080"
	exampleToken      = "YOUR_TOKEN"
)
