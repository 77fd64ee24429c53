// Package client is a client of a gateway, for bots: REST and the stream of docs/protocol.md.
//
//	c, err := client.New([]string{"https://api.broker.example"}, client.Options{
//		Username: "ana", Password: password, Tokens: client.FileStore("tokens.json"),
//	})
//	...
//	err = c.Subscribe(client.Set{Trades: []string{"GGAL|BYMA|24hs"}})
//	...
//	for ev := range c.Events(ctx) {
//		switch ev := ev.(type) {
//		case *client.Trade:
//			fmt.Println(ev.Instrument, ev.N, ev.Price, ev.Size)
//		case client.Lost:
//			log.Print(ev)
//		}
//	}
//	return c.Err()
//
// docs/go-client.md is an introduction.
//
// # The stream
//
// Subscribe and Unsubscribe edit one desired set, at any time. While the program iterates over
// Events, the client is connected: it logs in, connects, subscribes to the set, and follows its
// changes. When the connection ends, it connects again, to the next URL, after a random wait that
// grows with each failure or as long as the gateway asks. It ends only with its context, with the
// loop, or with an error that another attempt cannot repair. Another attempt follows an error of
// the network, an invalid message, an expired access token, a failure of the gateway (408 and 5xx),
// or a request to wait (429). It also follows an error with Retry. Every other error ends the
// stream, such as wrong credentials or an error of Options.OTP.
//
// Trades, statuses and bars arrive in order of N, each once. After a failure the client resumes:
// the gateway sends what was missed, which the events Recovered report. A gap on a working
// connection is filled from history. What neither has is reported as Lost, with its range, before
// the event that follows it. When the gateway begins a new epoch, N begins again after a Lost with
// the reason epoch_changed. What history has of both epochs is delivered. Quotes, books and
// summaries continue with their newest state. The order of the events of an instrument is that of
// the gateway.
//
// Events wait in a bounded queue. Options.Overflow says what happens when the program is slower.
//
// # Tokens
//
// One goroutine renews the tokens for all, at about 80 % of the life of the access token, and
// authenticates the open stream again. A new refresh token is stored before it is used, so that a
// crash does not end the login. Times are counted on this machine from the request, so that its
// clock may be wrong.
//
// # Books
//
// The client applies updates to its own Book of each instrument, and checks chain and checksum.
// When one is wrong, it reports BookInvalid, requests a new snapshot and drops the updates before
// it. Client.Book returns a copy, or ErrInvalidBook while the book is not known.
//
// # Errors
//
// What a gateway refuses is an *Error with a Reason, a word of package wire. ReasonOf finds it in
// an error.
//
// # Concurrency
//
// A Client is safe for concurrent use. It has no goroutines of its own: Events starts one, the
// engine, and waits for it when the loop ends. The engine owns the connection and all progress. For
// each connection it starts a goroutine that reads messages and handles them, until the buffer of
// the connection is empty; link.turn says which of the two acts. The engine alone writes, so that
// the other one always reads. It starts further goroutines that renew tokens and read history, and
// waits for them at the end of the connection; they send it functions to call. Client.mu guards
// what the engine shares with other goroutines: the desired set, the queue, the books and the
// health. Events are queued together, and the loop takes a few together. A lock of its own guards
// those and what the program has processed; it is taken first. A goroutine that waits for the
// program holds link.turn alone. One loop over Events is in use at a time.
package client
