// Package session is the protocol of one client: authentication, heartbeat, subscriptions, limits,
// slow consumers, warnings, errors and closes. It is the only place with close codes.
//
// A [Session] is a state machine (see [State]). It gets events and times, never blocks, reads no
// clock and starts no goroutine. The host, which has the connection, runs it like this:
//
//	s.Start(env, peer, shard, host, now)
//
//	s.Handle(now, Event{Kind: Text, Message: msg}) // a message came; also Binary, TooBig
//	s.Handle(now, Event{Kind: Timer})              // s.Deadline() has passed
//	s.Handle(now, e)                               // Host.Post passed e
//	s.Wrote(now, n)                                // the kernel has accepted n bytes more
//
// and after each of these does what the session needs:
//
//	token, _, ok := s.TakeToken()        // call env.Verify elsewhere, then Handle Verified
//	b := s.Output(now, buf[:0], max)     // if the previous output was accepted
//	s.Sent(now, len(b), n)               // the kernel has accepted n bytes of it at once
//	code, reason, ok := s.Close()        // after the last output: close frame, end
//	s.Reset()                            // after Timer: reset the connection
//	s.Deadline()                         // set the timer
//
// At the end it always calls s.PeerGone().
//
// Package socket has the hosts: the event loop, connections with two goroutines, and connections
// inside the process for server-sent events.
//
// # Times
//
// Every time must have the monotonic clock. The heartbeat, rates and the detection of slow
// consumers use only that. The end of a token is a time of the wall clock and is compared with it.
//
// # Rights
//
// A subscribe checks the rights at that time. The subscriptions are checked again when the rights
// change, and when one of them begins or ends, for which the session sets a deadline. Subscriptions
// that are no longer allowed are removed. Those that are allowed with another delay move to the
// topics of that delay (see subscription.Subscriber.Change).
//
// # Work
//
// Messages pay for the work that they cause, from an allowance of their user on all connections
// (price.go). The Registry keeps what has not recovered. In debt, messages with work are refused.
// Long messages are handled in pieces, between which the host serves other connections (pieces.go).
//
// # Output
//
// Control messages (answers, pings, warnings) wait in the session and are sent first. Data goes
// from the rings of the stream into the host's buffer. Both are bounded by Env.MaxWaiting. An Error
// precedes every close.
//
// # Slow consumers
//
// While output waits, the session measures the backlog of its client from time to time. Output that
// has waited for Env.SlowAfter starts the slow state: a Warning is sent, and waiting quotes,
// summaries and books are conflated (policy conflate). Messages that must not be dropped are
// limited by bytes and by age. Above either limit the session ends with slow_client, and the client
// can resume.
//
// # Simulated faults
//
// On a development gateway (Env.Fault) a client may request faults to test itself. Those of its own
// connection change the output of the stream in Output; see sim.go.
//
// # Concurrency
//
// A Session belongs to one goroutine, which also resumes the coroutine of a message in pieces.
// [Env] is shared and not changed. The [Registry] has a mutex, and any goroutine may call it. It
// calls Host.Post with its mutex held, so that a Post must neither block nor call back. The only
// other lock is the hub's, which package subscription takes. The registry's mutex is never held
// during a call of that package.
package session
