// Package session is one client's protocol: authentication, heartbeat,
// subscriptions, limits, slow clients, notices, errors and closes. It is the only
// place with close codes.
//
// A [Session] is a pure state machine. It is fed with messages and times, never
// blocks, reads no clock and starts no goroutine. Whoever has the connection, the
// host, runs it like this:
//
//	s.Start(env, peer, shard, conn, now)
//
//	s.Text(now, msg)       // a message came; also Binary, TooBig
//	s.Tick(now)            // s.Deadline() has passed
//	s.Notify(now, notice)  // Host.Post handed a notice over
//	s.Wrote(now, n)        // the kernel took n bytes more of what was left
//
// and after each of these looks at what the session wants:
//
//	token, _, ok := s.TakeToken()            // call env.Verify elsewhere, then s.Verified
//	b := s.Gather(now, buf[:0], max)         // if all before was taken
//	s.Sent(now, len(b), n)                   // the kernel took n of them at once
//	code, reason, ok := s.Close()            // after the last output: close frame, end
//	s.Reset()                                // after Tick: reset the connection, and no more
//	s.Deadline()                             // set the timer
//
// and in the end, always, calls s.PeerGone().
//
// # Times
//
// Every time given must carry the monotonic clock. Heartbeat, rates and the
// measures of slowness live by it alone. The end of a token is a time of the
// wall clock and is compared with that.
//
// # Rights
//
// What may be had is judged when something is subscribed, by the rights that hold at that moment. What is in the set is
// judged again when the rights change, and when one of them begins or ends: the session wakes for that as it does for a
// ping. Then what is no longer allowed goes out of the set, and what is to be had sooner or later than it was moves to
// the topics of another delay (see stream.Subscriber.Change).
//
// # Output
//
// Control messages (answers, pings, warnings) wait in the session and go out first;
// data goes straight from the stream's rings into the host's buffer. Both are
// bounded: see Env.MaxWaiting. An Error goes before every close.
//
// # Slow clients
//
// While output does not come to rest, the session measures now and then what lies
// behind the socket. Output held up for Env.SlowAfter begins the slow state: waiting
// quotes, summaries and books collapse to their newest state (policy conflate) and a Warning
// tells. What may not be dropped is bounded by bytes and by age; past either the
// session ends with slow_client and the client resumes.
//
// # Faults on request
//
// On a development gateway (Env.Fault) a client may ask for what it should be ready for. What is of its own
// connection lies between the stream and Gather, behind a pointer that is nil for all others; see sim.go.
//
// # Concurrency
//
// A Session belongs to one goroutine. [Env] is read by all and changed by none. The
// [Registry] has one mutex of its own and may be called by anyone; it calls
// Host.Post with its mutex held, so a Post must neither block nor call back. No
// other lock is taken here, but for the stream's inside of it; the registry's is
// never held while calling the stream.
package session
