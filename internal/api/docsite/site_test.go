package docsite

import (
	"bytes"
	"compress/gzip"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ruedahq/rueda/internal/api/asyncapi"
	"github.com/ruedahq/rueda/internal/api/downloads"
	"github.com/ruedahq/rueda/internal/api/openapi"
	"github.com/ruedahq/rueda/internal/api/reason"
)

// get requests a path.
func get(t *testing.T, s *Site, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t *testing.T, res *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// allPaths returns the path of every page.
func allPaths(t *testing.T, s *Site) (paths []string) {
	t.Helper()
	var names []string
	for name := range s.titles() {
		if !strings.HasPrefix(name, "es/") {
			names = append(names, pageName(name))
		}
	}
	for _, name := range []string{"", "protocol", "clients", "clients/python", "clients/python/REFERENCE", "clients/typescript", "clients/typescript/REFERENCE"} {
		if !slices.Contains(names, name) {
			t.Fatalf("no document is %q", name)
		}
	}
	c, err := s.parts().contract()
	if err != nil {
		t.Fatal(err)
	}
	names = append(names, "api", "stream", "reasons")
	for _, r := range c.routes {
		names = append(names, "api/"+r.ID)
	}
	for _, ch := range c.channels {
		names = append(names, "stream/"+ch.ID)
	}
	for _, e := range reason.All() {
		names = append(names, "reasons/"+string(e.Word))
	}
	names = append(names, clientsName)
	for _, lang := range []string{"en", "es"} {
		for _, name := range names {
			paths = append(paths, place{lang, name}.path())
		}
	}
	if len(paths) < 300 {
		t.Fatalf("%d pages", len(paths))
	}
	return paths
}

// element is a start tag of a page.
type element struct {
	name       string
	attributes map[string]string
}

// elements parses a page strictly, except for the void elements and entities of HTML.
func elements(t *testing.T, name, text string) (list []element) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	open := []string{}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{token.Name.Local, map[string]string{}}
			for _, a := range token.Attr {
				e.attributes[a.Name.Local] = a.Value
			}
			list = append(list, e)
			open = append(open, e.name)
		case xml.EndElement:
			if len(open) == 0 || open[len(open)-1] != token.Name.Local {
				t.Fatalf("%s: </%s> closes %v", name, token.Name.Local, open)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("%s: %v are not closed", name, open)
	}
	return list
}

// reference is a link of a page.
type reference struct{ from, to string }

// checked is what TestPages learns about the pages.
type checked struct {
	ids   map[string]map[string]bool // by path
	links []reference
}

// element checks an element of a page, and notes its id and its link.
func (c *checked) element(t *testing.T, at string, e element) {
	t.Helper()
	for _, name := range []string{"style", "onclick", "onload", "onerror"} {
		if _, ok := e.attributes[name]; ok {
			t.Errorf("%s: <%s> has the attribute %s", at, e.name, name)
		}
	}
	if id := e.attributes["id"]; id != "" {
		if c.ids[at][id] {
			t.Errorf("%s: the id %s exists twice", at, id)
		}
		c.ids[at][id] = true
	}
	switch e.name {
	case "style":
		t.Errorf("%s: a style element", at)
	case "script", "img":
		if !strings.HasPrefix(e.attributes["src"], "/docs/") {
			t.Errorf("%s: %v", at, e)
		}
		if e.name == "img" && e.attributes["alt"] == "" {
			t.Errorf("%s: %v has no text", at, e)
		}
	}
	for _, name := range []string{"href", "src"} {
		if to := e.attributes[name]; to != "" {
			c.links = append(c.links, reference{at, to})
		}
	}
}

// TestPages checks every page: it is well formed, has one first heading and a language, loads only
// what the gateway has, and has no inline script or style. All links and anchors lead to pages that
// exist.
func TestPages(t *testing.T) {
	s := New(Options{Version: "v1.2.3", Console: true, Clients: downloads.Files})
	c := checked{ids: map[string]map[string]bool{}}
	for _, at := range allPaths(t, s) {
		res := get(t, s, at)
		if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != mediaHTML || res.Header.Get("Content-Security-Policy") != Policy {
			t.Errorf("%s: %d %v", at, res.StatusCode, res.Header)
			continue
		}
		c.ids[at] = map[string]bool{}
		list := elements(t, at, bodyOf(t, res))
		headings := 0
		for _, e := range list {
			c.element(t, at, e)
			if e.name == "h1" {
				headings++
			}
		}
		if headings != 1 || list[0].attributes["lang"] != locate(at).lang {
			t.Errorf("%s: %d headings of level 1, %v", at, headings, list[0])
		}
	}
	known := map[string]bool{"/console/": true, "/openapi.json": true, "/asyncapi.json": true}
	files, err := downloads.Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		known["/client/"+f.Name] = true
	}
	for _, l := range c.links {
		to, anchor, _ := strings.Cut(l.to, "#")
		anchor, err := url.PathUnescape(anchor)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.HasPrefix(to, "https://"), strings.HasPrefix(to, "mailto:"):
			continue
		case to == "":
			to = l.from
		case !strings.HasPrefix(to, "/"):
			t.Errorf("%s: %s is relative", l.from, to)
		}
		if !known[to] && get(t, s, to).StatusCode != http.StatusOK {
			t.Errorf("%s: there is no %s", l.from, to)
		}
		known[to] = true
		if anchor != "" && !c.ids[to][anchor] {
			t.Errorf("%s: %s has no #%s", l.from, to, anchor)
		}
	}
}

// TestRepositoryLinks checks that a link out of docs/ names a file of the tree.
func TestRepositoryLinks(t *testing.T) {
	for link, want := range map[string]string{
		"../README.md":                   repository + "README.md",
		"../clients/python/README.md#x":  "/docs/clients/python#x",
		"../clients/python/examples":     repository + "clients/python/examples",
		"protocol.md#tokens":             "/docs/protocol#tokens",
		"decisions/README.md":            "/docs/decisions",
		"es/reasons.md":                  "/docs/es/reasons",
		"overview.svg":                   "/docs/overview.svg",
		"console.webp":                   "/docs/console.webp",
		"test-vectors.json":              repository + "docs/test-vectors.json",
		"#tokens":                        "#tokens",
		"https://www.rfc-editor.org/rfc": "https://www.rfc-editor.org/rfc",
	} {
		if got := target(link, "docs", "en"); got != want {
			t.Errorf("%s leads to %s, want %s", link, got, want)
		}
	}
	for file, want := range map[string]string{"a/b.svg": "image/svg+xml", "b.webp": "image/webp", "b.md": "", "svg": ""} {
		if got := picture(file); got != want {
			t.Errorf("%s is %q", file, got)
		}
	}
	if got := target("../protocol.md#tokens", "docs/es", "es"); got != "/docs/es/protocol#tokens" {
		t.Errorf("got %s", got)
	}
}

// TestMarkdownIsSafe checks that a document cannot put HTML, scripts or styles on a page.
func TestMarkdownIsSafe(t *testing.T) {
	m := newMarkdown()
	for source, want := range map[string]string{
		"<script>alert(1)</script>":            "&lt;script&gt;",
		"text <img src=x onerror=alert(1)>":    "&lt;img src=x onerror=alert(1)&gt;",
		"<div\nonclick=x>\n\ntext\n\n</div>":   "&lt;div",
		"[x](javascript:alert(1))":             `href=""`,
		"[x](JaVaScRiPt:alert(1))":             `href=""`,
		"![x](data:text/html,<script>)":        `src=""`,
		"<javascript:alert(1)>":                "alert(1)",
		"| a |\n|--:|\n| <b onclick=1>x</b> |": `<td align="right">&lt;b onclick=1&gt;`,
		"<!-- a comment -->\n\ntext":           "<p>text</p>",
		"`<b>`":                                "<code>&lt;b&gt;</code>",
		"## A `_b`, *c*: [d](e.md)!":           `id="a-_b-c-d"`,
		"# x\n\n## x":                          `id="x-1"`,
	} {
		a, err := m.article([]byte(source), "docs", "en")
		if err != nil {
			t.Fatal(err)
		}
		got := string(a.body)
		if !strings.Contains(got, want) {
			t.Errorf("%q became %s, want %s", source, got, want)
		}
		for _, bad := range []string{"<script", "<img src=x", "<div\n", "<b ", "comment", `href="javascript`, "style="} {
			if strings.Contains(strings.ToLower(got), bad) {
				t.Errorf("%q became %s", source, got)
			}
		}
	}
}

// TestReferenceIsComplete checks that each operation of the documents for machines and each message
// of the stream has a page.
func TestReferenceIsComplete(t *testing.T) {
	s := New(Options{})
	c, err := s.parts().contract()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range slices.Concat(openapi.Public(), openapi.Admin()) {
		i := slices.IndexFunc(c.routes, func(r *route) bool { return r.ID == o.ID })
		if i < 0 || c.routes[i].Method != o.Method {
			t.Errorf("%s has no page", o.ID)
			continue
		}
		text := bodyOf(t, get(t, s, "/docs/api/"+o.ID))
		for _, p := range o.Query {
			if !strings.Contains(text, "<code>"+p.Name+"</code>") {
				t.Errorf("the page of %s does not name %s", o.ID, p.Name)
			}
		}
		for _, word := range o.Reasons {
			if !strings.Contains(text, `href="/docs/reasons/`+string(word)+`"`) {
				t.Errorf("the page of %s does not link to %s", o.ID, word)
			}
		}
		if live := strings.Contains(text, `class="send"`); live != c.routes[i].Live() || live && o.Needs == openapi.Operator {
			t.Errorf("%s: a form %v", o.ID, live)
		}
	}
	shown := map[string]bool{}
	for _, ch := range c.channels {
		text := bodyOf(t, get(t, s, "/docs/stream/"+ch.ID))
		for _, m := range append(slices.Clone(ch.Sent), ch.Received...) {
			shown[m] = shown[m] || strings.Contains(text, `id="`+m+`"`)
		}
	}
	if len(c.messages) < 25 || !bytes.Contains(asyncapi.Document(), []byte(`"bookUpdate"`)) {
		t.Errorf("%d messages", len(c.messages))
	}
	for id := range c.messages {
		if !shown[id] {
			t.Errorf("no page shows the message %s", id)
		}
	}
	subscribe := map[string]bool{}
	for _, f := range c.messages["subscribe"].Fields {
		subscribe[f.Name] = true
	}
	for _, ch := range dataChannels() {
		if !subscribe[ch.ID] {
			t.Errorf("subscribe has no member %s", ch.ID)
		}
	}
}

// TestAnswers checks entity tags, compression, methods and paths that do not exist.
func TestAnswers(t *testing.T) {
	s := New(Options{})
	plain := get(t, s, "/docs/keys")
	text := bodyOf(t, plain)
	packed := get(t, s, "/docs/keys", "Accept-Encoding", "br, gzip;q=0.5")
	z, err := gzip.NewReader(packed.Body)
	if err != nil {
		t.Fatal(err)
	}
	if unpacked, err := io.ReadAll(z); err != nil || string(unpacked) != text || packed.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%v, %v", err, packed.Header)
	}
	for _, field := range []string{"", "identity", "gzip;q=0", "br"} {
		if res := get(t, s, "/docs/keys", "Accept-Encoding", field); res.Header.Get("Content-Encoding") != "" {
			t.Errorf("%q: compressed", field)
		}
	}
	for _, field := range []string{plain.Header.Get("Etag"), "W/" + plain.Header.Get("Etag"), `"x", ` + plain.Header.Get("Etag"), "*"} {
		if res := get(t, s, "/docs/keys", "If-None-Match", field); res.StatusCode != http.StatusNotModified || bodyOf(t, res) != "" {
			t.Errorf("%s: %d", field, res.StatusCode)
		}
	}
	for _, c := range []struct {
		method, path string
		status       int
		location     string
	}{
		{"POST", "/docs", 405, ""},
		{"HEAD", "/docs", 200, ""},
		{"GET", "/docs/", 308, "/docs"},
		{"GET", "/docs/es/", 308, "/docs/es"},
		{"GET", "/docs//example.com/", 308, "/docs/example.com"},
		{"GET", "/docs/keys.md", 200, ""},
		{"GET", "/docs/es/keys.md", 200, ""},
		{"GET", "/docs/es/client-tutorial.md", 200, ""},
		{"GET", "/docs/llms.txt", 200, ""},
		{"GET", "/docs/static/docs.css", 200, ""},
		{"GET", "/docs/README", 404, ""},
		{"GET", "/docs/es/es/README", 404, ""},
		{"GET", "/docs/es/es/client-tutorial", 404, ""},
		{"GET", "/docs/nothing", 404, ""},
		{"GET", "/docs/documents.go", 404, ""},
		{"GET", "/docs/../go.mod", 404, ""},
		{"GET", "/docs/api/nothing", 404, ""},
		{"GET", "/docs/apinothing", 404, ""},
		{"GET", "/docs/stream/sendData", 404, ""},
		{"GET", "/docs/reasons/%3Cscript%3E", 404, ""},
		{"GET", "/docs/static/../templates/page.html", 404, ""},
		{"GET", "/docs/static/", 308, "/docs/static"},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Header.Set("Accept", "text/html,*/*")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != c.status || w.Header().Get("Location") != c.location {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Header().Get("Location"))
		}
		if c.status == 404 && (strings.Contains(w.Body.String(), "<script>") || !strings.Contains(w.Body.String(), "<h1>")) {
			t.Errorf("%s %s: %s", c.method, c.path, w.Body)
		}
	}
	if res := get(t, s, "/docs/reasons/nothing", "Accept", "*/*"); res.StatusCode != http.StatusNotFound || bodyOf(t, res) != "" {
		t.Errorf("%d", res.StatusCode)
	}
	if len(s.pages) > 10 {
		t.Errorf("%d pages are kept", len(s.pages))
	}
}

// TestClients checks what the page about the packages of the clients shows, in both languages, and
// that a gateway without packages has neither the page nor links to it.
func TestClients(t *testing.T) {
	files, err := downloads.Files()
	if err != nil {
		t.Fatal(err)
	}
	origin := "" // unknown
	s, without := New(Options{
		Clients: func() ([]downloads.File, error) { return files, nil },
		Origin:  func(*http.Request) string { return origin },
	}), New(Options{})
	for at, words := range map[string][]string{
		"/client": {"Install a client", "Guide", "also run npm install ws"}, "/client/": {"Install a client", "Guide", "npm install with the address again"},
		"/client/es": {"Instalar un cliente", "Guía", "también npm install ws"},
	} {
		origin = ""
		text := bodyOf(t, get(t, s, at))
		plain := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(text, "")
		want := append([]string{"pip install " + exampleOrigin, "-replace github.com/ruedahq/rueda=../rueda"}, words...)
		want = append(want, "npm install "+exampleOrigin+"/client/"+files[1].Name, "pip install --no-deps "+exampleOrigin+"/client/"+files[0].Name,
			"pip install --force-reinstall --no-deps "+exampleOrigin+"/client/"+files[0].Name)
		for _, f := range files {
			want = append(want, f.SHA256)
			if !strings.Contains(text, `href="/client/`+f.Name+`"`) {
				t.Errorf("%s does not link to %s", at, f.Name)
			}
		}
		for _, part := range want {
			if !strings.Contains(plain, part) {
				t.Errorf("%s does not have %q", at, part)
			}
		}
		for _, origin = range []string{"https://api.broker.example", "http://127.0.0.1:9000"} {
			text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(bodyOf(t, get(t, s, at)), "")
			if strings.Contains(text, exampleOrigin) || !strings.Contains(text, "npm install "+origin+"/client/") {
				t.Errorf("%s at %s: %s", at, origin, text)
			}
		}
		if res := get(t, without, at); res.StatusCode != http.StatusNotFound {
			t.Errorf("%s without packages: %d", at, res.StatusCode)
		}
	}
	if text := bodyOf(t, get(t, without, "/docs")); strings.Contains(text, `"/client/`) {
		t.Error("a page links to packages that are not there")
	}
	if text := bodyOf(t, get(t, s, "/docs/es")); !strings.Contains(text, `href="/client/es"`) {
		t.Error("the Spanish menu does not have the page")
	}
}

// TestMovedPages checks that the pages which became parts of others lead to them, in both
// languages.
func TestMovedPages(t *testing.T) {
	s := New(Options{})
	for name, to := range moved() {
		for _, base := range []string{"/docs/", "/docs/es/"} {
			w := get(t, s, base+name)
			if at := w.Header.Get("Location"); w.StatusCode != http.StatusPermanentRedirect || at != base+to {
				t.Errorf("%s%s: %d, %q", base, name, w.StatusCode, at)
				continue
			}
			page, anchor, _ := strings.Cut(base+to, "#")
			if !strings.Contains(bodyOf(t, get(t, s, page)), `id="`+anchor+`"`) {
				t.Errorf("%s has no %q", page, anchor)
			}
		}
	}
}

// TestSearch checks what is found first, in both languages, and that queries are only text.
func TestSearch(t *testing.T) {
	s := New(Options{})
	first := regexp.MustCompile(`(?s)id="results".*?<a href="([^"]+)"`)
	for path, want := range map[string]string{
		"/docs/search?q=token_expired":          "/docs/reasons/token_expired",
		"/docs/search?q=rotate+signing+keys":    "/docs/keys",
		"/docs/search?q=/market/book":           "/docs/api/getBook",
		"/docs/search?q=order_book":             "/docs/stream/order_book",
		"/docs/search?q=pandas+frame":           "/docs/clients/python",
		"/docs/search?q=AbortSignal":            "/docs/clients/typescript",
		"/docs/search?q=rueda_panics_total":     "/docs/metrics",
		"/docs/search?q=newest+waiting+summary": "/docs/conversations",
		"/docs/search?q=depth+25+covers+ten":    "/docs/test-vectors",
		"/docs/es/search?q=renovar+sesion":      "/docs/es/",
		"/docs/es/search?q=%C3%A9poca":          "/docs/es/",
	} {
		text := bodyOf(t, get(t, s, path))
		if m := first.FindStringSubmatch(text); m == nil || !strings.HasPrefix(m[1], want) {
			t.Errorf("%s finds %q, want %s", path, m, want)
		}
	}
	for _, query := range []string{"", "%20", "zzzzqqqq", "%00", "%ff%fe", "%3Cscript%3Ealert(1)%3C/script%3E", strings.Repeat("a", 5000), strings.Repeat("a+", 500)} {
		res := get(t, s, "/docs/search?q="+query)
		if text := bodyOf(t, res); res.StatusCode != http.StatusOK || strings.Contains(text, "<script>") || len(text) > 60_000 {
			t.Errorf("%.20s: %d, %d bytes", query, res.StatusCode, len(text))
		}
	}
	if len(s.pages) != 0 {
		t.Errorf("%d pages of searches are kept", len(s.pages))
	}
	list := []entry{newEntry(entry{text: "Ñandú época ABC", page: "x"})}
	if found := find(list, "EPOCA"); len(found) != 1 || found[0].Hit != "época" || found[0].Before != "Ñandú " || found[0].After != " ABC" {
		t.Errorf("got %+v", found)
	}
}

// TestMemory checks how much memory all pages and both indexes of the search hold.
func TestMemory(t *testing.T) {
	s := New(Options{Clients: downloads.Files})
	paths := allPaths(t, s)
	for _, at := range paths {
		_ = get(t, s, at)
	}
	packed := 0
	for _, p := range s.pages {
		packed += len(p.gzip)
	}
	text := 0
	for _, lang := range []string{"en", "es"} {
		list, err := s.parts().index[lang]()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			text += len(e.text) + len(e.folded)
		}
	}
	t.Logf("%d pages in %d KiB, indexes of %d KiB", len(s.pages), packed>>10, text>>10)
	if len(s.pages) != len(paths) || packed > 6<<20 || text > 6<<20 {
		t.Errorf("%d pages of %d, %d bytes, indexes of %d bytes", len(s.pages), len(paths), packed, text)
	}
}

// TestMenu checks that the menu of each language leads to every document that README.md names, and
// to no document twice.
func TestMenu(t *testing.T) {
	s := New(Options{})
	names := map[string][]string{}
	for lang, groups := range s.parts().groups {
		for _, g := range groups {
			for _, l := range g.Links {
				names[lang] = append(names[lang], locate(l.Path).name)
				if l.Text == "" || locate(l.Path).lang != lang {
					t.Errorf("%s: %+v", lang, l)
				}
			}
		}
		slices.Sort(names[lang])
		if unique := slices.Compact(slices.Clone(names[lang])); len(unique) != len(names[lang]) {
			t.Errorf("%s: %v", lang, names[lang])
		}
	}
	es := slices.DeleteFunc(names["es"], func(name string) bool { return name == "reasons" })
	if len(names["en"]) < 28 || !slices.Equal(names["en"], es) {
		t.Errorf("in English %v, in Spanish %v", names["en"], es)
	}
}

// FuzzPath checks that no path and no query makes the pages fail or run a script.
func FuzzPath(f *testing.F) {
	s := New(Options{})
	for _, path := range []string{"/docs", "/docs/es/keys", "/docs/search", "/docs/api/getBook", "/docs/../x", "/docs/%00", "/docs//", "/docs/.md", "/docs/es/es.md", "/docs/static"} {
		f.Add(path, "a b")
	}
	f.Add("/docs/search", "<script>alert(1)</script>")
	f.Add("/docs/es/search", "\xff\x00é")
	f.Fuzz(func(t *testing.T, path, query string) {
		if !strings.HasPrefix(path, "/docs") {
			path = "/docs/" + path
		}
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path, r.URL.RawQuery = path, url.Values{"q": {query}}.Encode()
		r.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK, http.StatusNotFound:
		case http.StatusPermanentRedirect:
			if to := w.Header().Get("Location"); !strings.HasPrefix(to, "/docs") {
				t.Errorf("%q leads to %q", path, to)
			}
		default:
			t.Errorf("%q: %d", path, w.Code)
		}
		if w.Header().Get("Content-Type") == mediaHTML && strings.Contains(w.Body.String(), "<script>") {
			t.Errorf("%q, %q: %s", path, query, w.Body)
		}
	})
}

// BenchmarkSearch measures a query of eight words.
func BenchmarkSearch(b *testing.B) {
	s := New(Options{})
	list, err := s.parts().index["en"]()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		find(list, "a e i o u n s t")
	}
}

// BenchmarkFirstPage measures the first request of a gateway.
func BenchmarkFirstPage(b *testing.B) {
	for b.Loop() {
		w := httptest.NewRecorder()
		New(Options{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs/protocol", nil))
	}
}

// BenchmarkNew measures what the start of a gateway pays.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		New(Options{})
	}
}

// TestPhrases checks that each phrase of the templates and scripts is translated.
func TestPhrases(t *testing.T) {
	known := spanish()
	used := map[string]bool{}
	for _, name := range []string{"templates/page.html", "templates/reference.html", "templates/clients.html"} {
		text, err := assets.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`T "([^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			used[m[1]] = true
			if known[m[1]] == "" {
				t.Errorf("%s: %q has no translation", name, m[1])
			}
		}
	}
	source, err := os.ReadFile("contract.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`"([a-z][a-z ]* %v[a-z ]*)"`).FindAllStringSubmatch(string(source), -1) {
		used[m[1]] = true
		if known[m[1]] == "" {
			t.Errorf("contract.go: %q has no translation", m[1])
		}
	}
	if page := bodyOf(t, get(t, New(Options{}), "/docs/es/api/getBook")); !strings.Contains(page, "uno de 0, 1, 5, 10, 25") {
		t.Error("the Spanish page of a route has not the values of a parameter in Spanish")
	}
	for phrase := range known {
		if phrase != "Reference" && !used[phrase] {
			t.Errorf("%q is not used", phrase)
		}
	}
	script, err := assets.ReadFile("static/phrases.js")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"docs.js", "live.js", "login.js"} {
		text, err := assets.ReadFile("static/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\bt\("([^"]+)"\)`).FindAllStringSubmatch(string(text), -1) {
			if !bytes.Contains(script, fmt.Appendf(nil, "  %q: ", m[1])) {
				t.Errorf("%s: %q has no translation", name, m[1])
			}
		}
	}
}
