package server

import (
	"embed"
	"slices"
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
	testdata.Conversation
	isLive bool // the form for any development gateway
}

// step is one line.
type step = testdata.Step

// Conversations returns all conversations, in the order of their names.
func Conversations() ([]Conversation, error) {
	list, err := testdata.Load(testdata.Conversations)
	if err != nil {
		return nil, err
	}
	all := make([]Conversation, len(list))
	for i, c := range list {
		text, err := live.ReadFile("live/" + c.Name + ".talk")
		if all[i] = (Conversation{c, err == nil}); err != nil {
			continue
		}
		if all[i].Conversation, err = testdata.Parse(c.Name, string(text)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// isEvent reports whether a step is an event of the market.
func isEvent(st *step) bool {
	return slices.Contains([]string{"trade", "late", "cancel", "correct", "reference", "quote", "book", "status", "list", "flood"}, st.Verb)
}

// expectsData reports whether a step expects market data.
func expectsData(st *step) bool {
	kind, ok := strings.CutPrefix(st.Rest, `{"type":"`)
	kind, _, _ = strings.Cut(kind, `"`)
	return st.Verb == "many" || st.Verb == "<" && ok && (len(kind) == 1 || kind == "Alive")
}

// tokensOf returns the tokens of a step.
func tokensOf(st step) (list []string) {
	switch st.Verb {
	case "login":
		list = append(list, st.Rest)
		if st.Rest == "" {
			list[0] = "demo"
		}
	case "connect":
		list = append(list, st.Rest)
	}
	const member = `"token":"`
	for rest := st.Rest; ; {
		i := strings.Index(rest, member)
		if i < 0 {
			return list
		}
		rest = rest[i+len(member):]
		token, _, _ := strings.Cut(rest, `"`)
		list = append(list, token)
	}
}
