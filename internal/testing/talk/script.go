package talk

import (
	"fmt"
	"io/fs"
	"slices"

	"github.com/ruedahq/rueda/internal/engine/session/testdata"
)

// Script is a conversation whose verbs are all known.
type Script struct{ testdata.Conversation }

type step = testdata.Step

// Load reads all *.talk files of a folder, in the order of their names.
func Load(fsys fs.FS) ([]*Script, error) {
	list, err := testdata.Load(fsys)
	if err != nil {
		return nil, err
	}
	var all []*Script
	for _, c := range list {
		s, err := newScript(c)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Parse reads a conversation.
func Parse(name, text string) (*Script, error) {
	c, err := testdata.Parse(name, text)
	if err != nil {
		return nil, err
	}
	return newScript(c)
}

// newScript returns an error for an unknown verb.
func newScript(c testdata.Conversation) (*Script, error) {
	known := verbs()
	for _, st := range c.Steps {
		if known[st.Verb] == nil {
			return nil, fmt.Errorf("%s.talk:%d: unknown step %q", c.Name, st.Line, st.Verb)
		}
	}
	return &Script{c}, nil
}

// Stalls reports whether a client of the conversation stops reading. Its Conn must then be a
// Staller.
func (s *Script) Stalls() bool {
	return slices.ContainsFunc(s.Steps, func(st step) bool { return st.Verb == "stop" })
}
