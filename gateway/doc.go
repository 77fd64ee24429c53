// Package gateway assembles a gateway and runs it. Import it to build your own server:
//
//	g, err := gateway.New(ctx, gateway.Config{
//		Users: myUsers, Accounts: myAccounts, // broker.Users, broker.Accounts
//		Feeds: []gateway.Feed{{Name: "exchange", Source: myFeed}}, // feed.Source
//	})
//	if err != nil { ... }
//	err = g.Run(ctx)
//
// The path of a trade (feeds, hours, hub, sessions, sockets) and the path of a login (REST, auth,
// user base, store) meet only here. One place is verify, which returns the identity of a token to a
// session. The others are the hooks by which auth ends and extends sessions.
//
// # Feeds
//
// Each Feed runs under a supervisor that restarts it after a failure, publishes feed_down and
// feed_up for its markets, and recovers its panics. A gateway is ready when every feed has
// published its first events or has failed.
//
// # Hours
//
// The schedule of a market publishes its status and that of each instrument. A feed that publishes
// statuses itself needs a market without a schedule.
//
// # End
//
// When the context of Run ends, readiness becomes 503. Each client is disconnected at its own time
// in the drain window and receives data until then. Then sockets, requests and feeds end.
//
// # Concurrency
//
// A Gateway is for one Run, on the goroutine of its caller. Run starts three groups of goroutines,
// for market and users, for requests and for sockets. It ends them in the opposite order and waits
// for each. All parts are safe for concurrent use by themselves.
package gateway
