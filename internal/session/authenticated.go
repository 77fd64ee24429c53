package session

// Authenticated says whether a good token has come.
func (s *Session) Authenticated() bool { return s.known }
