package peers

import (
	"encoding/json"
	"slices"
	"time"
)

// Session is a session of a user, as the nodes describe it to each other.
type Session struct {
	Since   int64  `json:"t"`           // its place in the order of sessions
	Name    string `json:"n,omitempty"` // "": none
	Claimed int64  `json:"c,omitempty"` // place of its claim of the name
}

// user has all sessions of a user on one node.
type user struct {
	ID       string    `json:"u"`
	Sessions []Session `json:"s"`
}

// message is what a node sends to all others.
type message struct {
	Node   string `json:"node"`
	Start  uint64 `json:"start"`  // of the process: another one after a restart
	Change uint64 `json:"change"` // number of the newest change that the message includes
	Clock  int64  `json:"clock"`  // the newest place that the node has given or heard
	Kind   kind   `json:"kind"`
	Users  []user `json:"users,omitempty"`
	Part   int    `json:"part,omitempty"` // of a whole list, from 0
	Last   bool   `json:"last,omitempty"` // it is the last part
	To     string `json:"to,omitempty"`   // the node that is asked
}

// kind says what a message is.
type kind string

const (
	beat   kind = "beat"   // the node lives, and Change is the newest change
	change kind = "change" // the lists of some users have changed
	whole  kind = "whole"  // a part of all lists
	ask    kind = "ask"    // a request for all lists of a node
)

// Limits of what is read. A node ignores what exceeds them.
const (
	maxNodes    = 1024
	maxSessions = 4096    // of a user on a node
	maxKnown    = 1 << 20 // sessions and users of all other nodes together
	maxText     = 255     // bytes of a name or a user id
	maxPlace    = 1 << 62 // of the order of sessions; a clock reaches it in the year 2116
)

// maxAhead is how far the clock of another node may be ahead of this machine's, in ns. A
// clock that is further ahead does not move that of this node, which could not go back later.
const maxAhead = int64(24 * time.Hour)

// pieceBytes is about the largest size of a message.
const pieceBytes = 128 << 10

// read decodes a message. ok is false for one that no node of a cluster sends.
func read(data []byte) (m message, ok bool) {
	if json.Unmarshal(data, &m) != nil || m.Node == "" || m.Clock < 0 || m.Clock >= maxPlace || m.Part < 0 || len(m.Node) > maxText {
		return m, false
	}
	for i := range m.Users {
		list := m.Users[i].Sessions
		bad := func(s Session) bool {
			return s.Since < 0 || s.Since >= maxPlace || s.Claimed < 0 || s.Claimed >= maxPlace || len(s.Name) > maxText
		}
		if len(m.Users[i].ID) > maxText || len(list) > maxSessions || slices.ContainsFunc(list, bad) {
			return m, false
		}
	}
	return m, true
}

// pieces cuts a list of users so that each piece fits into a message.
func pieces(list []user) (cut [][]user) {
	bytes, begin := 0, 0
	for i := range list {
		size := len(list[i].ID) + 16
		for _, s := range list[i].Sessions {
			size += len(s.Name) + 64
		}
		if bytes += size; bytes > pieceBytes && i > begin {
			cut, begin, bytes = append(cut, list[begin:i]), i, size
		}
	}
	return append(cut, list[begin:])
}
