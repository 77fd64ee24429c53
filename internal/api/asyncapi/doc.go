// Package asyncapi contains the AsyncAPI 3.0 document of the stream, which the gateway serves at
// /asyncapi.json.
//
// asyncapi.json is written by hand. Tests compare it with the encoders and decoders of package
// wire, with the reasons of errors, and with the golden files that its examples come from.
package asyncapi

import (
	"bytes"
	_ "embed"
)

//go:embed asyncapi.json
var document []byte

// Document returns a copy of the document, as JSON.
func Document() []byte { return bytes.Clone(document) }
