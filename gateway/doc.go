// Package gateway puts a gateway together and runs it. It is what a main of one's own
// imports:
//
//	g, err := gateway.New(gateway.Config{
//		Users: myUsers, Accounts: myAccounts, // broker.Users, broker.Accounts
//		Feeds: []gateway.Feed{{Name: "exchange", Source: myFeed}}, // feed.Source
//	})
//	if err != nil { ... }
//	err = g.Run(ctx)
//
// The way of a trade (feeds, hours, hub, sessions, sockets) and the way of a login (REST,
// auth, user base, store) meet here and nowhere else: in verify, which tells a
// session whose token it was given, and in the hooks by which auth ends and extends sessions.
//
// # Feeds
//
// Each Feed runs under a supervisor that starts it again when it fails, tells its
// markets feed_down and feed_up, and keeps its panics from everything else.
// A gateway is ready when every feed has given its first events or has failed.
//
// # Hours
//
// Markets with a schedule have their status published by it: the market's as a whole,
// and that of each instrument. A feed that gives statuses itself wants a market without one.
//
// # End
//
// When the context of Run ends: readiness turns to 503, each client is sent away at its own
// moment of the drain window, and is fed until then; then sockets, requests and feeds end.
//
// # Concurrency
//
// A Gateway is for one Run, on its caller's goroutine. Run starts three crews of goroutines,
// for what feeds sockets, for requests and for sockets, ends them in the opposite order, and
// waits for each. Everything it ties together is safe for concurrent use by itself.
package gateway
