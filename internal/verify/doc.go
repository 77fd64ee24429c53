// Package verify holds market data against its own rules: it rebuilds the books of a
// stream and says what in it cannot be true.
//
//	v := verify.New(verify.Config{Instruments: definitions})
//	v.Message(line, received, &message)   // for each
//	report := v.Report()
//	report.WriteText(os.Stdout)
//
// A [Verifier] takes messages of the protocol; a [Sink] takes the events of any feed; [Recording]
// and [Journal] read files. What is checked are the constants of [Check]:
// that book updates chain (L), that checksums (K) are those of the books, that books are not crossed
// while the market is open, that quotes are the top of the book, that trades, status and bars are
// numbered without holes, that cancels and corrections name the trade they are of, that bars are
// what their trades add up to, that levels are in order, and that no time goes back. Trades may
// come late; they are a figure of the report.
//
// A check that lacks what it would be held against (a checksum without the decimals of its
// instrument, a book before its first whole state, a cancel of a trade before the recording began) counts as
// unjudged, not as good. So does, at the end, what another channel could still have excused. A hole
// that the server itself told of is a note, not a finding.
//
// Memory is bounded: books, the newest 50,000 trades of an instrument, a few seconds of quotes, and
// the first findings of each check.
//
// # Concurrency
//
// A Verifier belongs to one goroutine. A Sink is safe for concurrent use, as package feed asks.
package verify
