package client

import (
	"fmt"
	"strings"
	"time"

	"github.com/ruedahq/rueda/market"
)

// text returns a line about market data: what it is, and its figures.
func (h *Header) text(kind, figures string) string {
	line := fmt.Sprintf("%s %s %d: %s at %s", kind, h.Instrument, h.N, figures, h.Time.UTC().Format(time.RFC3339Nano))
	if h.Replayed {
		line += ", replayed"
	}
	return line
}

// String returns a line with the kind, the price and the size.
func (t Trade) String() string {
	figures := fmt.Sprintf("%s x %s", t.Price, t.Size)
	switch t.Kind {
	case market.KindCancel:
		return t.text("cancel", figures)
	case market.KindCorrect:
		return t.text("correction", fmt.Sprintf("%s, was %s x %s", figures, t.OldPrice, t.OldSize))
	}
	return t.text("trade", figures)
}

// String returns a line with both sides.
func (q Quote) String() string { return q.text("quote", side(q.Bid)+" / "+side(q.Ask)) }

// side returns a side of a quote.
func side(l market.Level) string {
	if l.Size == 0 {
		return "none"
	}
	return fmt.Sprintf("%s x %s", l.Price, l.Size)
}

// String returns a line with the number of levels. Their prices are in Book.
func (u BookUpdate) String() string {
	what := "changes of"
	if u.Snapshot {
		what = "a snapshot of"
	}
	return u.text("book", fmt.Sprintf("%s %d bids and %d asks", what, len(u.Bids), len(u.Asks)))
}

// String returns a line with the phase and its reason.
func (s Status) String() string {
	return s.text("status", strings.TrimSpace(s.Phase.String()+" "+s.Reason))
}

// String returns a line with the prices and the volume of the day.
func (s Summary) String() string {
	if s.Trades == 0 {
		return s.text("summary", "no trades")
	}
	return s.text("summary", fmt.Sprintf("open %s high %s low %s last %s volume %s", s.Open, s.High, s.Low, s.Last, s.Volume.Append(nil, market.SizeDecimals)))
}

// String returns a line with the interval, the prices and the volume.
func (b Bar) String() string {
	figures := b.Interval.String() + " "
	if b.Trades == 0 {
		return b.text("bar", figures+"no trades")
	}
	figures += fmt.Sprintf("open %s high %s low %s close %s volume %s", b.Open, b.High, b.Low, b.Close, b.Volume.Append(nil, market.SizeDecimals))
	if b.Revised {
		figures += ", revised"
	}
	return b.text("bar", figures)
}

// String returns the state, and the error that caused it.
func (s StateChange) String() string {
	text := "stream " + s.State.String()
	if s.Err != nil {
		text += ": " + s.Err.Error()
	}
	return text
}

// String returns the instrument and the reason.
func (b BookInvalid) String() string {
	return fmt.Sprintf("book %s is not known: %s", b.Instrument, b.Reason)
}

// String returns what was refused, and what to do.
func (r Rejected) String() string {
	word := "rejected"
	if r.Removed {
		word = "removed"
	}
	text := fmt.Sprintf("%s %s %s: %s", word, r.Channel, r.Instrument, r.Reason)
	for _, more := range []string{r.Msg, r.Hint} {
		if more != "" {
			text += ". " + more
		}
	}
	return text
}

// String returns the instrument and its delay.
func (d Delayed) String() string {
	return fmt.Sprintf("%s %s is delayed by %v", d.Channel, d.Instrument, d.Delay)
}

// String returns the reason and the text of the gateway.
func (n Notice) String() string { return strings.TrimSuffix(string(n.Reason)+": "+n.Msg, ": ") }

// String returns the message as it was received.
func (m Message) String() string { return string(m.raw) }
