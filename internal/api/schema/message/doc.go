// Package message has the schemas of the messages of package wire, and of the values in them. The
// documents of REST and of the stream share them.
package message

import (
	"encoding/json"
	"slices"

	"github.com/ruedahq/rueda/internal/api/schema"
)

// raw is an example exactly as it is on the wire.
func raw(text string) json.RawMessage { return json.RawMessage(text) }

// named returns a component.
func named(name string, s *schema.Schema) schema.Named { return schema.Named{Name: name, Schema: s} }

// Shared returns the components that REST and the stream share: values and market data.
func Shared() []schema.Named { return slices.Concat(Scalars(), Data()) }
