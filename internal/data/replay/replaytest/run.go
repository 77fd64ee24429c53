package replaytest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/data/replay/decode"
	"github.com/ruedahq/rueda/market"
)

// Decoder is the interface described in package decode.
type Decoder interface {
	Decode(data []byte, b *decode.Batch) (n int, err error)
	End(rest []byte, b *decode.Batch) error
}

// Decoded is the result of decoding a file.
type Decoded struct {
	Events []market.Event
	Groups []int // number of events up to each cut
	Listed []market.Instrument
	Notes  []decode.Note
	Stats  decode.Stats
	Offset int // of the end, or of the error
	Err    error
}

// Run feeds a file to a decoder in pieces of some size; 0 means all at once.
func Run(d Decoder, data []byte, piece int) *Decoded {
	out := new(Decoded)
	var b decode.Batch
	if piece <= 0 {
		piece = max(1, len(data))
	}
	to := 0
	take := func() {
		n := 0
		if len(b.Cuts) > 0 {
			n = b.Cuts[len(b.Cuts)-1]
		}
		for _, c := range b.Cuts {
			out.Groups = append(out.Groups, len(out.Events)+c)
		}
		for _, e := range b.Events[:n] {
			e.Bids, e.Asks = slices.Clone(e.Bids), slices.Clone(e.Asks)
			out.Events = append(out.Events, e)
		}
		b.Reset()
	}
	for out.Err == nil {
		n, err := d.Decode(data[out.Offset:to], &b)
		if n < 0 || n > to-out.Offset {
			panic(fmt.Sprintf("decoder took %d bytes of %d", n, to-out.Offset))
		}
		out.Offset += n
		out.Err = err
		if err != nil {
			_ = d.End(nil, &b) // err is the error
			b.Cut()
		}
		take()
		if n > 0 || err != nil {
			continue
		}
		if to == len(data) {
			out.Err = d.End(data[out.Offset:], &b)
			b.Cut()
			take()
			break
		}
		to = min(len(data), to+piece)
	}
	out.Listed, out.Notes, out.Stats = b.Listed, b.Notes, b.Stats
	return out
}

// Describe describes an event in a few words. Its time is in ns since begin.
func (d *Decoded) Describe(e *market.Event, begin int64) string {
	var b strings.Builder
	names := [...]string{
		market.KindTrade: "trade", market.KindCancel: "cancel", market.KindCorrect: "correct", market.KindQuote: "quote",
		market.KindUpdate: "update", market.KindSnapshot: "snapshot", market.KindOrderAdd: "add", market.KindOrderModify: "modify",
		market.KindOrderDelete: "delete", market.KindOrderFill: "fill", market.KindStatus: "status", market.KindGap: "gap",
		market.KindReference: "reference", market.KindOrderReplace: "replace",
	}
	fmt.Fprintf(&b, "%s %s", d.Listed[e.Handle].ID.Symbol, names[e.Kind])
	side := [...]string{"", " buy", " sell"}[e.Side]
	switch e.Kind {
	case market.KindTrade, market.KindCancel:
		fmt.Fprintf(&b, " %q%s %s at %s", e.TradeID, side, e.Size, e.Price)
		if len(e.Conditions) > 0 {
			fmt.Fprintf(&b, " %v", e.Conditions)
		}
	case market.KindOrderAdd, market.KindOrderModify:
		fmt.Fprintf(&b, " %d%s %s at %s", e.OrderID, side, e.Size, e.Price)
	case market.KindOrderReplace:
		fmt.Fprintf(&b, " %d by %d %s at %s", e.OrderID, e.NewID, e.Size, e.Price)
	case market.KindOrderDelete:
		fmt.Fprintf(&b, " %d", e.OrderID)
	case market.KindOrderFill:
		fmt.Fprintf(&b, " %d %s", e.OrderID, e.Size)
	case market.KindStatus, market.KindGap:
		fmt.Fprintf(&b, " %s%s", e.Phase, strings.TrimRight(" "+e.Reason, " "))
	case market.KindReference:
		fmt.Fprintf(&b, " close %s, settlement %s", e.PreviousClose, e.Settlement)
	default:
		fmt.Fprintf(&b, " %s %s", sideText(e.Bids), sideText(e.Asks))
	}
	if e.Time != 0 {
		fmt.Fprintf(&b, " +%d", e.Time-begin)
	}
	return b.String()
}

func sideText(levels []market.Level) string {
	var out []string
	for _, l := range levels {
		s := l.Size.String() + "@" + l.Price.String()
		if l.Orders > 0 {
			s += fmt.Sprintf("/%d", l.Orders)
		}
		out = append(out, s)
	}
	return "[" + strings.Join(out, " ") + "]"
}

// Check returns an error if the events break the contract of feeds.
func (d *Decoded) Check() error {
	all := d.Stats.Used
	for _, n := range d.Stats.Skipped {
		all += n
	}
	if d.Err == nil && all != d.Stats.Lines {
		return fmt.Errorf("%d records, %d of which were used or skipped", d.Stats.Lines, all)
	}
	for i := range d.Events {
		e := &d.Events[i]
		if int(e.Handle) >= len(d.Listed) {
			return fmt.Errorf("event %d: handle %d of %d instruments", i, e.Handle, len(d.Listed))
		}
		if e.Time < 0 || e.Receive < 0 || e.Size < 0 || e.OldSize < 0 || e.OpenInterest < 0 {
			return fmt.Errorf("event %d: %+v", i, *e)
		}
		switch e.Kind {
		case market.KindTrade, market.KindCancel, market.KindOrderAdd, market.KindOrderModify, market.KindOrderFill, market.KindOrderReplace:
			if e.Size <= 0 {
				return fmt.Errorf("event %d: no size: %+v", i, *e)
			}
		case market.KindOrderDelete, market.KindGap, market.KindQuote, market.KindUpdate, market.KindReference:
		case market.KindStatus:
			if e.Phase.String() == "" {
				return fmt.Errorf("event %d: phase %d", i, e.Phase)
			}
		case market.KindSnapshot:
			if err := ordered(e); err != nil {
				return fmt.Errorf("event %d: %w", i, err)
			}
		default:
			return fmt.Errorf("event %d: kind %d", i, e.Kind)
		}
		if e.Kind == market.KindOrderAdd && e.Side == market.NoSide {
			return fmt.Errorf("event %d: an order without a side", i)
		}
	}
	for _, in := range d.Listed {
		if err := in.Validate(); err != nil && !in.ID.IsPattern() {
			return err
		}
	}
	return nil
}

func ordered(e *market.Event) error {
	for i := range e.Bids {
		if e.Bids[i].Size <= 0 || i > 0 && e.Bids[i].Price >= e.Bids[i-1].Price {
			return fmt.Errorf("bids %v", e.Bids)
		}
	}
	for i := range e.Asks {
		if e.Asks[i].Size <= 0 || i > 0 && e.Asks[i].Price <= e.Asks[i-1].Price {
			return fmt.Errorf("asks %v", e.Asks)
		}
	}
	return nil
}

// Equal returns an error if two books differ, down to a depth; 0 means all levels. It compares
// numbers of orders only if both books have them.
func Equal(got, want *market.Book, depth int) error {
	for _, s := range []market.Side{market.Buy, market.Sell} {
		g, w := got.Append(nil, s, depth), want.Append(nil, s, depth)
		if len(g) != len(w) {
			return fmt.Errorf("side %d has %d levels, want %d:\n%v\n%v", s, len(g), len(w), g, w)
		}
		for i := range g {
			if g[i].Orders == 0 || w[i].Orders == 0 {
				g[i].Orders, w[i].Orders = 0, 0
			}
			if g[i] != w[i] {
				return fmt.Errorf("side %d, level %d is %v, want %v", s, i, g[i], w[i])
			}
		}
	}
	return nil
}

// Mutants damages a file in n random ways and decodes each result in pieces. It returns an error if
// the decoded events break the contract of feeds.
func Mutants(seed uint64, n int, data []byte, decoder func() Decoder) error {
	rng := rand.New(rand.NewPCG(seed, 2))
	for range n {
		bad := Mutate(rng, data)
		if err := Run(decoder(), bad, 1+rng.IntN(2000)).Check(); err != nil {
			return fmt.Errorf("%w in a file of %d bytes: %x", err, len(bad), bad)
		}
	}
	return nil
}

// Mutate returns a copy of a file that is damaged in a few random places, a few bytes each.
func Mutate(rng *rand.Rand, data []byte) []byte {
	bad := slices.Clone(data)
	for range 1 + rng.IntN(4) {
		at := rng.IntN(len(bad))
		switch rng.IntN(6) {
		case 0:
			bad[at] ^= 1 << rng.IntN(8)
		case 1:
			bad[at] = [...]byte{0, 1, 0x7f, 0x80, 0xff, '0', '-', ','}[rng.IntN(8)]
		case 2: // remove bytes
			bad = slices.Delete(bad, at, min(len(bad), at+1+rng.IntN(100)))
		case 3: // duplicate bytes
			bad = slices.Insert(bad, at, slices.Clone(bad[at:min(len(bad), at+1+rng.IntN(100))])...)
		case 4: // truncate the file
			bad = bad[:at]
		default: // swap bytes
			other := rng.IntN(len(bad))
			bad[at], bad[other] = bad[other], bad[at]
		}
		if len(bad) == 0 {
			break
		}
	}
	return bad
}
