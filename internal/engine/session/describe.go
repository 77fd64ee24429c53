package session

import "time"

// Description describes a session for operators.
type Description struct {
	Info
	Username string // for people; "": the session has not authenticated
	Family   string // of the token: the id of the login
	Name     string // that the client gave to the session; "": none
	State    State

	Subscriptions int // identifiers
	Backlog       int // bytes that wait for the client: messages, and output that the kernel has not accepted
}

// Describe returns the description of a session now. Its cost grows with the subscriptions that
// wait for the client.
func Describe(s *Session, now time.Time) Description {
	d := Description{
		Info: InfoOf(s, now), Name: s.entry.sessionName(), State: s.State(),
		Subscriptions: s.sub.Len(), Backlog: s.sub.Backlog() + s.optional.controlBytes(),
	}
	if id := s.entry.identity; id != nil {
		d.Username, d.Family = id.Username, id.Family
	}
	if s.out != nil {
		d.Backlog += s.out.unsent + s.out.hostUnsent
	}
	return d
}

// String returns the name of a state.
func (s State) String() string {
	return [...]string{"awaiting_token", "checking_token", "live", "draining", "closed"}[s]
}
