package stream

import (
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/wire"
)

// AppendRow appends the payload of the message that a row of the journal was kept of, byte for
// byte as it was told; of rows that are no such message (books, checkpoints) nothing. ident is
// that of the row's instrument.
func AppendRow(b []byte, ident wire.Ident, r *journal.Row) []byte {
	switch r.Kind {
	case journal.Trade, journal.Cancel, journal.Correct, journal.Status, journal.Bar:
		t := rowOf(r)
		return t.message(b, ident, r.N)
	case journal.Quote:
		h := wire.Header{Ident: ident, N: r.N, Time: r.Time, Latency: r.Latency}
		return wire.AppendQuote(b, &h, first(r.Bids), first(r.Asks), false)
	}
	return b
}
