package socket

import "net"

// Serve serves a connection that needs no handshake, such as one end of a net.Pipe. After an error
// the caller keeps the connection.
func (s *Server) Serve(nc net.Conn, peer Peer) error {
	c := s.newConn(peer)
	if err := s.acquireSlot(c); err != nil {
		return err
	}
	s.attach(c, nc, nil, nil)
	return nil
}
