package rueda_test

import (
	"go/ast"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// retiredNameWords returns words that no declared name contains. There is a plainer one for each.
func retiredNameWords() []string {
	return strings.Fields(`anew asleep aside bell bequeath beside besides betray betrays breath courier crew deaf desk door
		doors doubts dummies farewell guest guests hearth heirless hole holes hygiene intake interlude lane lanes
		mend mended mends moment moments oftener outlet parted pour press ripen room rooms
		seat seated seats shake shaken shaking shim soil stirred stranger strangers strike suffer suffers sweep sweeps
		swept tap tape tapes tell telling tells tidy told trail uttered utter utterance utterances upset
		verdict victim victims wary whence whoever whom whose`)
}

// nameWords splits a name in camel case into its words, in lower case.
func nameWords(name string) []string {
	var words []string
	runes := []rune(name)
	start := 0
	for i := 1; i <= len(runes); i++ {
		if i < len(runes) && runes[i] != '_' && (!unicode.IsUpper(runes[i]) ||
			unicode.IsUpper(runes[i-1]) && (i+1 == len(runes) || !unicode.IsLower(runes[i+1]))) {
			continue
		}
		words = append(words, strings.ToLower(strings.Trim(string(runes[start:i]), "_0123456789")))
		start = i
	}
	return words
}

// declaredNames returns the names that a file declares: functions, types, fields, methods,
// parameters, constants and variables.
func declaredNames(f *ast.File) []*ast.Ident {
	var names []*ast.Ident
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names = append(names, n.Name)
		case *ast.TypeSpec:
			names = append(names, n.Name)
		case *ast.Field:
			names = append(names, n.Names...)
		case *ast.ValueSpec:
			names = append(names, n.Names...)
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				if id, ok := e.(*ast.Ident); ok && n.Tok.String() == ":=" {
					names = append(names, id)
				}
			}
		case *ast.RangeStmt:
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if id, ok := e.(*ast.Ident); ok && n.Tok.String() == ":=" {
					names = append(names, id)
				}
			}
		}
		return true
	})
	return names
}

// TestWords checks that no declared name contains a retired word.
func TestWords(t *testing.T) {
	retired := retiredNameWords()
	for _, s := range sources(t) {
		for _, id := range declaredNames(s.file) {
			i := slices.IndexFunc(nameWords(id.Name), func(w string) bool { return slices.Contains(retired, w) })
			if i >= 0 {
				t.Errorf("%s: %s: %q is retired: use a word of the field, as in the glossary of CONTRIBUTING.md", s.at(id.Pos()), id.Name, nameWords(id.Name)[i])
			}
		}
	}
}

// TestNameWords checks the splitting of names.
func TestNameWords(t *testing.T) {
	for name, want := range map[string]string{
		"closeDoor": "close door", "HTTPRoom": "http room", "toldNow2": "told now", "test_tape": "test tape",
		"turnover": "turnover", "X": "x", "idBell": "id bell", "uringID": "uring id",
	} {
		if got := strings.Join(nameWords(name), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestComments checks that comments are in plain English: no retired words, no long
// sentences, and lines of at most maxColumns columns.
func TestComments(t *testing.T) {
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				col := s.fset.Position(c.Pos()).Column
				block := strings.HasPrefix(c.Text, "//\t") || strings.HasPrefix(c.Text, "//go:")
				if col == 1 && !block && utf8.RuneCountInString(c.Text) > maxColumns {
					t.Errorf("%s: a line has at most %d columns", s.at(c.Pos()), maxColumns)
				}
			}
			lines := strings.Split(group.Text(), "\n")
			for i, line := range lines {
				if strings.HasPrefix(line, "\t") {
					lines[i] = "" // code, or a table
				}
			}
			text := strings.Join(lines, "\n")
			if words := retiredIn(text); len(words) > 0 {
				t.Errorf("%s: %q: use %q", s.at(group.Pos()), words[0], retiredWords()[words[0]])
			}
			for _, p := range passages(text) {
				for _, sentence := range longSentences(p.plain()) {
					t.Errorf("%s: a sentence has at most %d words; this has %s", s.at(group.Pos()), maxSentence, sentence)
				}
			}
		}
	}
}
