package openapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/schema"
	"github.com/ruedahq/rueda/internal/api/schema/schematest"
)

var update = flag.Bool("update", false, "copy the documents to testdata/release, as a release does")

const releaseFolder = "testdata/release"

// current returns the current documents by the name of their copy.
func current(t *testing.T) map[string][]byte {
	t.Helper()
	documents := map[string][]byte{}
	for name, build := range map[string]func() ([]byte, error){"openapi.json": PublicDocument, "admin.json": AdminDocument} {
		text, err := build()
		if err != nil {
			t.Fatal(err)
		}
		documents[name] = text
	}
	return documents
}

// TestRelease compares the documents with those of the last release. A change that breaks clients
// must be in testdata/breaking.txt.
func TestRelease(t *testing.T) {
	var found []string
	for name, now := range current(t) {
		file := filepath.Join(releaseFolder, name)
		if *update {
			if err := os.WriteFile(file, schema.Indent(now), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		old, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changes, err := schematest.Breaking(old, now)
		if err != nil {
			t.Fatal(err)
		}
		for _, change := range changes {
			found = append(found, name+": "+change)
		}
	}
	text, err := os.ReadFile("testdata/breaking.txt")
	if err != nil {
		t.Fatal(err)
	}
	listed := []string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			listed = append(listed, line)
		}
	}
	for _, change := range found {
		if !slices.Contains(listed, change) {
			t.Errorf("this breaks clients of the last release, and is not in testdata/breaking.txt:\n%s", change)
		}
	}
	for _, change := range listed {
		if !slices.Contains(found, change) {
			t.Errorf("testdata/breaking.txt has a change that does not exist:\n%s", change)
		}
	}
}

// TestReleaseNoticesChanges checks that removals from the real documents are noticed: of each path,
// each word of the reasons and some members.
func TestReleaseNoticesChanges(t *testing.T) {
	text := current(t)["openapi.json"]
	var document map[string]any
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	check := func(what string, changed []byte) {
		t.Helper()
		if changes, err := schematest.Breaking(text, changed); err != nil || len(changes) == 0 {
			t.Errorf("%s: %v, %v", what, changes, err)
		}
	}
	paths := document["paths"].(map[string]any)
	for path, item := range paths {
		delete(paths, path)
		changed, err := json.Marshal(document)
		if err != nil {
			t.Fatal(err)
		}
		check(path, changed)
		paths[path] = item
	}
	for _, change := range [][2]string{
		{`"token_expired",`, ``}, {`"next_cursor":`, `"next":`}, {`"access_token":`, `"token":`}, {`"const":"bearer"`, `"const":"Bearer"`},
		{`"name":"after_sequence"`, `"name":"after"`}, {`"type":"number","description":"Exact decimal with at most 15`, `"type":"string","description":"Exact decimal with at most 15`},
		{`"pre_open",`, ``}, {`"required":["username","password","new_password"]`, `"required":["username","password","new_password","otp"]`},
	} {
		if changed := bytes.ReplaceAll(text, []byte(change[0]), []byte(change[1])); bytes.Equal(changed, text) {
			t.Errorf("the document has no %s", change[0])
		} else {
			check(change[0], changed)
		}
	}
}
