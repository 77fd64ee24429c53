package rueda_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Limits of prose, in the documents and in comments.
const (
	maxColumns  = 100 // of a line
	maxSentence = 35  // words
)

// retiredWords returns words that prose does not use, with the words to use instead.
func retiredWords() map[string]string {
	return map[string]string{
		"anew":         "again",
		"bequeath":     "transfer",
		"beside":       "next to, besides, in addition to",
		"betray":       "reveal, detect",
		"betrays":      "reveal, detect",
		"but for":      "except for",
		"door":         "listener",
		"farewell":     "closing handshake",
		"guests":       "connections",
		"hole":         "gap, sequence gap",
		"holes":        "gap, sequence gap",
		"lanes":        "reader slots",
		"let go of":    "release",
		"lets go of":   "release",
		"mend":         "fix, repair",
		"mended":       "fix, repair",
		"mending":      "fix, repair",
		"mends":        "fix, repair",
		"oftener":      "more often",
		"on its way":   "in flight",
		"on their way": "in flight",
		"ripen":        "publish when due",
		"room":         "space, buffer, page",
		"rooms":        "space, buffer, page",
		"seats":        "instrument quota",
		"sweep":        "flush",
		"sweeps":       "flush",
		"take up":      "resume, load, accept",
		"taken up":     "resume, load, accept",
		"takes up":     "resume, load, accept",
		"tape":         "recent rows, recording",
		"tapes":        "recent rows, recording",
		"tell":         "report, send, state, return",
		"telling":      "report, send, state, return",
		"tells":        "report, send, state, return",
		"told":         "report, send, state, return",
		"whoever":      "anyone who, a client that",
		"whomever":     "anyone who, a client that",
		"whose word":   "which is trusted",
		"yet to":       "not yet",
	}
}

// retiredIn returns the retired words of a text, in lower case.
func retiredIn(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\''
	})
	text = " " + strings.Join(words, " ") + " "
	var found []string
	for word := range retiredWords() {
		if strings.Contains(text, " "+word+" ") {
			found = append(found, word)
		}
	}
	slices.Sort(found)
	return found
}

// longSentences returns the sentences of a text that have more than maxSentence words. A code span
// is one word.
func longSentences(text string) []string {
	var long []string
	n, start := 0, 0
	words := strings.Fields(text)
	for i, w := range words {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
		end := strings.TrimRight(w, "*_)\"”’]")
		if !strings.HasSuffix(end, ".") && !strings.HasSuffix(end, "!") && !strings.HasSuffix(end, "?") && i+1 < len(words) {
			continue
		}
		if n > maxSentence {
			long = append(long, fmt.Sprintf("%d words: %s", n, strings.Join(words[start:i+1], " ")))
		}
		n, start = 0, i+1
	}
	return long
}

// passage is a paragraph, list item, heading or table cell of a document.
type passage struct {
	line int // of its beginning
	text string
	cell bool
}

// plain returns the text of a passage without code and the targets of links. Clauses of a table
// cell are sentences.
func (p passage) plain() string {
	text := regexp.MustCompile("`[^`]*`").ReplaceAllString(p.text, "x")
	text = regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(text, "]")
	if p.cell {
		text = regexp.MustCompile(`[;:](\s)`).ReplaceAllString(text, ".$1")
	}
	return text
}

// proseLines returns the lines of a Markdown document. Lines of code blocks, conversations and
// figures that a program writes are empty.
func proseLines(text string) []string {
	begin := regexp.MustCompile(`^<!-- (facts|ranges)\b`)
	lines := strings.Split(text, "\n")
	end := "" // of the block
	for i, line := range lines {
		trimmed := strings.TrimSpace(line)
		m := begin.FindStringSubmatch(trimmed)
		switch {
		case end != "":
			if trimmed == end {
				end = ""
			}
		case m != nil:
			end = "<!-- /" + m[1] + " -->"
		case strings.HasPrefix(trimmed, "```"):
			end = "```"
		case !strings.HasPrefix(trimmed, "<!--"):
			continue
		}
		lines[i] = ""
	}
	return lines
}

// passages returns the prose of a Markdown document.
func passages(text string) []passage {
	item := regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	cells := regexp.MustCompile("^(?:[^|\\\\`]|\\\\.|`[^`]*`)*")
	var all []passage
	var p passage
	flush := func() {
		if p.text != "" {
			all = append(all, p)
		}
		p = passage{}
	}
	for i, line := range proseLines(text) {
		trimmed := strings.TrimSpace(line)
		if trimmed == "" || trimmed[0] == '#' || trimmed[0] == '|' || item.MatchString(line) {
			flush()
		}
		if strings.HasPrefix(trimmed, "|") {
			for rest := trimmed[1:]; rest != ""; {
				cell := cells.FindString(rest)
				all = append(all, passage{line: i + 1, text: cell, cell: true})
				rest = rest[min(len(cell)+1, len(rest)):]
			}
			continue
		}
		if p.text == "" {
			p.line = i + 1
		}
		p.text = strings.TrimSpace(p.text + " " + trimmed)
		if strings.HasPrefix(trimmed, "#") {
			flush()
		}
	}
	flush()
	return all
}

// documents returns the Markdown files of the tree.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "build" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		all[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 40 {
		t.Fatalf("found %d documents", len(all))
	}
	return all
}

// TestProse checks every document: the width of its lines, the length of its sentences, and its
// words.
func TestProse(t *testing.T) {
	for name, text := range documents(t) {
		for _, p := range passages(text) {
			plain := p.plain()
			if words := retiredIn(plain); len(words) > 0 {
				t.Errorf("%s:%d: %q: use %q", name, p.line, words[0], retiredWords()[words[0]])
			}
			for _, s := range longSentences(plain) {
				t.Errorf("%s:%d: a sentence has at most %d words; this has %s", name, p.line, maxSentence, s)
			}
		}
		for _, n := range wideLines(text) {
			t.Errorf("%s:%d: a line has at most %d columns", name, n, maxColumns)
		}
	}
}

// TestProseOfExamples checks the comments of the configuration that rueda serve --init writes, and
// the rules of the conversations.
func TestProseOfExamples(t *testing.T) {
	comment := regexp.MustCompile(`(?m)^# (.*)$`)
	for _, pattern := range []string{"internal/ops/config/templates/*.toml", talkFolder + "/*.talk"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) < 3 {
			t.Fatalf("%s: %d files, %v", pattern, len(names), err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range comment.FindAllStringSubmatch(string(text), -1) {
				if words := retiredIn(m[1]); len(words) > 0 {
					t.Errorf("%s: %q in %q", name, words[0], m[1])
				}
			}
		}
	}
}

// wideLines returns the numbers of lines with more than maxColumns columns. Tables, links and
// single words may be wider.
func wideLines(text string) []int {
	exempt := regexp.MustCompile(`^\s*(\||!?\[[^\]]*\]\([^)]*\)[.,;:]?$|\S+$)`)
	var wide []int
	for i, line := range proseLines(text) {
		if utf8.RuneCountInString(line) > maxColumns && !exempt.MatchString(line) {
			wide = append(wide, i+1)
		}
	}
	return wide
}

// TestProseFindsFaults checks that the checks of prose find what they are for.
func TestProseFindsFaults(t *testing.T) {
	long := strings.Repeat("word ", maxSentence)
	wide := strings.Repeat("wide ", maxColumns/4)
	text := "# Title\n\nThe client is told\nwhoever asks.\n\n" + long + "`code span`. Short.\n\n" +
		"| a | " + long + "; x |\n\n- " + wide + "\n\n```\nholes " + wide + "\n```\n" +
		"<!-- facts a -->\n\n```text\n" + wide + "\n```\n\nholes\n<!-- /facts -->\nRoom.\n"
	var found []string
	for _, p := range passages(text) {
		found = append(found, retiredIn(p.plain())...)
		for range longSentences(p.plain()) {
			found = append(found, fmt.Sprintf("long:%d", p.line))
		}
	}
	want := []string{"told", "whoever", "long:6", "room"}
	if got := strings.Join(found, " "); got != strings.Join(want, " ") {
		t.Errorf("found %q, want %q", got, strings.Join(want, " "))
	}
	if got := fmt.Sprint(wideLines(text)); got != "[6 10]" {
		t.Errorf("wide lines %s", got)
	}
}

// TestGlossary checks that the glossary of CONTRIBUTING.md has no term twice, and only terms that
// comments or names of the code have.
func TestGlossary(t *testing.T) {
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, group := range s.file.Comments {
			fmt.Fprintf(&code, " %s .", strings.Join(strings.Fields(strings.ToLower(group.Text())), " "))
		}
		for _, id := range declaredNames(s.file) {
			fmt.Fprintf(&code, " %s .", strings.Join(nameWords(id.Name), " "))
		}
	}
	_, glossary, _ := strings.Cut(string(text), "\n| term | meaning |\n|---|---|\n")
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(glossary, -1) {
		for term := range strings.SplitSeq(strings.ToLower(m[1]), ", ") {
			if seen[term] {
				t.Errorf("%q is in the glossary twice", term)
			}
			seen[term] = true
			if !strings.Contains(code.String(), " "+term) {
				t.Errorf("the code does not use %q", term)
			}
		}
	}
	if len(seen) < 70 {
		t.Errorf("the glossary has %d terms", len(seen))
	}
}
