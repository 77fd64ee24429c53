package testdata

import (
	"bufio"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"
)

// Conversation is what clients and a server say, line by line.
type Conversation struct {
	Name  string // of the file, without its ending
	Rule  string // what it shows
	Text  string // the whole file
	Steps []Step
}

// Step is one line.
type Step struct {
	Line   int
	Client string // its name; "": there is only one
	Times  int
	Verb   string
	Rest   string // what follows the verb
}

// Load reads all *.talk files of a folder, in the order of their names.
func Load(fsys fs.FS) (all []Conversation, err error) {
	names, err := fs.Glob(fsys, "*.talk")
	if err != nil {
		return nil, fmt.Errorf("list conversations: %w", err)
	}
	for _, name := range names {
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return nil, fmt.Errorf("read a conversation: %w", err)
		}
		c, err := Parse(strings.TrimSuffix(path.Base(name), ".talk"), string(text))
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// Parse reads a conversation. It accepts any verb.
func Parse(name, text string) (c Conversation, err error) {
	c.Name, c.Text = name, text
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		comment, isComment := strings.CutPrefix(line, "#")
		switch {
		case n == 1 && !isComment:
			return c, fmt.Errorf("%s.talk:1: the first line states the rule", name)
		case n == 1:
			c.Rule = strings.TrimSpace(comment)
		case isComment || line == "":
		default:
			c.Steps = append(c.Steps, parseStep(n, line))
		}
	}
	if err := lines.Err(); err != nil {
		return c, fmt.Errorf("%s.talk: %w", name, err)
	}
	return c, nil
}

func parseStep(n int, line string) Step {
	st := Step{Line: n, Times: 1}
	if name, rest, ok := strings.Cut(line, ": "); ok && name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") == "" {
		st.Client, line = name, rest
	}
	if count, rest, ok := strings.Cut(line, " x "); ok {
		if times, err := strconv.Atoi(count); err == nil {
			st.Times, line = times, rest
		}
	}
	st.Verb, st.Rest, _ = strings.Cut(line, " ")
	return st
}

// Duration returns the sum of the times of all after steps.
func (c *Conversation) Duration() (sum time.Duration) {
	for _, st := range c.Steps {
		if d, err := time.ParseDuration(st.Rest); st.Verb == "after" && err == nil {
			sum += d * time.Duration(st.Times)
		}
	}
	return sum
}

// Matches reports whether a text matches a pattern, in which "..." stands for any text.
func Matches(pattern, text string) bool {
	parts := strings.Split(pattern, "...")
	if len(parts) == 1 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(text, p)
		if i < 0 {
			return false
		}
		text = text[i+len(p):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
