package reason

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/wire"
)

// TestPages checks that each word has a page with its cause and remedy, that the list refers to all
// of them, and that no page loads or runs anything.
func TestPages(t *testing.T) {
	index := Index()
	for _, e := range All() {
		page := string(Page(e))
		for _, want := range []string{"<h1>" + string(e.Word) + "</h1>", "<dt>Cause</dt>", "<dt>Remedy</dt>"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page has no %s", e.Word, want)
			}
		}
		if !bytes.Contains(index, fmt.Appendf(nil, `href="%s%s"`, wire.ReasonPages, e.Word)) {
			t.Errorf("the list does not refer to %s", e.Word)
		}
		for _, bad := range []string{"<script", "<style", "<img", "style=", "http:"} {
			if strings.Contains(page, bad) {
				t.Errorf("%s: the page has %s", e.Word, bad)
			}
		}
	}
	token, _ := Of(wire.TokenExpired)
	if page := string(Page(token)); !strings.Contains(page, "<dd>401</dd>") || !strings.Contains(page, "then close code 4401") {
		t.Errorf("got %s", page)
	}
	if page := string(Page(Entry{Word: "<b>", Cause: "a < b"})); strings.Contains(page, "<b>") || !strings.Contains(page, "a &lt; b") {
		t.Errorf("got %s", page)
	}
}
