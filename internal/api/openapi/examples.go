package openapi

import (
	"embed"
	"encoding/json"

	"github.com/ruedahq/rueda/internal/api/schema"
)

// golden contains real bodies and answers. The tests of package rest write these files and compare
// them.
//
//go:embed examples/*.json
var golden embed.FS

// withExample returns a media type object with the file of that name in golden as its example. It
// returns m unchanged if there is no such file.
func withExample(m schema.Map, name string) schema.Map {
	text, err := golden.ReadFile("examples/" + name + ".json")
	if err != nil {
		return m
	}
	return m.With("examples", schema.Map{}.With(name, schema.Map{}.With("value", json.RawMessage(text))))
}
