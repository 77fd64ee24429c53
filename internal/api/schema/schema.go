// Package schema has JSON Schema 2020-12 as Go values, with an encoding that is always the same.
// The documents for machines are made of it: OpenAPI and AsyncAPI.
//
// A schema is built by a function for its type and by methods that add keywords:
//
//	schema.Object("A login.",
//		schema.Required("sid", schema.String("Its name.")),
//		schema.Optional("client", schema.String("The program.").Length(0, 128)))
//
// An object of a document allows members that it does not name, because clients must ignore them.
// Tests that validate messages forbid them.
package schema

import "slices"

// Schema describes JSON values. Its methods add a keyword, or replace it, and return the schema.
type Schema struct{ keywords Map }

// FromKeywords returns the schema with these keywords. Schemas in them are of type *Schema.
func FromKeywords(keywords Map) *Schema { return &Schema{keywords} }

// Field is a member of an object.
type Field struct {
	Name     string
	Schema   *Schema
	Optional bool
}

// Required returns a member that is always present.
func Required(name string, s *Schema) Field { return Field{Name: name, Schema: s} }

// Optional returns a member that may be absent.
func Optional(name string, s *Schema) Field { return Field{Name: name, Schema: s, Optional: true} }

func typed(kind, description string) *Schema {
	s := new(Schema)
	return s.set("type", kind).Describe(description)
}

// String returns the schema of a string. Descriptions may be empty, here and below.
func String(description string) *Schema { return typed("string", description) }

// Integer returns the schema of a whole number of up to 64 bits.
func Integer(description string) *Schema { return typed("integer", description).Format("int64") }

// Number returns the schema of a decimal number.
func Number(description string) *Schema { return typed("number", description).Format("double") }

// Boolean returns the schema of true and false.
func Boolean(description string) *Schema { return typed("boolean", description) }

// Enum returns the schema of a string that is one of words.
func Enum(description string, words ...string) *Schema {
	return String(description).set("enum", words)
}

// Const returns the schema of one string.
func Const(word string) *Schema { return String("").set("const", word) }

// True returns the schema of the value true, for members that are absent otherwise.
func True(description string) *Schema { return Boolean(description).set("const", true) }

// False returns the schema of the value false.
func False(description string) *Schema { return Boolean(description).set("const", false) }

// Code returns the schema of one whole number.
func Code(number int) *Schema { return Integer("").set("const", number) }

// Any returns a schema that accepts every value.
func Any(description string) *Schema { return new(Schema).Describe(description) }

// Object returns the schema of an object with these members.
func Object(description string, fields ...Field) *Schema {
	s := typed("object", description)
	properties, required := Map{}, []string{}
	for _, f := range fields {
		properties = properties.With(f.Name, f.Schema)
		if !f.Optional {
			required = append(required, f.Name)
		}
	}
	s.set("properties", properties)
	if len(required) > 0 {
		s.set("required", required)
	}
	return s
}

// MapOf returns the schema of an object that has any names, and values of one kind.
func MapOf(description string, values *Schema) *Schema {
	return typed("object", description).set("additionalProperties", values)
}

// Array returns the schema of an array.
func Array(description string, items *Schema) *Schema {
	return typed("array", description).set("items", items)
}

// Tuple returns the schema of an array that has the given numbers in this order. The first least of
// them are always present. The keyword items adds nothing for validators, because there are no
// further items. Generators that do not know prefixItems make a list of numbers of it.
func Tuple(description string, least int, items ...*Schema) *Schema {
	return typed("array", description).set("prefixItems", items).set("items", typed("number", "")).Items(least, len(items))
}

// OneOf returns the schema of a value that has exactly one of the variants.
func OneOf(description string, variants ...*Schema) *Schema {
	return Any(description).set("oneOf", variants)
}

// AnyOf returns the schema of a value that has at least one of the variants.
func AnyOf(description string, variants ...*Schema) *Schema {
	return Any(description).set("anyOf", variants)
}

// prefix is where components have their schemas, in OpenAPI and in AsyncAPI.
const prefix = "#/components/schemas/"

// Ref returns a reference to a component.
func Ref(name string) *Schema { return new(Schema).set("$ref", prefix+name) }

// Describe sets the description; "" sets none.
func (s *Schema) Describe(text string) *Schema {
	if text == "" {
		return s
	}
	return s.set("description", text)
}

// Title sets the title.
func (s *Schema) Title(text string) *Schema { return s.set("title", text) }

// Format sets the format, such as date-time.
func (s *Schema) Format(name string) *Schema { return s.set("format", name) }

// Pattern sets the regular expression (ECMA-262) of a string.
func (s *Schema) Pattern(expression string) *Schema { return s.set("pattern", expression) }

// Length sets the least and the greatest number of characters of a string.
func (s *Schema) Length(least, most int) *Schema {
	return s.set("minLength", least).set("maxLength", most)
}

// Items sets the least and the greatest number of items of an array.
func (s *Schema) Items(least, most int) *Schema {
	return s.set("minItems", least).set("maxItems", most)
}

// Between sets the least and the greatest value of a number.
func (s *Schema) Between(least, most int64) *Schema {
	return s.set("minimum", least).set("maximum", most)
}

// Range sets the least and the greatest value of a decimal number.
func (s *Schema) Range(least, most float64) *Schema {
	return s.set("minimum", least).set("maximum", most)
}

// AtLeast sets the least value of a number.
func (s *Schema) AtLeast(least int64) *Schema { return s.set("minimum", least) }

// Default sets the value that an absent member stands for.
func (s *Schema) Default(value any) *Schema { return s.set("default", value) }

// Example sets the examples.
func (s *Schema) Example(values ...any) *Schema { return s.set("examples", values) }

// Nullable allows null as well.
func (s *Schema) Nullable() *Schema {
	if kind, ok := s.keywords.Get("type").(string); ok {
		return s.set("type", []string{kind, "null"})
	}
	return OneOf("", s, new(Schema).set("type", "null"))
}

// Open says that an object may have members that are not named, also in tests.
func (s *Schema) Open() *Schema { return s.set("additionalProperties", true) }

// Deprecated marks a member that will be removed.
func (s *Schema) Deprecated() *Schema { return s.set("deprecated", true) }

// Keyword sets any other keyword.
func (s *Schema) Keyword(name string, value any) *Schema { return s.set(name, value) }

func (s *Schema) set(name string, value any) *Schema {
	for i := range s.keywords {
		if s.keywords[i].Name == name {
			s.keywords[i].Value = value
			return s
		}
	}
	s.keywords = s.keywords.With(name, value)
	return s
}

// Fields returns the members of an object.
func (s *Schema) Fields() (list []Field) {
	properties, _ := s.Get("properties").(Map)
	required, _ := s.Get("required").([]string)
	for _, p := range properties {
		of, _ := p.Value.(*Schema)
		list = append(list, Field{Name: p.Name, Schema: of, Optional: !slices.Contains(required, p.Name)})
	}
	return list
}

// Get returns the value of a keyword, or nil if it is not set.
func (s *Schema) Get(keyword string) any { return s.keywords.Get(keyword) }

// Keywords returns the keywords in their order.
func (s *Schema) Keywords() Map { return slices.Clone(s.keywords) }
