package operations

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"
)

// TestTranslations checks that each text of the page has a Spanish one with the same places for
// arguments, and that no other text has.
func TestTranslations(t *testing.T) {
	root, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	text, err := fs.ReadFile(root, "app/lang/es.js")
	if err != nil {
		t.Fatal(err)
	}
	spanish := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^  "((?:[^"\\]|\\.)*)": "((?:[^"\\]|\\.)*)",$`).FindAllStringSubmatch(string(text), -1) {
		if _, twice := spanish[m[1]]; twice {
			t.Errorf("%q is there twice", m[1])
		}
		spanish[m[1]] = m[2]
	}
	places, used := regexp.MustCompile(`\{\d\}`), map[string]bool{}
	err = fs.WalkDir(root, "app", func(name string, d fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".js" {
			return err
		}
		text, err := fs.ReadFile(root, name)
		for _, m := range regexp.MustCompile(`\bt\("((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(string(text), -1) {
			used[m[1]] = true
			other, ok := spanish[m[1]]
			if !ok {
				t.Errorf("%s: %q has no Spanish text", name, m[1])
			} else if strings.Join(places.FindAllString(m[1], -1), "") != strings.Join(places.FindAllString(other, -1), "") {
				t.Errorf("%s: %q and %q have different places", name, m[1], other)
			}
		}
		return err
	})
	if err != nil || len(used) < 100 {
		t.Errorf("%d texts, %v", len(used), err)
	}
	for english := range spanish {
		if !used[english] {
			t.Errorf("no view has the text %q", english)
		}
	}
}
