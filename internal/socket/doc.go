// Package socket carries the stream's sessions over WebSocket: bytes in, bytes
// out. It knows RFC 6455, HTTP's upgrade, TLS and sockets, and nothing of what the
// messages mean; that is package session.
//
// Three parts stand by themselves. [Parser] takes bytes apart into messages; it
// does no I/O. The check of a handshake is a function of the request's parts.
// And a [Server] moves bytes between sockets and sessions. On Linux it listens
// itself, and gives to net/http what is not for the stream:
//
//	s := socket.New(socket.Config{Env: env, Hub: hub})
//	mux.Handle("/stream", s)
//	addr, err := s.Listen(ctx, "127.0.0.1:8080", nil)
//	go http.Serve(s.Requests(), mux)
//	err = s.Run(ctx)
//
// Elsewhere it is an http.Handler that hijacks its connections, and takes ready ones
// with [Server.Serve], such as one end of a net.Pipe.
//
// # Lines and pumps
//
// A connection comes in two kinds. A line is a socket on the poller of its shard, in the
// clear or with TLS; it has no goroutine, timer or channel, and what few lines
// have at a time is behind a pointer. A pump is a net.Conn with one goroutine to read and
// one to write, that do nothing but move bytes. Both have the same parser,
// session and closing handshake.
//
// # Handshake
//
// What is not a usual handshake for the stream, and any that is at fault, goes to net/http with the
// bytes that were read; ServeHTTP refuses it with the error envelope of REST. An address
// may make a burst of handshakes, and hold so many connections that have not authenticated; past
// a bound on those in all, the oldest makes room, as it does among those that send no request.
//
// # Output
//
// A session is asked for output only when everything it gave before is with the
// kernel. So what waits for a slow peer waits in the stream's rings, where it can
// be conflated, and a connection holds one buffer of about 64 KiB at most.
// The answer to the handshake, and what TLS says by itself, wait there too: the session is told
// how much. The pong to a ping waits among the session's answers, in the order of what was asked.
// Nothing is read of a peer while a pong, or what TLS has to say, waits for its full socket.
//
// What was published goes out in sweeps, one write a connection: at once where the shard is idle,
// and else one every Config.FlushInterval. What a session says of itself never waits for one.
//
// # Close
//
// When the session is over, its last output and the close frame are written and
// the peer has two seconds in all to take them and answer; then the connection is
// reset. A peer that closes gets its close code back. A violation of RFC 6455
// closes with 1002 or 1007. The answers to what came before either go out first. A peer that vanishes is noticed by the session's heartbeat.
//
// # Faults
//
// Every system call of a line is made by kernel, and any of them may fail: the connection ends, or
// goes on where the error is one that passes. A panic in the work for one connection ends that
// one, with Error 500 and 4500 where its session lives, is logged with its stack, and counted in
// Stats. It is not caught where the shard works for all; and the hub's own code, which panics with
// its lock held, ends the process.
//
// # Concurrency
//
// A connection belongs to one shard for life. The shard is a goroutine that owns
// the connection's session, parser and all fields of its conn, but for those that pump and
// opening name. It waits in its poller or, without one, for a channel. Everything else reaches
// it through its inbox, which never blocks the sender: pumps hand over one buffer at a
// time and wait until it is used up, so a peer that sends fast is held up by its own socket.
//
// Token checks run on a bounded set of goroutines. The handshake of TLS has one, which owns the
// socket until it is done or, where the shard has let go of it before, until it has closed it.
//
// Locks, innermost last: the registry's and the hub's of other packages, then one
// of shard.mu, seats.mu, checks.mu and gate.mu, of which none is held while
// another is taken; the poller's may be under any. Nothing blocks under any of them.
//
// [Server.Run] starts the shards and returns when every goroutine has ended.
package socket
