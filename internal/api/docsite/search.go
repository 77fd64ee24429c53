package docsite

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ruedahq/rueda/internal/api/reason"
)

// entry is a section of a page in the search index.
type entry struct {
	path    string // with the anchor
	page    string // title of the page
	title   string // of the part; "": the beginning of the page
	text    string
	lang    string   // of the text
	folded  string   // text for comparing
	heading string   // both titles for comparing
	words   []string // of heading
}

// Limits of a search. A query beyond maxQuery or maxWords is cut off.
const (
	maxQuery   = 100 // bytes
	maxWords   = 8
	maxResults = 30
	maxCount   = 5 // times that a word of a text counts
)

// result is an entry that matches a query, for the template.
type result struct {
	Path, Page, Title  string
	Lang               string
	Before, Hit, After string // an excerpt around the first word
}

// fold returns text in lower case and without Spanish accents, for comparisons.
func fold(text string) string {
	return strings.NewReplacer("á", "a", "é", "e", "í", "i", "ó", "o", "ú", "u", "ü", "u", "ñ", "n").Replace(strings.ToLower(text))
}

// newEntry returns e with folded, heading and words filled in.
func newEntry(e entry) entry {
	e.folded, e.heading = fold(e.text), fold(e.page+" "+e.title)
	for word := range strings.FieldsSeq(e.heading) {
		e.words = append(e.words, strings.Trim(word, "`.,:()/"))
	}
	return e
}

// buildIndex returns the entries for the sections of all pages in a language, sorted by path. It
// includes English documents that are not translated.
func (s *Site) buildIndex(lang string) ([]entry, error) {
	p := s.parts()
	var list []entry
	add := func(to, page, title, text, of string) {
		list = append(list, newEntry(entry{path: to, page: page, title: title, text: text, lang: of}))
	}
	for file := range p.titles {
		name := pageName(strings.TrimPrefix(file, "es/"))
		if s.source(lang, name) != file || name == "reasons" {
			continue
		}
		source, err := s.read(file)
		if err != nil {
			return nil, err
		}
		a, err := p.markdown.article(source, path.Dir(inTree(file)), lang)
		if err != nil {
			return nil, err
		}
		for _, part := range a.sections {
			to := place{lang, name}.path()
			if part.id != "" {
				to += "#" + part.id
			}
			if title := part.title; part.text != "" {
				if title == a.title {
					title = ""
				}
				add(to, a.title, title, part.text, language(file))
			}
		}
	}
	c, err := p.contract()
	if err != nil {
		return nil, err
	}
	for _, r := range c.routes {
		text := r.Summary + ". " + r.Description
		for _, q := range r.Params {
			text += " " + q.Name
		}
		add(place{lang, "api/" + r.ID}.path(), r.Method+" "+r.Path, r.Summary, text, "en")
	}
	for _, ch := range c.channels {
		text := ch.Text
		for _, m := range append(slices.Clone(ch.Sent), ch.Received...) {
			text += " " + m + ": " + c.messages[m].Text
		}
		add(place{lang, "stream/" + ch.ID}.path(), ch.ID, ch.Title, text, "en")
	}
	for _, e := range reason.All() {
		v := view(&e, lang)
		add(place{lang, "reasons/" + v.Word}.path(), v.Word, "", v.Cause+" "+v.Remedy, lang)
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	return list, nil
}

// search renders the page with the results of a query. An empty query has no results.
func (s *Site) search(at place, query string) (*page, error) {
	query = strings.TrimSpace(query[:min(len(query), maxQuery)])
	query = strings.ToValidUTF8(query, "")
	var found []result
	if query != "" {
		list, err := s.parts().index[at.lang]()
		if err != nil {
			return nil, err
		}
		found = find(list, query)
	}
	f := s.frame(at, "")
	f.Title, f.Query = f.T("Search"), query
	body, err := s.finish(f, "search", found)
	if err != nil {
		return nil, err
	}
	return newPage(mediaHTML, body)
}

// find returns up to maxResults entries that contain all words of a query, best match first.
func find(list []entry, query string) (found []result) {
	words := strings.Fields(fold(query))
	words = words[:min(len(words), maxWords)]
	if len(words) == 0 {
		return nil
	}
	type match struct{ score, at int }
	var matches []match
	for i := range list {
		if score := list[i].score(words); score > 0 {
			matches = append(matches, match{score, i})
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return cmp.Compare(b.score, a.score) })
	for _, m := range matches[:min(len(matches), maxResults)] {
		found = append(found, list[m.at].result(words[0]))
	}
	return found
}

// score returns how well the entry matches, or 0 if a word is missing. Words in the heading count
// more than words in the text.
func (e *entry) score(words []string) (score int) {
	for _, w := range words {
		n := 0
		for rest := e.folded; n < maxCount; n++ {
			i := strings.Index(rest, w)
			if i < 0 {
				break
			}
			rest = rest[i+len(w):]
		}
		if strings.Contains(e.heading, w) {
			n += 20
		}
		if slices.Contains(e.words, w) {
			n += 20
		}
		if n == 0 {
			return 0
		}
		score += n
	}
	return score
}

// result returns the entry with an excerpt around the first occurrence of a folded word. It relies
// on fold, which keeps the number of characters.
func (e *entry) result(word string) result {
	const around = 90 // characters before and after
	r := result{Path: e.path, Page: e.page, Title: e.title, Lang: e.lang}
	text, at, length := []rune(e.text), 0, 0
	if i := strings.Index(e.folded, word); i >= 0 {
		at, length = utf8.RuneCountInString(e.folded[:i]), utf8.RuneCountInString(word)
	}
	begin, end := max(0, at-around), min(len(text), at+length+around)
	for begin > 0 && begin < at && text[begin-1] != ' ' {
		begin++
	}
	for end < len(text) && end > at+length && text[end] != ' ' {
		end--
	}
	r.Before, r.Hit, r.After = string(text[begin:at]), string(text[at:at+length]), string(text[at+length:end])
	if begin > 0 {
		r.Before = "…" + r.Before
	}
	if end < len(text) {
		r.After += "…"
	}
	return r
}
