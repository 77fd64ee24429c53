package openapi

import (
	"embed"
	"encoding/json"

	"github.com/ruedahq/rueda/internal/api/schema"
)

// golden has real requests and answers, which the tests of package rest write and compare.
//
//go:embed examples/*.json
var golden embed.FS

// withExample returns a media type object with the golden file of a name, if there is one.
func withExample(m schema.Map, name string) schema.Map {
	text, err := golden.ReadFile("examples/" + name + ".json")
	if err != nil {
		return m
	}
	return m.With("examples", schema.Map{}.With(name, schema.Map{}.With("value", json.RawMessage(text))))
}
