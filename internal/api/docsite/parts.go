package docsite

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"path"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

//go:embed templates/*.html static snippets
var assets embed.FS

// parts holds what several pages need. It is built at the first request.
type parts struct {
	markdown  *markdown
	templates *template.Template
	spanish   map[string]string // phrases of the frame, by their English text
	titles    map[string]string // of documents, by file
	groups    map[string][]group
	stamp     string // changes with the static files
	contract  func() (*contract, error)
	index     map[string]func() ([]entry, error) // of the search, by language
}

// group is a titled list of links in the navigation.
type group struct {
	Title string
	Links []link
}

// link describes a link to a page, for templates.
type link struct {
	Path    string
	Text    string
	Lang    string // of the text
	Current bool
}

func (s *Site) makeParts() *parts {
	p := &parts{markdown: newMarkdown(), spanish: spanish(), titles: s.titles(), groups: map[string][]group{}}
	functions := template.FuncMap{"pair": func(a, b any) pair { return pair{a, b} }}
	p.templates = template.Must(template.New("").Funcs(functions).ParseFS(assets, "templates/*.html"))
	p.groups["en"], p.groups["es"] = s.outline(p, "en"), s.outline(p, "es")
	complete(p.groups["es"], p.groups["en"])
	p.stamp = stamp()
	p.contract = sync.OnceValues(readContract)
	p.index = map[string]func() ([]entry, error){
		"en": sync.OnceValues(func() ([]entry, error) { return s.buildIndex("en") }),
		"es": sync.OnceValues(func() ([]entry, error) { return s.buildIndex("es") }),
	}
	return p
}

// pair passes two values to a nested template.
type pair struct{ A, B any }

// source returns the name of a document's file in the language lang. It returns the English file if
// there is no translation, and "" if there is no document.
func (s *Site) source(lang, name string) string {
	if strings.HasPrefix(name, "es/") || path.Base(name) == "README" {
		return ""
	}
	files := []string{name + ".md", path.Join(name, "README.md")}
	if lang == "es" {
		files = append([]string{"es/" + files[0], "es/" + files[1]}, files...)
	}
	for _, file := range files {
		if in, rest := s.folderOf(file); fs.ValidPath(rest) {
			if _, err := fs.Stat(in, rest); err == nil {
				return file
			}
		}
	}
	return ""
}

// language returns the language of the document in a file: es or en.
func language(file string) string {
	if strings.HasPrefix(file, "es/") {
		return "es"
	}
	return "en"
}

// outline returns the navigation: a group for each heading of level 2 in docs/README.md, with the
// documents that the text below the heading links to.
func (s *Site) outline(p *parts, lang string) []group {
	file := s.source(lang, "")
	source, err := s.read(file)
	if err != nil {
		return nil
	}
	var list []group
	seen := map[string]bool{}
	root := p.markdown.engine.Parser().Parse(text.NewReader(source))
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Heading:
			if entering && n.Level == 2 {
				list = append(list, group{Title: textOf(n, source)})
			}
		case *ast.Link:
			to := string(n.Destination)
			if !entering || len(list) == 0 || path.Ext(to) != ".md" || strings.Contains(to, "://") {
				break
			}
			to, ok := nameOf(path.Join(path.Dir(inTree(file)), to))
			name := pageName(strings.TrimPrefix(to, "es/"))
			if at := s.source(lang, name); ok && at != "" && !seen[at] {
				seen[at] = true
				last := &list[len(list)-1]
				last.Links = append(last.Links, link{Path: place{lang, name}.path(), Text: p.titles[at], Lang: language(at)})
			}
		}
		return ast.WalkContinue, nil
	})
	return list
}

// complete adds links to untranslated documents to the groups of a translation. A link goes to the
// group at the same index as in english.
func complete(groups, english []group) {
	known := map[string]bool{}
	for _, g := range groups {
		for _, l := range g.Links {
			known[locate(l.Path).name] = true
		}
	}
	for i, g := range english[:min(len(english), len(groups))] {
		for _, l := range g.Links {
			if at := locate(l.Path); !known[at.name] {
				l.Path = at.in("es").path()
				groups[i].Links = append(groups[i].Links, l)
			}
		}
	}
}

// stamp returns a hash of the static files.
func stamp() string {
	h := sha256.New()
	_ = fs.WalkDir(assets, "static", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			text, _ := assets.ReadFile(name)
			_, _ = h.Write(text)
		}
		return err
	})
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// static returns a static file. Pages add the stamp to its address, so that browsers load a changed
// file again. The error is errNoPage if there is no such file.
func (s *Site) static(name string) (media string, body []byte, err error) {
	media = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}[path.Ext(name)]
	if media == "" || !fs.ValidPath(name) {
		return "", nil, errNoPage
	}
	if body, err = assets.ReadFile("static/" + name); err != nil {
		return "", nil, errNoPage
	}
	return media, body, nil
}

// frame is the data for the template "page", which surrounds the content of every page.
type frame struct {
	Lang     string
	Path     string
	Other    string // path in the other language
	Title    string
	TextLang string // of the content
	Markdown string // path of the page as Markdown; "": none
	Edit     string // address of its source; "": none
	Home     string
	Version  string
	Console  bool
	Stamp    string
	Menu     []group
	Contents []heading
	Query    string
	Body     template.HTML
	spanish  map[string]string
}

// T translates an English phrase into the language of the page. It returns the phrase itself if
// there is no translation.
func (f *frame) T(phrase string) string { return translate(f.spanish, f.Lang, phrase) }

func translate(spanish map[string]string, lang, phrase string) string {
	if to := spanish[phrase]; lang == "es" && to != "" {
		return to
	}
	return phrase
}

// frame returns a frame for a page, without its content.
func (s *Site) frame(at place, title string) *frame {
	p := s.parts()
	other := "es"
	if at.lang == "es" {
		other = "en"
	}
	f := &frame{
		Lang: at.lang, Path: at.path(), Other: at.in(other).path(), Title: title, TextLang: at.lang, Home: place{at.lang, ""}.path(),
		Version: s.options.Version, Console: s.options.Console, Stamp: p.stamp, spanish: p.spanish,
	}
	reference := group{Title: f.T("Reference")}
	pages := [][2]string{{"api", "REST routes"}, {"stream", "Stream"}, {"reasons", "Errors"}}
	if s.options.Clients != nil {
		pages = append(pages, [2]string{clientsName, "Install a client"})
	}
	for _, r := range pages {
		reference.Links = append(reference.Links, link{Path: place{at.lang, r[0]}.path(), Text: f.T(r[1]), Lang: at.lang})
	}
	f.Menu = append(f.Menu, reference)
	for _, g := range p.groups[at.lang] {
		f.Menu = append(f.Menu, group{Title: g.Title, Links: append([]link(nil), g.Links...)})
	}
	return f
}

// finish renders the template with a name, puts the result into f, and returns the whole page.
func (s *Site) finish(f *frame, name string, content any) ([]byte, error) {
	for i := range f.Menu {
		for j := range f.Menu[i].Links {
			l := &f.Menu[i].Links[j]
			l.Current = l.Path == f.Path
		}
	}
	templates := s.parts().templates
	var body, out bytes.Buffer
	if err := templates.ExecuteTemplate(&body, name, struct {
		*frame
		Page any
	}{f, content}); err != nil {
		return nil, fmt.Errorf("render %s: %w", name, err)
	}
	f.Body = template.HTML(body.String()) //nolint:gosec // the output of a template, which has escaped it
	if err := templates.ExecuteTemplate(&out, "page", f); err != nil {
		return nil, fmt.Errorf("render %s: %w", f.Path, err)
	}
	return out.Bytes(), nil
}

// document renders the page of a document. The error is errNoPage if there is no such document.
func (s *Site) document(at place) ([]byte, error) {
	file := s.source(at.lang, at.name)
	source, err := s.read(file)
	if err != nil {
		return nil, err
	}
	a, err := s.parts().markdown.article(source, path.Dir(inTree(file)), at.lang)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", file, err)
	}
	f := s.frame(at, a.title)
	f.TextLang, f.Contents = language(file), a.headings
	f.Markdown = place{at.lang, strings.TrimPrefix(file, "es/")}.path()
	f.Edit = repository + inTree(file)
	return s.finish(f, "document", struct {
		First bool
		HTML  template.HTML
	}{at.name == "", template.HTML(a.body)}) //nolint:gosec // goldmark has escaped it, and HTML of documents is not passed on
}

// missing returns the page for a path that does not exist, in the language of at.
func (s *Site) missing(at place) (*page, error) {
	f := s.frame(place{at.lang, ""}, "")
	f.Title = f.T("There is no such page")
	body, err := s.finish(f, "missing", nil)
	if err != nil {
		return nil, err
	}
	return newPage(mediaHTML, body)
}

// list returns llms.txt: a list of the documents for language models and other readers of plain
// text.
func (s *Site) list(at place) []byte {
	var b strings.Builder
	b.WriteString("# Rueda\n\n> A brokerage API gateway: tokens, accounts, market data over REST and WebSocket.\n")
	for _, g := range s.parts().groups[at.lang] {
		b.WriteString("\n## " + g.Title + "\n\n")
		for _, l := range g.Links {
			to := l.Path
			if file := s.source(at.lang, locate(l.Path).name); path.Base(file) == "README.md" {
				to += "/README"
			}
			b.WriteString("- [" + l.Text + "](" + to + ".md)\n")
		}
	}
	b.WriteString("\n## Reference\n\n- [OpenAPI](/openapi.json)\n- [AsyncAPI](/asyncapi.json)\n")
	return []byte(b.String())
}
