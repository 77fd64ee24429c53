package marketdata

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// legend explains the lines of some channels. Statuses are always shown.
func legend(channels []string) string {
	var b strings.Builder
	for _, c := range []struct {
		channel wire.Channel
		text    string
	}{
		{wire.Trades, "T  trade: price x size, side of the aggressor (X cancelled, C corrected)"},
		{wire.Quotes, "Q  quote: best bid x size | best ask x size"},
		{wire.Bars, "K  bar: its trades, from the time of the line"},
		{wire.Summary, "D  figures of the day"},
		{wire.Status, "H  trading status: phase, reason, and until when"},
	} {
		if slices.Contains(channels, c.channel.String()) || c.channel == wire.Status {
			b.WriteString(c.text + "\n")
		}
	}
	b.WriteString("#  number of the message in its channel\n")
	return b.String()
}

// printer prints events for people. Its columns grow with what they show.
type printer struct {
	*screen
	command.Paint
	table              *quoteTable // nil: lines
	depth              int
	id, price, size    int // widths
	books              map[market.InstrumentID]*client.Book
	phases, feedPhases map[market.InstrumentID]market.Phase
}

func newPrinter(s *screen, books []string, depth int) *printer {
	p := &printer{
		screen: s, Paint: command.NewPaint(s.out), depth: depth, id: 14, price: 7, size: 5,
		books:  map[market.InstrumentID]*client.Book{},
		phases: map[market.InstrumentID]market.Phase{}, feedPhases: map[market.InstrumentID]market.Phase{},
	}
	for _, name := range books {
		if id, err := market.ParsePattern(name); err == nil {
			p.books[id] = &client.Book{}
		}
	}
	return p
}

// event prints an event. shown reports whether it is market data that was printed.
func (p *printer) event(ev client.Event) (shown bool, err error) {
	if p.table != nil {
		p.change(func() { shown = p.table.event(ev, time.Now()) })
		return shown, nil
	}
	switch ev := ev.(type) {
	case *client.Trade:
		return true, p.data(&ev.Header, tradeType(ev), p.trade(ev))
	case *client.Quote:
		return true, p.data(&ev.Header, "Q", p.Green(p.amount(ev.Bid.Price, ev.Bid.Size))+"  | "+p.Red(p.amount(ev.Ask.Price, ev.Ask.Size)))
	case *client.Status:
		if p.repeats(ev) {
			return false, nil
		}
		return true, p.data(&ev.Header, "H", p.status(ev))
	case *client.Bar:
		return true, p.data(&ev.Header, "K", barText(ev))
	case *client.Summary:
		return true, p.data(&ev.Header, "D", summaryText(ev))
	case *client.BookUpdate:
		return p.book(ev)
	case client.BookInvalid:
		if b := p.books[ev.Instrument]; b != nil {
			b.Invalidate()
		}
		if p.inPlace {
			return false, p.show(fmt.Sprintf("%s  the book is not known at present (%s)\n", p.Bold(ev.Instrument.String()), command.Printable(ev.Reason)))
		}
	}
	return false, nil
}

// data prints a line of market data.
func (p *printer) data(h *client.Header, kind, text string) error {
	id := command.Printable(h.Instrument.String())
	p.id = max(p.id, utf8.RuneCountInString(id))
	return p.line(fmt.Sprintf("%s  %s  %s%s  %s  %s\n", p.Faint(clockTime(h.Time)), kind, p.Bold(id),
		strings.Repeat(" ", p.id-utf8.RuneCountInString(id)), text, p.Faint(fmt.Sprintf("#%d", h.N))))
}

func clockTime(t time.Time) string { return t.Local().Format("15:04:05.000") }

func tradeType(t *client.Trade) string {
	switch t.Kind {
	case market.KindCancel:
		return "X"
	case market.KindCorrect:
		return "C"
	}
	return "T"
}

func (p *printer) trade(t *client.Trade) string {
	id := command.Printable(t.ID)
	switch t.Kind {
	case market.KindCancel:
		return fmt.Sprintf("trade %s of %s x %s cancelled", id, t.Price, t.Size)
	case market.KindCorrect:
		return fmt.Sprintf("trade %s of %s x %s corrected to %s x %s", id, t.OldPrice, t.OldSize, t.Price, t.Size)
	}
	side := "    "
	switch t.Side {
	case market.Buy:
		side = p.Green("buy ")
	case market.Sell:
		side = p.Red("sell")
	}
	return p.amount(t.Price, t.Size) + "  " + side
}

// amount returns "price x size" in columns, "-" for the price without a size.
func (p *printer) amount(price market.Price, size market.Size) string {
	left, right := price.String(), size.String()
	if size == 0 {
		left, right = "-", ""
	}
	p.price, p.size = max(p.price, len(left)), max(p.size, len(right))
	sign := " x "
	if size == 0 {
		sign = "   "
	}
	return fmt.Sprintf("%*s%s%-*s", p.price, left, sign, p.size, right)
}

// repeats records a status. It reports whether it is the current state that was shown before.
func (p *printer) repeats(s *client.Status) bool {
	known := p.phases
	if s.Phase == market.FeedDown || s.Phase == market.FeedUp {
		known = p.feedPhases
	}
	before := known[s.Instrument]
	known[s.Instrument] = s.Phase
	return s.Snapshot && s.Phase != market.NoPhase && s.Phase == before
}

func (p *printer) status(s *client.Status) string {
	text := s.Phase.String()
	switch {
	case s.Phase == market.NoPhase:
		text = "a status that this version does not know"
	case s.Phase != market.Open:
		text = p.Bold(text)
	}
	if s.Reason != "" {
		text += " (" + command.Printable(s.Reason) + ")"
	}
	if !s.Until.IsZero() {
		text += " until " + s.Until.Local().Format("15:04:05")
	}
	return text
}

func barText(b *client.Bar) string {
	text := b.Interval.String()
	if b.Revised {
		text += "  revised"
	}
	if b.Trades == 0 {
		return text + "  no trades"
	}
	return fmt.Sprintf("%s  open %s  high %s  low %s  close %s  volume %s  trades %d", text, b.Open, b.High, b.Low, b.Close,
		b.Volume.Append(nil, market.SizeDecimals), b.Trades)
}

func summaryText(s *client.Summary) string {
	var list []string
	if s.Trades > 0 {
		list = append(list, fmt.Sprintf("open %s  high %s  low %s  last %s", s.Open, s.High, s.Low, s.Last))
	}
	if s.PreviousClose > 0 {
		list = append(list, "previous "+s.PreviousClose.String())
	}
	list = append(list, fmt.Sprintf("volume %s  trades %d", s.Volume.Append(nil, market.SizeDecimals), s.Trades))
	return strings.Join(list, "  ")
}
