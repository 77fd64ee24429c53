// Package socket serves the sessions of the stream over WebSocket. It implements RFC 6455, the HTTP
// upgrade, TLS and socket I/O. It does not interpret messages: that is package session.
//
// [Parser] splits bytes into messages and does no I/O. A [Server] moves bytes between sockets and
// sessions. On Linux it has its own listeners, and passes connections that are not for the stream
// to net/http:
//
//	s := socket.New(socket.Config{Env: env, Hub: hub})
//	mux.Handle("/stream", s)
//	addr, err := s.Listen(ctx, "127.0.0.1:8080", nil)
//	go http.Serve(s.Requests(), mux)
//	err = s.Run(ctx)
//
// On other systems it is an http.Handler that hijacks connections. [Server.Open] opens a connection
// inside the process, for clients of another protocol such as server-sent events.
//
// # Transports
//
// A connection has one of two transports. On the event loop it is a socket in the poller of its
// shard, with or without TLS. It has no goroutine, timer or channel of its own, and state that few
// connections need at a time is behind a pointer. A netConn is a net.Conn with one goroutine that
// reads and one that writes. Parser, session and closing handshake are the same for both. A
// [LocalConn] passes whole messages and frames, and so needs no parser.
//
// # Handshake
//
// Unusual or invalid handshakes go to net/http with the bytes that were read; ServeHTTP refuses
// them with the error envelope of REST. An address has a limit of handshakes (a burst and a rate)
// and of unauthenticated connections. Above the limit of all unauthenticated connections the
// oldest one is closed, and so is the oldest connection that has not sent its request.
//
// # Input
//
// Everything that a peer sends uses up the input budget of its connection, between one frame and
// the next. Past it the connection is paused: its socket is not read for up to a second, and what
// was read already waits. Output is not affected. A LocalConn has no budget, because its messages
// are made by the gateway.
//
// # Output
//
// A session is asked for output only after the kernel has accepted all of its previous output.
// Messages for a slow peer therefore wait in the rings of the stream, where they can be conflated,
// and a connection buffers about 64 KiB at most. The response to the handshake and records of TLS
// share that buffer; the session gets their size. Pongs wait in order among the answers of the
// session. While a pong or a TLS record waits for a full socket, nothing is read from that peer.
//
// Published messages are written by a flush, with one write for each connection. An idle shard
// flushes immediately, a busy one once every Config.FlushInterval. Answers of a session do not
// wait for a flush.
//
// # Close
//
// When a session is over, its last output and the close frame are written. The peer has two
// seconds (Config.CloseTimeout) to read them and answer; then the connection is reset. A peer that
// closes gets its close code back. A violation of RFC 6455 closes with 1002 or 1007, after the
// answers to earlier messages. The heartbeat of the session detects peers that vanish.
//
// # Faults
//
// Type kernel makes every system call of the event loop, and each may fail. A temporary error is
// retried; any other ends the connection. A panic in the work for one connection ends that
// connection (Error 500, close code 4500 if it has a session), is logged with its stack, and is
// counted in Stats. Panics in the work for all connections, and in the hub, end the process.
//
// # Concurrency
//
// A connection belongs to one shard for life. The goroutine of the shard owns the connection's
// session, parser and all fields of its conn, except for those that netConn and handshakeState
// name. It waits in its poller or, without one, for a channel. All other goroutines use its inbox,
// which never blocks. The reader of a netConn passes one buffer at a time and waits until it was
// used, so that a fast sender is slowed down by its own socket. A LocalConn belongs to the
// goroutine of its client.
//
// Token checks run on a bounded set of goroutines. A TLS handshake has a goroutine that owns the
// socket until the handshake is over. If the shard has abandoned the connection by then, that
// goroutine closes the socket.
//
// Lock order: the locks of the registry and the hub (other packages), then one of inbox.mu,
// connSlots.mu and those of verifier.Pool and handshakeLimiter, then poller.mu. None of the four is
// held while another of them is acquired, and nothing blocks under any of them.
//
// [Server.Run] starts the shards and returns when every goroutine has ended.
package socket
