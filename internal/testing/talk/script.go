package talk

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// Script is one conversation.
type Script struct {
	Name string // of the file, without its ending
	Rule string // what it shows
	Text string
	step []step
}

// step is one line.
type step struct {
	line  int
	conn  string // the client's name
	times int
	verb  string
	rest  string // what follows the verb
}

// Load reads all *.talk files of a folder, in the order of their names.
func Load(fsys fs.FS) ([]*Script, error) {
	names, err := fs.Glob(fsys, "*.talk")
	if err != nil {
		return nil, fmt.Errorf("list conversations: %w", err)
	}
	var all []*Script
	for _, name := range names {
		f, err := fsys.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read conversation: %w", err)
		}
		s, err := Parse(strings.TrimSuffix(path.Base(name), ".talk"), f)
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("read conversation: %w", err)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Parse reads a conversation.
func Parse(name string, r io.Reader) (*Script, error) {
	s := &Script{Name: name}
	var text strings.Builder
	known := verbs()
	lines := bufio.NewScanner(io.TeeReader(r, &text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		comment, isComment := strings.CutPrefix(line, "#")
		switch {
		case n == 1 && !isComment:
			return nil, fmt.Errorf("%s.talk:1: the first line states the rule", name)
		case n == 1:
			s.Rule = strings.TrimSpace(comment)
		case isComment || line == "":
		default:
			st := parseStep(line)
			if known[st.verb] == nil {
				return nil, fmt.Errorf("%s.talk:%d: unknown step %q", name, n, st.verb)
			}
			st.line = n
			s.step = append(s.step, st)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s.talk: %w", name, err)
	}
	s.Text = text.String()
	return s, nil
}

func parseStep(line string) step {
	st := step{times: 1}
	if name, rest, ok := strings.Cut(line, ": "); ok && isWord(name) {
		st.conn, line = name, rest
	}
	if count, rest, ok := strings.Cut(line, " x "); ok {
		if n, err := strconv.Atoi(count); err == nil {
			st.times, line = n, rest
		}
	}
	st.verb, st.rest, _ = strings.Cut(line, " ")
	return st
}

func isWord(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// Duration returns the sum of the times of all after steps.
func (s *Script) Duration() time.Duration {
	var sum time.Duration
	for _, st := range s.step {
		if st.verb == "after" {
			d, _ := time.ParseDuration(st.rest)
			sum += d * time.Duration(st.times)
		}
	}
	return sum
}

// Stalls reports whether a client of the conversation stops reading. Its Conn must then be a
// Staller.
func (s *Script) Stalls() bool {
	for _, st := range s.step {
		if st.verb == "stop" {
			return true
		}
	}
	return false
}
