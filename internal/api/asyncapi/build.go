package asyncapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/internal/api/schema/message"
)

// Version is the version of the contract of the stream: docs/versioning.md.
const Version = "1.0.0"

// channelRef is a reference to the only channel.
const channelRef = "#/channels/stream"

// Example returns an example of a message, by the component of its payload and the name of a
// source. A source is a golden file and the name of a message in it, or "talk" and the name of a
// conversation.
type Example func(payload, source string) (json.RawMessage, error)

// Build returns the document as indented JSON.
func Build(example Example) ([]byte, error) {
	messages, err := messageObjects(example)
	if err != nil {
		return nil, err
	}
	components, missing := schema.Reachable(Schemas(), payloads())
	if len(missing) > 0 {
		return nil, fmt.Errorf("no component is called %s", strings.Join(missing, ", "))
	}
	document := schema.Map{
		{Name: "asyncapi", Value: "3.0.0"},
		{Name: "info", Value: info()},
		{Name: "defaultContentType", Value: "application/json"},
		{Name: "servers", Value: servers()},
		{Name: "channels", Value: schema.Map{{Name: "stream", Value: channel()}}},
		{Name: "operations", Value: operations()},
		{Name: "components", Value: schema.Map{
			{Name: "messages", Value: messages},
			{Name: "schemas", Value: schema.Components(components)},
			{Name: "securitySchemes", Value: securitySchemes()},
			{Name: "correlationIds", Value: schema.Map{{Name: "id", Value: schema.Map{
				{Name: "description", Value: "The id of a request, which its answer repeats."},
				{Name: "location", Value: "$message.payload#/id"},
			}}}},
		}},
		{Name: "x-reasons", Value: reasons()},
	}
	compact, err := schema.Encode(draft07(document))
	if err != nil {
		return nil, fmt.Errorf("encode the AsyncAPI document: %w", err)
	}
	return schema.Indent(compact), nil
}

// Schemas returns all components that messages of the stream may refer to.
func Schemas() []schema.Named {
	return slices.Concat(message.Client(), message.Control(), message.Data(), message.StreamValues(), message.Scalars())
}

// payloads returns references to the payloads of all messages.
func payloads() (refs []*schema.Schema) {
	for _, e := range entries {
		refs = append(refs, schema.Ref(e.payload))
	}
	return refs
}

// draft07 returns a value of a document with its schemas in the form that AsyncAPI 3.0 has, JSON
// Schema draft 07. A reference has no other keyword next to it, and the items of a tuple are an
// array.
func draft07(value any) any {
	switch v := value.(type) {
	case *schema.Schema:
		return draft07(v.Keywords())
	case schema.Map:
		return draft07Map(v)
	case []*schema.Schema:
		list := make([]any, len(v))
		for i := range v {
			list[i] = draft07(v[i])
		}
		return list
	case []schema.Map:
		list := make([]any, len(v))
		for i := range v {
			list[i] = draft07(v[i])
		}
		return list
	}
	return value
}

func draft07Map(m schema.Map) schema.Map {
	tuple := m.Get("prefixItems") != nil
	_, isRef := m.Get("$ref").(string)
	out := schema.Map{}
	for _, member := range m {
		name, value := member.Name, draft07(member.Value)
		switch {
		case tuple && name == "prefixItems":
			name = "items"
		case tuple && name == "items": // maxItems says the same
			continue
		case isRef && name == "$ref" && len(m) > 1:
			name, value = "allOf", []any{schema.Map{{Name: "$ref", Value: value}}}
		}
		out = out.With(name, value)
	}
	return out
}
