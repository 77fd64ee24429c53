package server

import (
	"bufio"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/session/testdata"
)

// Conversation is a script of what a client and a gateway say.
type Conversation struct {
	Name  string
	Rule  string // what it shows
	steps []step
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
		text, err := testdata.Conversations.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read a conversation: %w", err)
		}
		all = append(all, parse(strings.TrimSuffix(name, ".talk"), string(text)))
	}
	return all, nil
}

// parse reads a conversation, which package internal/session/talk has checked in tests.
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
			c.steps = append(c.steps, parseStep(n, line))
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

// duration returns the sum of the waits of a conversation.
func (c *Conversation) duration() (sum time.Duration) {
	for _, st := range c.steps {
		if d, err := time.ParseDuration(st.rest); st.verb == "after" && err == nil {
			sum += d * time.Duration(st.times)
		}
	}
	return sum
}

// needs returns what a conversation needs that a client cannot have, "" if it can be run.
func (c *Conversation) needs(g *Gateway) string {
	switch c.Name {
	case "rate-start", "subscribe-unsupported-option": // start is refused
		return "a gateway without a journal"
	}
	for _, st := range c.steps {
		switch st.verb {
		case ">", "<", "closed", "nothing", "after", "offer", "send", "silent", "hang":
		case "login", "connect":
		case "trade", "late", "cancel", "correct", "reference", "quote", "book", "status", "list":
			return "events of the market"
		case "stop", "read":
			return "a client that stops reading"
		case "set", "drain":
			return "a setting of the gateway: " + st.verb + " " + st.rest
		default:
			return "a user or token with other rights: " + st.verb + " " + st.rest
		}
		for _, token := range tokensOf(st) {
			if g.tokens[token] == "" && slices.Contains([]string{"demo", "demo2", "basic", "expired", "revoked", "overloaded"}, token) {
				return "the token " + token
			}
		}
		for _, id := range []string{ggal24, ggalCI, al30CI, fakeCI, indexCI} {
			if strings.Contains(st.rest, id) && g.instruments[id] == "" {
				return "an instrument in place of " + id
			}
		}
	}
	return ""
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
