// Package schematest validates messages in tests against the schemas of an OpenAPI or AsyncAPI
// document. Documents allow members that they do not name. A Validator forbids them, so that a test
// fails for a member that no document describes.
package schematest

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Draft is a version of JSON Schema.
type Draft int

// Drafts of the documents: OpenAPI 3.1 uses 2020-12, AsyncAPI 3.0 uses draft 7.
const (
	Draft2020 Draft = iota
	Draft7
)

// Validator validates values against the schemas of a document. It is safe for concurrent use.
type Validator struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema
	document any
}

// location is the URL under which the document is compiled, for references within it.
const location = "rueda:document"

// Compile returns a Validator for the schemas of a document. It compiles a schema at its first use.
func Compile(document []byte, draft Draft) (*Validator, error) {
	parsed, err := Parse(document)
	if err != nil {
		return nil, fmt.Errorf("parse the document: %w", err)
	}
	forbidOthers(parsed)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if draft == Draft7 {
		c.DefaultDraft(jsonschema.Draft7)
	}
	c.AssertFormat()
	if err := c.AddResource(location, parsed); err != nil {
		return nil, err
	}
	return &Validator{compiler: c, compiled: map[string]*jsonschema.Schema{}, document: parsed}, nil
}

// Parse parses JSON into maps, slices, strings, booleans and json.Number.
func Parse(text []byte) (any, error) { return jsonschema.UnmarshalJSON(bytes.NewReader(text)) }

// Validate checks a JSON value against the schema at a JSON pointer of the document, such as
// #/components/schemas/Trade.
func (v *Validator) Validate(pointer string, value []byte) error {
	parsed, err := Parse(value)
	if err != nil {
		return fmt.Errorf("not JSON: %w: %.200s", err, value)
	}
	return v.ValidateParsed(pointer, parsed)
}

// ValidateParsed checks a value that Parse has returned, like Validate.
func (v *Validator) ValidateParsed(pointer string, value any) error {
	s, err := v.schema(pointer)
	if err != nil {
		return err
	}
	return s.Validate(value)
}

func (v *Validator) schema(pointer string) (*jsonschema.Schema, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.compiled[pointer]; s != nil {
		return s, nil
	}
	s, err := v.compiler.Compile(location + pointer)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", pointer, err)
	}
	v.compiled[pointer] = s
	return s, nil
}

// Document returns the parsed document, including what forbidOthers has added. Callers must not
// change it.
func (v *Validator) Document() any { return v.document }

// forbidOthers adds additionalProperties: false to each schema in value that names members and does
// not set additionalProperties.
func forbidOthers(value any) {
	switch x := value.(type) {
	case []any:
		for _, item := range x {
			forbidOthers(item)
		}
	case map[string]any:
		for name, member := range x {
			switch name {
			case "example", "examples", "default", "const", "enum": // values, not schemas
			default:
				forbidOthers(member)
			}
		}
		if _, named := x["properties"].(map[string]any); !named {
			return
		}
		if _, decided := x["additionalProperties"]; !decided {
			x["additionalProperties"] = false
		}
	}
}
