package asyncapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/asyncapi"
	"github.com/ruedahq/rueda/internal/api/schema"
)

var update = flag.Bool("update", false, "write asyncapi.json")

// TestDocument checks that the document that is served is the one that the schemas, the reasons and
// the golden files make.
func TestDocument(t *testing.T) {
	want, err := asyncapi.Build(example)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("asyncapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(asyncapi.Document(), want) {
		t.Error("asyncapi.json differs from the schemas or the examples: go test ./internal/api/asyncapi -run TestDocument -update")
	}
}

// example returns an example from the golden files of package wire, or from a conversation: its
// first message with the action of the payload.
func example(payload, source string) (json.RawMessage, error) {
	folder, name, _ := strings.Cut(source, "/")
	if folder != "talk" {
		text, err := os.ReadFile(filepath.Join("../../../wire/testdata", folder+".golden"))
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if message, ok := strings.CutPrefix(line, name+": "); ok {
				return json.RawMessage(strings.TrimSpace(message)), nil
			}
		}
		return nil, fmt.Errorf("%s.golden has no message %q", folder, name)
	}
	text, err := os.ReadFile(filepath.Join("../../engine/session/testdata", name+".talk"))
	if err != nil {
		return nil, err
	}
	for _, message := range clientMessages(string(text)) {
		if bytes.HasPrefix(message, fmt.Appendf(nil, `{"action":%q`, actionOf(payload))) {
			return message, nil
		}
	}
	return nil, fmt.Errorf("%s.talk has no message for %s", name, payload)
}

// clientMessages returns the JSON objects that clients send in a conversation.
func clientMessages(script string) (list []json.RawMessage) {
	for line := range strings.Lines(script) {
		_, text, ok := strings.Cut(strings.TrimSpace(line), "> ")
		if ok && strings.HasPrefix(text, "{") && json.Valid([]byte(text)) && !strings.Contains(line, "< ") {
			list = append(list, json.RawMessage(text))
		}
	}
	return list
}

// component returns the schema of a component.
func component(name string) *schema.Schema {
	all := asyncapi.Schemas()
	return all[slices.IndexFunc(all, func(n schema.Named) bool { return n.Name == name })].Schema
}

// actionOf returns the action of the messages of a component.
func actionOf(name string) string {
	first := component(name).Fields()[0]
	word, _ := first.Schema.Get("const").(string)
	return word
}

// TestBuildReportsExamples checks that a missing example is an error.
func TestBuildReportsExamples(t *testing.T) {
	missing := errors.New("no golden file")
	if _, err := asyncapi.Build(func(string, string) (json.RawMessage, error) { return nil, missing }); !errors.Is(err, missing) {
		t.Errorf("got %v", err)
	}
}

// TestNoUnusedComponents checks that every component is reachable from a message.
func TestNoUnusedComponents(t *testing.T) {
	for _, n := range asyncapi.Schemas() {
		if n.Name == "MarketID" || n.Name == "TermID" {
			continue // for REST
		}
		if !bytes.Contains(asyncapi.Document(), []byte("#/components/schemas/"+n.Name+`"`)) {
			t.Errorf("no message needs the component %s", n.Name)
		}
	}
}
