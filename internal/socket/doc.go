// Package socket carries the stream's sessions over WebSocket: bytes in, bytes
// out. It knows RFC 6455, HTTP's upgrade and sockets, and nothing of what the
// messages mean; that is package session.
//
// Three parts stand by themselves. [Parser] takes bytes apart into messages; it
// does no I/O. The check of a handshake is a function of the request's parts.
// And a [Server] moves bytes between net.Conns and sessions. A Server is an
// http.Handler for the stream's path, and takes ready connections with
// [Server.Serve], such as one end of a net.Pipe:
//
//	s := socket.New(socket.Config{Env: env, Hub: hub})
//	mux.Handle("/stream", s)
//	err := s.Run(ctx)
//
// # Handshake
//
// A handshake is refused before anything is kept of it, with the error envelope
// of REST. An address may make a burst of handshakes, and hold so many
// connections that have not authenticated; past a bound on the latter in all, the
// oldest of them makes room. Extensions are declined.
//
// # Output
//
// A session is asked for output only when everything it gave before is with the
// kernel. So what waits for a slow peer waits in the stream's rings, where it can
// be conflated, and a connection holds one buffer of about 64 KiB at most, and
// none when it is idle. The kernel gets it in steps of 16 KiB, each of which is
// told to the session.
//
// # Close
//
// When the session is over, its last output and the close frame are written and
// the peer has two seconds in all to take them and answer; then the connection is
// reset. A peer that closes gets its close code back. A violation of RFC 6455
// closes with 1002 or 1007 at once. A peer that only vanishes is noticed by its
// socket or, if that tells nothing, by the session's heartbeat.
//
// # Concurrency
//
// A connection belongs to one shard for life. The shard is a goroutine that owns
// the connection's session, parser and all fields of its conn but those that are
// set before it starts. A connection has two more goroutines, a reader and a
// writer, that only move bytes: each hands over one buffer at a time and waits
// until it is used up, so a peer that sends fast is held up by its own socket.
// Everything reaches a shard through its inbox, which never blocks the sender.
// Token checks run on a bounded set of goroutines.
//
// Locks, innermost last: the registry's and the hub's of other packages, then one
// of shard.mu, seats.mu, checks.mu and gate.mu, of which none is held while
// another is taken. Nothing blocks under any of them.
//
// [Server.Run] starts the shards and returns when every goroutine has ended.
package socket
