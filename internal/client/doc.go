// Package client is a gateway as its clients see it: where it is, how to log in, tokens that are kept
// fresh, requests and the stream's socket. The commands that talk to a gateway stand on it.
//
//	api, err := client.New("https://api.broker.example", "program/1.0")
//	a := &client.Account{API: api, Username: "ana", Password: password}
//	token, err := a.Access(ctx)       // logs in, or refreshes, or has one already
//	conn, err := a.API.Dial(ctx)      // the stream, where the token is the first thing to send
//	go a.Keep(ctx)                    // as long as the socket is open
//
// What the server answered instead is a [*Refusal]; of a connection that failed [Plain] says what happened.
// [Backoff] paces attempts.
//
// # Concurrency
//
// An [API] and an [Account] are for any number of goroutines, and start none. Keep runs on the
// caller's until its context ends.
package client
