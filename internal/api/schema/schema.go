// Package schema builds JSON Schema 2020-12 from Go values. The same schema always has the same
// encoding. Package openapi builds its documents with it, and package asyncapi converts the schemas
// of its document to it.
//
// A function for each type returns a schema, and methods add keywords:
//
//	schema.Object("A login.",
//		schema.Required("sid", schema.String("Its name.")),
//		schema.Optional("client", schema.String("The program.").Length(0, 128)))
//
// An object in a document allows members that it does not name, because clients must ignore them.
// Tests that validate messages forbid such members.
package schema

import "slices"

// Schema describes JSON values. Each method that sets a keyword changes the Schema and returns it,
// so that calls can be chained. A keyword that is set again is replaced.
type Schema struct{ keywords Map }

// FromKeywords returns a schema with the given keywords. Schemas inside them must be of type
// *Schema.
func FromKeywords(keywords Map) *Schema { return &Schema{keywords} }

// Field is a named member of an object, with its schema.
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

// String returns the schema of a string. The description may be empty, as in all functions of this
// package.
func String(description string) *Schema { return typed("string", description) }

// Integer returns the schema of a whole number that fits in 64 bits with a sign.
func Integer(description string) *Schema { return typed("integer", description).Format("int64") }

// Number returns the schema of a decimal number.
func Number(description string) *Schema { return typed("number", description).Format("double") }

// Boolean returns the schema of a boolean.
func Boolean(description string) *Schema { return typed("boolean", description) }

// Enum returns the schema of a string that equals one of words.
func Enum(description string, words ...string) *Schema {
	return String(description).set("enum", words)
}

// Const returns the schema of the string word alone.
func Const(word string) *Schema { return String("").set("const", word) }

// True returns the schema of the value true alone, for members that are either true or absent.
func True(description string) *Schema { return Boolean(description).set("const", true) }

// False returns the schema of the value false alone.
func False(description string) *Schema { return Boolean(description).set("const", false) }

// Code returns the schema of the whole number number alone.
func Code(number int) *Schema { return Integer("").set("const", number) }

// Any returns a schema that accepts every value.
func Any(description string) *Schema { return new(Schema).Describe(description) }

// Object returns the schema of an object with the members fields.
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

// MapOf returns the schema of an object whose members have any names, and values with the schema
// values.
func MapOf(description string, values *Schema) *Schema {
	return typed("object", description).set("additionalProperties", values)
}

// Array returns the schema of an array whose items have the schema items.
func Array(description string, items *Schema) *Schema {
	return typed("array", description).set("items", items)
}

// Tuple returns the schema of an array whose items have the given schemas in this order. At least
// the first least items are present. For validators, the keyword items has no effect, because there
// are no more items. Generators that do not know prefixItems read the array as a list of numbers
// because of it.
func Tuple(description string, least int, items ...*Schema) *Schema {
	return typed("array", description).set("prefixItems", items).set("items", typed("number", "")).Items(least, len(items))
}

// OneOf returns the schema of a value that matches exactly one of the variants.
func OneOf(description string, variants ...*Schema) *Schema {
	return Any(description).set("oneOf", variants)
}

// AnyOf returns the schema of a value that matches at least one of the variants.
func AnyOf(description string, variants ...*Schema) *Schema {
	return Any(description).set("anyOf", variants)
}

// prefix is the beginning of a reference to a schema, in OpenAPI and AsyncAPI documents.
const prefix = "#/components/schemas/"

// Ref returns a schema that refers to the component with a name.
func Ref(name string) *Schema { return new(Schema).set("$ref", prefix+name) }

// Describe sets the description. It does nothing if text is empty.
func (s *Schema) Describe(text string) *Schema {
	if text == "" {
		return s
	}
	return s.set("description", text)
}

// Title sets the title.
func (s *Schema) Title(text string) *Schema { return s.set("title", text) }

// Format sets the keyword format, such as date-time.
func (s *Schema) Format(name string) *Schema { return s.set("format", name) }

// Pattern sets the regular expression (ECMA-262) that a string must match.
func (s *Schema) Pattern(expression string) *Schema { return s.set("pattern", expression) }

// Length sets the minimum and maximum number of characters of a string.
func (s *Schema) Length(least, most int) *Schema {
	return s.set("minLength", least).set("maxLength", most)
}

// Items sets the minimum and maximum number of items of an array.
func (s *Schema) Items(least, most int) *Schema {
	return s.set("minItems", least).set("maxItems", most)
}

// Between sets the minimum and maximum of a whole number.
func (s *Schema) Between(least, most int64) *Schema {
	return s.set("minimum", least).set("maximum", most)
}

// Range sets the minimum and maximum of a decimal number.
func (s *Schema) Range(least, most float64) *Schema {
	return s.set("minimum", least).set("maximum", most)
}

// AtLeast sets the minimum of a number.
func (s *Schema) AtLeast(least int64) *Schema { return s.set("minimum", least) }

// Default sets the value that applies if the member is absent.
func (s *Schema) Default(value any) *Schema { return s.set("default", value) }

// Example sets the list of example values.
func (s *Schema) Example(values ...any) *Schema { return s.set("examples", values) }

// Nullable also allows the value null.
func (s *Schema) Nullable() *Schema {
	if kind, ok := s.keywords.Get("type").(string); ok {
		return s.set("type", []string{kind, "null"})
	}
	return OneOf("", s, new(Schema).set("type", "null"))
}

// Open allows an object to have other members than the named ones, even in tests.
func (s *Schema) Open() *Schema { return s.set("additionalProperties", true) }

// Deprecated marks a value that will be removed.
func (s *Schema) Deprecated() *Schema { return s.set("deprecated", true) }

// Keyword sets a keyword for which there is no method.
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

// Fields returns the members of an object schema in their order.
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

// Keywords returns a copy of the list of keywords in their order.
func (s *Schema) Keywords() Map { return slices.Clone(s.keywords) }
