package docsite

import (
	"bytes"
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// repository is the base URL for links to files that /docs does not serve.
const repository = "https://github.com/ruedahq/rueda/blob/main/"

// markdown converts documents to HTML.
type markdown struct{ engine goldmark.Markdown }

// article is a document that has been converted to HTML.
type article struct {
	title    string
	body     []byte
	headings []heading // of the levels 2 and 3
	sections []section // for the search
}

// heading is an entry of a table of contents.
type heading struct {
	Level int
	ID    string
	Text  string
}

// section is the plain text between a heading and the next one.
type section struct {
	id    string // of the heading; "": before the first one
	title string
	text  string
}

// newMarkdown returns an engine for CommonMark with tables, strikethrough and automatic links, as
// on GitHub. HTML in a document appears as text, and comments are left out.
func newMarkdown() *markdown {
	table := extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))
	plain := renderer.WithNodeRenderers(util.Prioritized(plainHTML{}, 1), util.Prioritized(tables{}, 1))
	return &markdown{goldmark.New(goldmark.WithExtensions(table, extension.Strikethrough, extension.Linkify),
		goldmark.WithRendererOptions(plain))}
}

// article converts a document to HTML and rewrites its links. dir is the folder of the document in
// the repository. Links lead to pages in the language lang.
func (m *markdown) article(source []byte, dir, lang string) (*article, error) {
	root := m.engine.Parser().Parse(text.NewReader(source))
	a := &article{}
	ids := map[string]bool{}
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			a.heading(n, source, ids)
		case *ast.Link:
			to := target(string(n.Destination), dir, lang)
			n.Destination = []byte(to)
			if strings.HasPrefix(to, "https://") {
				n.SetAttributeString("rel", []byte("noreferrer"))
			}
		case *ast.Image:
			n.Destination = []byte(target(string(n.Destination), dir, "en"))
			n.SetAttributeString("loading", []byte("lazy"))
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		return nil, err
	}
	a.sections = sections(root, source)
	var out bytes.Buffer
	if err := m.engine.Renderer().Render(&out, source, root); err != nil {
		return nil, err
	}
	a.body = out.Bytes()
	return a, nil
}

// heading gives a heading a unique id, records it in ids, and adds a heading of level 2 or 3 to the
// table of contents.
func (a *article) heading(n *ast.Heading, source []byte, ids map[string]bool) {
	words := textOf(n, source)
	id := anchor(words)
	for i := 1; ids[id]; i++ {
		id = anchor(words) + "-" + strconv.Itoa(i)
	}
	ids[id] = true
	n.SetAttributeString("id", []byte(id))
	switch {
	case n.Level == 1 && a.title == "":
		a.title = words
	case n.Level == 2 || n.Level == 3:
		a.headings = append(a.headings, heading{n.Level, id, words})
	}
}

// anchor returns the id that GitHub generates for a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, heading)
}

// target returns the address for a link in a document of the folder dir: the page of a document, a
// picture, or a file of the repository. It returns links to other sites and absolute links
// unchanged.
func target(link, dir, lang string) string {
	if u, err := url.Parse(link); err != nil || u.Scheme != "" || u.Host != "" || u.Path == "" || u.Path[0] == '/' {
		return link // goldmark drops it if its scheme is dangerous
	}
	file, fragment, found := strings.Cut(link, "#")
	if found {
		fragment = "#" + fragment
	}
	file = path.Join(dir, file)
	name, ok := nameOf(file)
	if !ok {
		return repository + file + fragment
	}
	if rest, ok := strings.CutPrefix(name, "es/"); ok {
		name, lang = rest, "es"
	}
	switch {
	case path.Ext(name) == ".md":
		return place{lang, pageName(name)}.path() + fragment
	case picture(name) != "":
		return place{"en", name}.path()
	}
	return repository + file + fragment
}

// pageName returns the name of the page of a document: keys for keys.md, and a folder for its
// README.md.
func pageName(file string) string {
	name := strings.TrimSuffix(file, ".md")
	if name == "README" {
		return ""
	}
	return strings.TrimSuffix(name, "/README")
}

// textOf returns the text of a node without markup, with single spaces.
func textOf(n ast.Node, source []byte) string {
	var b strings.Builder
	appendText(&b, n, source)
	return strings.Join(strings.Fields(b.String()), " ")
}

func appendText(b *strings.Builder, n ast.Node, source []byte) {
	switch n := n.(type) {
	case *ast.Text:
		b.Write(n.Segment.Value(source))
		if n.SoftLineBreak() || n.HardLineBreak() {
			b.WriteByte(' ')
		}
		return
	case *ast.String:
		b.Write(n.Value)
		return
	case *ast.AutoLink:
		b.Write(n.Label(source))
		return
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		for i := range n.Lines().Len() {
			line := n.Lines().At(i)
			b.Write(line.Value(source))
		}
		b.WriteByte(' ')
		return
	case *ast.HTMLBlock, *ast.RawHTML:
		return
	}
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		appendText(b, c, source)
	}
	if n.Type() == ast.TypeBlock || n.Kind() == east.KindTableCell {
		b.WriteByte(' ')
	}
}

// sections splits the text of a document at its headings. The first section is the text before the
// first heading.
func sections(root ast.Node, source []byte) []section {
	list := []section{{}}
	for n := root.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			id, _ := h.AttributeString("id")
			name, _ := id.([]byte)
			list = append(list, section{id: string(name), title: textOf(h, source)})
			continue
		}
		last := &list[len(list)-1]
		last.text = strings.TrimSpace(last.text + " " + textOf(n, source))
	}
	return list
}

// plainHTML renders HTML in a document as text. It leaves comments out.
type plainHTML struct{}

func (plainHTML) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if block, ok := n.(*ast.HTMLBlock); ok && entering && block.HTMLBlockType != ast.HTMLBlockType2 {
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				_, _ = w.Write(util.EscapeHTML(line.Value(source)))
			}
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if raw, ok := n.(*ast.RawHTML); ok && entering {
			text := raw.Segments.Value(source)
			if !bytes.HasPrefix(text, []byte("<!--")) {
				_, _ = w.Write(util.EscapeHTML(text))
			}
		}
		return ast.WalkSkipChildren, nil
	})
}

// tables wraps each table in an element that readers can scroll, also with the keyboard.
type tables struct{}

func (tables) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(east.KindTable, func(w util.BufWriter, _ []byte, _ ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			_, _ = w.WriteString("<div class=\"wide\" tabindex=\"0\"><table>\n")
		} else {
			_, _ = w.WriteString("</table></div>\n")
		}
		return ast.WalkContinue, nil
	})
}
