// Package asyncapi has the AsyncAPI 3.0 document of the stream, as /asyncapi.json serves it.
//
// [Build] makes the document of the schemas of package message, of the reason words, and of
// examples that are golden files of tests. The result is kept in asyncapi.json: a test compares it,
// and `go test ./internal/api/asyncapi -update` writes it after a change.
package asyncapi

import (
	"bytes"
	_ "embed"
)

//go:embed asyncapi.json
var document []byte

// Document returns the document as JSON.
func Document() []byte { return bytes.Clone(document) }
