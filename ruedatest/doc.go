// Package ruedatest runs a gateway inside a test, so that a bot or a client can be tested with the
// real protocol, offline and within milliseconds:
//
//	func TestBot(t *testing.T) {
//		s := ruedatest.Start(t, ruedatest.Config{})
//		s.Define(market.Instrument{ID: ggal, PriceDecimals: 2})
//		bot := startBot(s.URL, s.Username, s.Password)
//		s.Trade("GGAL|BYMA|24hs", "7050", "10")
//		...
//	}
//
// The market is scripted: the test publishes every event. With Config.Sim it is simulated instead.
// The gateway listens on a random port of 127.0.0.1, keeps its journal in a folder of the test, and
// has one user with all rights. Faults are those of docs/faults.md, and Restart restarts the
// gateway at the same address.
//
// # Concurrency
//
// The methods of a Server are safe for concurrent use, except that Stop and Restart must not be
// called at the same time. A gateway runs on goroutines that have ended when Stop returns; the end
// of the test calls Stop.
package ruedatest
