package socket

import "github.com/ruedahq/rueda/internal/engine/session"

// Limits are the fields of Config that may change while the server runs, with the same defaults.
type Limits struct {
	MaxOpen, MaxUnauthenticatedPerAddress, HandshakeBurst int

	Sessions session.Limits // MessageBytes is MaxMessage
}

// SetLimits replaces limits. Connections above them stay open. Any goroutine may call it.
func (s *Server) SetLimits(l Limits) {
	c := Config{MaxOpen: l.MaxOpen, MaxUnauthenticatedPerAddress: l.MaxUnauthenticatedPerAddress, HandshakeBurst: l.HandshakeBurst, MaxMessage: l.Sessions.MessageBytes}
	c.fill()
	s.handshakeLimiter.setRate(s.cfg.HandshakeRate, c.HandshakeBurst)
	s.tlsLimiter.SetLimits(c.HandshakeBurst, s.cfg.HandshakeRate, tlsPerUpgrade*c.HandshakeBurst)
	s.slots.setLimits(&c)
	s.maxMessage.Store(int64(c.MaxMessage))
	s.cfg.Env.SetLimits(l.Sessions)
}

func (s *connSlots) setLimits(c *Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.maxOpen, s.maxUnauthenticated, s.maxPerAddress = c.MaxOpen, c.MaxUnauthenticated, c.MaxUnauthenticatedPerAddress
}
