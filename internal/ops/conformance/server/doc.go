// Package server runs the conversations of the protocol against a gateway that it knows only by its
// address, and judges the answers.
//
//	all, err := server.Conversations()
//	gateway, err := server.Open(ctx, server.Config{URL: url, Demo: login})
//	err = server.RunAll(ctx, gateway, all, 6, print)
//
// docs/conversations.md shows the conversations and explains their notation. Only what a client can
// do is run. A conversation may need a setting of the gateway, an event of the market, or a user
// with certain rights. It is not run, and its Result says why.
//
// # What is compared
//
// A message must have the members of the pattern with their values, in any order. Further members
// are allowed, because clients ignore them. The texts for people (msg and hint), versions, times,
// epochs and positions may be others. Market data and Alive marks that come in between are ignored,
// because the market of the gateway goes on. Times of the script pass in real time.
//
// # Concurrency
//
// RunAll has a goroutine for each conversation that runs at the same time as others, and one for
// each connection. They end before it returns.
package server
