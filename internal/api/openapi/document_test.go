package openapi

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/reason"
	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/internal/api/schema/schematest"
)

// registries returns the registries of operations.
func registries() map[string][]Operation {
	return map[string][]Operation{"public": Public(), "admin": Admin()}
}

// TestDocuments checks that the documents are built, are the same each time, and are small enough.
func TestDocuments(t *testing.T) {
	for name, build := range map[string]func() ([]byte, error){"public": PublicDocument, "admin": AdminDocument} {
		first, err := build()
		if err != nil {
			t.Fatal(err)
		}
		second, err := build()
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s: two documents differ: %v", name, err)
		}
		if len(first) > 400_000 || !json.Valid(first) {
			t.Errorf("%s: %d bytes", name, len(first))
		}
	}
	if _, err := Document("", "", []Operation{{ID: "x", Method: "GET", Path: "/x", Answer: Answer{Data: unknown()}}}); err == nil {
		t.Error("a component that does not exist is accepted")
	}
}

// TestReferences checks that both documents have each component that they refer to.
func TestReferences(t *testing.T) {
	for name, build := range map[string]func() ([]byte, error){"public": PublicDocument, "admin": AdminDocument} {
		text, err := build()
		if err != nil {
			t.Fatal(err)
		}
		var document any
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatal(err)
		}
		references := referencesOf(document)
		if len(references) < 100 {
			t.Errorf("%s: only %d references are found", name, len(references))
		}
		for _, r := range references {
			at := document
			for _, key := range strings.Split(strings.TrimPrefix(r, "#/"), "/") {
				object, _ := at.(map[string]any)
				at = object[key]
			}
			if at == nil {
				t.Errorf("%s: %s does not exist", name, r)
			}
		}
	}
}

// referencesOf returns the values of all members "$ref" of a value that was decoded from JSON.
func referencesOf(value any) (list []string) {
	switch v := value.(type) {
	case map[string]any:
		for key, member := range v {
			if text, ok := member.(string); ok && key == "$ref" {
				list = append(list, text)
			}
			list = append(list, referencesOf(member)...)
		}
	case []any:
		for _, item := range v {
			list = append(list, referencesOf(item)...)
		}
	}
	return list
}

// TestOperations checks what tools and readers need of each operation.
func TestOperations(t *testing.T) {
	for name, list := range registries() {
		ids, paths := map[string]bool{}, map[string]bool{}
		for i := range list {
			o := &list[i]
			if o.ID == "" || ids[o.ID] || paths[o.Method+o.Path] {
				t.Errorf("%s: %s %s: name %q or path is missing or used twice", name, o.Method, o.Path, o.ID)
			}
			ids[o.ID], paths[o.Method+o.Path] = true, true
			if o.Summary == "" || strings.HasSuffix(o.Summary, ".") || o.Answer.Description == "" || o.Tag == "" {
				t.Errorf("%s: %s needs a tag, a summary without a full stop, and a description of its answer", name, o.ID)
			}
			if strings.Contains(o.Path, "{id}") != (o.Segment != nil) {
				t.Errorf("%s: %s: the open segment is not described", name, o.ID)
			}
			if (o.Answer.Data != nil || o.Answer.Flat != nil) == o.Answer.Bare {
				t.Errorf("%s: %s has one JSON form or none", name, o.ID)
			}
			if o.Lax && len(o.Query) > 0 {
				t.Errorf("%s: %s ignores the parameters that it describes", name, o.ID)
			}
			for _, p := range o.Query {
				if p.Schema.Get("description") == nil && p.Schema.Get("$ref") == nil {
					t.Errorf("%s: %s: parameter %s has no description", name, o.ID, p.Name)
				}
			}
			for _, w := range Reasons(o) {
				if e, _ := reason.Of(w); e.Status == 0 {
					t.Errorf("%s: %s: %s is no reason of REST", name, o.ID, w)
				}
			}
			for _, h := range slices.Concat(answerHeaders(o), o.Answer.Header) {
				if !slices.ContainsFunc(headerTable(), func(r headerRow) bool { return r.name == h }) {
					t.Errorf("%s: %s: header %s is not described", name, o.ID, h)
				}
			}
		}
	}
}

// TestEveryReasonIsUsed checks that each reason of REST belongs to an operation, or to requests
// outside of them.
func TestEveryReasonIsUsed(t *testing.T) {
	used := outsideReasons()
	for _, list := range registries() {
		for i := range list {
			used = append(used, Reasons(&list[i])...)
		}
	}
	for _, e := range reason.All() {
		if e.Status != 0 && !slices.Contains(used, e.Word) {
			t.Errorf("no operation answers with %s", e.Word)
		}
	}
}

// TestExamples checks the golden files with the schemas of the document that shows them.
func TestExamples(t *testing.T) {
	files, err := golden.ReadDir("examples")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	shown := map[string]bool{}
	for name, list := range registries() {
		document, err := Document(name, "", list)
		if err != nil {
			t.Fatal(err)
		}
		v, err := schematest.Compile(document, schematest.Draft2020)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			o := &list[i]
			at := "#/paths/" + strings.ReplaceAll(strings.ReplaceAll(o.Path, "~", "~0"), "/", "~1") + "/" + strings.ToLower(o.Method)
			if o.Body != nil && o.Body.Media == JSON {
				checkExample(t, v, o.Body.Example, at+"/requestBody/content/application~1json/schema", shown)
			}
			if !o.Answer.Bare {
				checkExample(t, v, o.ID, at+"/responses/200/content/application~1json/schema", shown)
			}
		}
	}
	for _, f := range files {
		if !shown[f.Name()] {
			t.Errorf("no document shows %s", f.Name())
		}
	}
}

// checkExample checks a golden file, if there is one.
func checkExample(t *testing.T, v *schematest.Validator, name, pointer string, shown map[string]bool) {
	t.Helper()
	text, err := golden.ReadFile("examples/" + name + ".json")
	if err != nil {
		return
	}
	shown[name+".json"] = true
	if err := v.Validate(pointer, text); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

func unknown() *schema.Schema { return schema.Ref("Unknown") }
