package docsite

import (
	"fmt"
	"html/template"
	"strings"
	texttemplate "text/template"
)

// program is an example program, or a curl command.
type program struct {
	Language string // for people
	Name     string // curl, go, python or typescript
	Text     string
}

// HTML returns the program as HTML for a page.
func (p program) HTML() template.HTML { return code(p.Text) }

// request describes the request that the example programs about a route send.
type request struct {
	Method, URL string
	Headers     [][2]string
	Body        string
	Stream      bool // the answer has no end
	File        string
}

// languages returns the languages of the example programs in the order of a page, each as a name
// for files and a name for people.
func languages() [][2]string {
	return [][2]string{{"curl", "curl"}, {"go", "Go"}, {"python", "Python"}, {"typescript", "TypeScript"}}
}

// programs returns the example programs about a route. It returns none for the WebSocket and for
// routes that only pages use.
func (s *Site) programs(r *route) ([]program, error) {
	if r.Upgrade || r.ofPages() {
		return nil, nil
	}
	q := request{Method: r.Method, URL: exampleOrigin + r.Address(), Body: r.Sample, Stream: r.Stream()}
	if r.Token {
		q.Headers = append(q.Headers, [2]string{"Authorization", "Bearer " + exampleToken})
	}
	if r.Media != "" {
		q.Headers = append(q.Headers, [2]string{"Content-Type", r.Media})
	}
	if r.Stream() {
		q.Headers = append(q.Headers, [2]string{"Accept", "application/x-ndjson"})
	}
	if r.File() {
		q.File = "day.parquet"
	}
	return render("route", q)
}

// render returns one program for each language. kind selects the templates: "route" or "channel".
func render(kind string, data any) (list []program, err error) {
	functions := texttemplate.FuncMap{"shell": shellQuote, "literal": literal}
	t, err := texttemplate.New("").Funcs(functions).ParseFS(assets, "snippets/"+kind+".*.txt")
	if err != nil {
		return nil, fmt.Errorf("read the programs about a %s: %w", kind, err)
	}
	for _, l := range languages() {
		var b strings.Builder
		if err := t.ExecuteTemplate(&b, kind+"."+l[0]+".txt", data); err != nil {
			return nil, fmt.Errorf("write a program in %s: %w", l[1], err)
		}
		list = append(list, program{Language: l[1], Name: l[0], Text: strings.TrimSpace(b.String()) + "\n"})
	}
	return list, nil
}

// shellQuote returns text quoted as one word of a shell command.
func shellQuote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// literal returns text as a string literal that is valid in Go, Python and TypeScript. text must be
// ASCII, as all examples are.
func literal(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text) + `"`
}
