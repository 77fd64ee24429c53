package server

import (
	"bufio"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/engine/session/testdata"
)

// live has other forms of conversations that need a moment or a setting which a client cannot
// cause. They show the same rules on any development gateway.
//
//go:embed live/*.talk
var live embed.FS

// longest is how long a conversation may wait, in all.
const longest = 10 * time.Minute

// Conversation is a script of what a client and a gateway say.
type Conversation struct {
	Name   string
	Rule   string // what it shows
	steps  []step
	isLive bool // the form for any development gateway
}

// step is one line.
type step struct {
	line  int
	conn  string // name of the client
	times int
	verb  string
	rest  string
}

// Conversations returns all conversations, in the order of their names.
func Conversations() ([]Conversation, error) {
	names, err := fs.Glob(testdata.Conversations, "*.talk")
	if err != nil {
		return nil, fmt.Errorf("list the conversations: %w", err)
	}
	var all []Conversation
	for _, name := range names {
		text, err := live.ReadFile("live/" + name)
		isLive := err == nil
		if !isLive {
			text, err = testdata.Conversations.ReadFile(name)
		}
		if err != nil {
			return nil, fmt.Errorf("read a conversation: %w", err)
		}
		c := parse(strings.TrimSuffix(name, ".talk"), string(text))
		c.isLive = isLive
		all = append(all, c)
	}
	return all, nil
}

// parse reads a conversation, which package internal/testing/talk has checked in tests.
func parse(name, text string) Conversation {
	c := Conversation{Name: name}
	lines := bufio.NewScanner(strings.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		comment, isComment := strings.CutPrefix(line, "#")
		switch {
		case isComment && n == 1:
			c.Rule = strings.TrimSpace(comment)
		case isComment, line == "":
		default:
			st := parseStep(n, line)
			if st.verb == "after" && st.rest == "6h" && name == "bars-revised" {
				st.rest = "2s" // no rule depends on this wait
			}
			c.steps = append(c.steps, st)
		}
	}
	return c
}

func parseStep(n int, line string) step {
	st := step{line: n, times: 1}
	isName := func(s string) bool {
		return s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
	}
	if name, rest, ok := strings.Cut(line, ": "); ok && isName(name) {
		st.conn, line = name, rest
	}
	if count, rest, ok := strings.Cut(line, " x "); ok {
		if times, err := strconv.Atoi(count); err == nil {
			st.times, line = times, rest
		}
	}
	st.verb, st.rest, _ = strings.Cut(line, " ")
	return st
}

// isEvent reports whether a step is an event of the market.
func (st *step) isEvent() bool {
	return slices.Contains([]string{"trade", "late", "cancel", "correct", "reference", "quote", "book", "status", "list", "flood"}, st.verb)
}

// expectsData reports whether a step expects market data.
func (st *step) expectsData() bool {
	kind, ok := strings.CutPrefix(st.rest, `{"type":"`)
	kind, _, _ = strings.Cut(kind, `"`)
	return st.verb == "many" || st.verb == "<" && ok && (len(kind) == 1 || kind == "Alive")
}

// duration returns the sum of the waits of a conversation.
func (c *Conversation) duration() (sum time.Duration) {
	for _, st := range c.steps {
		if d, err := time.ParseDuration(st.rest); st.verb == "after" && err == nil {
			sum += d * time.Duration(st.times)
		}
	}
	return sum
}

// tokensOf returns the tokens of a step.
func tokensOf(st step) (list []string) {
	switch st.verb {
	case "login":
		list = append(list, st.rest)
		if st.rest == "" {
			list[0] = "demo"
		}
	case "connect":
		list = append(list, st.rest)
	}
	const member = `"token":"`
	for rest := st.rest; ; {
		i := strings.Index(rest, member)
		if i < 0 {
			return list
		}
		rest = rest[i+len(member):]
		token, _, _ := strings.Cut(rest, `"`)
		list = append(list, token)
	}
}
