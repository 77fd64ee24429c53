// Package client implements the client side of a gateway: login, tokens that are refreshed,
// requests and the socket of the stream. The commands that talk to a gateway use it.
//
//	api, err := client.New("https://api.broker.example", "program/1.0")
//	a := &client.Account{API: api, Username: "ana", Password: password}
//	token, err := a.Access(ctx)       // logs in, refreshes, or returns the current token
//	conn, err := a.API.Dial(ctx)      // the stream; send the token first
//	go a.KeepFresh(ctx)               // while the socket is open
//
// An error answer of the server is a [*ResponseError]. [PlainError] describes a failed connection.
// [Backoff] computes the time between attempts.
//
// # Concurrency
//
// An [API] and an [Account] are safe for concurrent use and start no goroutines. KeepFresh runs on
// the caller's goroutine until its context ends.
package client
