package docsite

import (
	"github.com/ruedahq/rueda/internal/api/reason"
	"github.com/ruedahq/rueda/wire"
)

// reasonView is the data for the template of a reason word's page.
type reasonView struct {
	Word, Cause, Remedy string
	Status              int
	Code                int // of an Error of the stream; 0: the stream does not use the word
	Close               int // close code after it; 0: the connection stays open
	Warning, Lost       bool
	Routes              []*route // whose errors may have it
}

// view returns the data for the page of an entry in the language lang. Routes stays nil.
func view(e *reason.Entry, lang string) reasonView {
	v := reasonView{Word: string(e.Word), Cause: e.Cause, Remedy: e.Remedy, Status: e.Status, Warning: e.Warning, Lost: e.Lost}
	if lang == "es" {
		v.Cause, v.Remedy = reason.Spanish(e.Word)
	}
	if e.Socket {
		s := e.Word.Socket()
		v.Code = s.Code
		if s.Closes {
			v.Close = 4000 + s.Code
		}
	}
	return v
}

// reason renders the page of a reason word, or the list of all words if word is empty. The error is
// errNoPage for an unknown word.
func (s *Site) reason(at place, word string) ([]byte, error) {
	if word == "" && at.name == "reasons" {
		f := s.frame(at, "")
		f.Title = f.T("Errors")
		var all []reasonView
		for _, e := range reason.All() {
			all = append(all, view(&e, at.lang))
		}
		return s.finish(f, "reasons", all)
	}
	e, ok := reason.Of(wire.Reason(word))
	if !ok {
		return nil, errNoPage
	}
	c, err := s.parts().contract()
	if err != nil {
		return nil, err
	}
	v := view(&e, at.lang)
	for _, r := range c.routes {
		if r.has(word) {
			v.Routes = append(v.Routes, r)
		}
	}
	return s.finish(s.frame(at, word), "reason", v)
}

// has reports whether an error of the route may have the reason word.
func (r *route) has(word string) bool {
	for _, g := range r.Errors {
		for _, w := range g.Words {
			if w == word {
				return true
			}
		}
	}
	return false
}
