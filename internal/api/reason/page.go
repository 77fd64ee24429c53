package reason

import (
	"fmt"
	"html"
	"strings"

	"github.com/ruedahq/rueda/wire"
)

// Page returns an HTML page that explains a reason word. It has no scripts, styles or images.
func Page(e Entry) []byte {
	var b strings.Builder
	begin(&b, string(e.Word))
	b.WriteString("<dl>\n")
	row := func(term, text string) {
		if text != "" {
			fmt.Fprintf(&b, "<dt>%s</dt>\n<dd>%s</dd>\n", term, html.EscapeString(text))
		}
	}
	if e.Status != 0 {
		row("HTTP status", fmt.Sprint(e.Status))
	}
	row("On the stream", stream(&e))
	row("Cause", e.Cause)
	row("Remedy", e.Remedy)
	b.WriteString("</dl>\n<p><a href=\"/docs/reasons\">All reasons</a></p>\n</html>\n")
	return []byte(b.String())
}

// Index returns an HTML page that lists all reason words.
func Index() []byte {
	var b strings.Builder
	begin(&b, "Reasons")
	b.WriteString("<p>Errors have a reason, a word for programs. Each has a page.</p>\n<dl>\n")
	for _, e := range All() {
		fmt.Fprintf(&b, "<dt><a href=\"%s%s\">%s</a></dt>\n<dd>%s</dd>\n", wire.ReasonPages, e.Word, e.Word, html.EscapeString(e.Cause))
	}
	b.WriteString("</dl>\n</html>\n")
	return []byte(b.String())
}

func begin(b *strings.Builder, title string) {
	title = html.EscapeString(title)
	fmt.Fprintf(b, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>%s</title>\n<h1>%s</h1>\n", title, title)
}

// stream returns a text that describes where the stream uses a word, or "" if it does not.
func stream(e *Entry) string {
	var uses []string
	if e.Socket {
		s := e.Word.Socket()
		use := fmt.Sprintf("Error with code %d; the connection stays open", s.Code)
		if s.Closes {
			use = fmt.Sprintf("Error with code %d, then close code %d", s.Code, 4000+s.Code)
		}
		uses = append(uses, use)
	}
	if e.Warning {
		uses = append(uses, "Warning")
	}
	if e.Lost {
		uses = append(uses, "why messages are lost")
	}
	return strings.Join(uses, "; ")
}
