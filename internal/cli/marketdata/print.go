package marketdata

import (
	"io"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/cli/command"
	"github.com/ruedahq/rueda/wire"
)

// printer writes data messages, each with one write, so that a reader gets each line at once.
type printer interface {
	message(v *wire.Value, raw []byte) error
}

// writeError is an error of the output.
type writeError struct{ error }

func (w writeError) Unwrap() error { return w.error }

// linePrinter writes messages as they were received, one per line.
type linePrinter struct{ out io.Writer }

func (p linePrinter) message(_ *wire.Value, raw []byte) error {
	_, err := p.out.Write(append(command.EscapeControls(raw), '\n'))
	return err
}

// textPrinter writes messages for people.
type textPrinter struct {
	out io.Writer
	command.Paint
}

func (p textPrinter) message(v *wire.Value, _ []byte) error {
	var b strings.Builder
	b.WriteString(p.Faint(clockTime(text(v, "T"))))
	kind := text(v, "type")
	b.WriteString("  " + kind + "  " + p.Bold(text(v, "I")) + "  ")
	switch kind {
	case "T":
		b.WriteString(amount(v, "P", "Z"))
		switch text(v, "G") {
		case "B":
			b.WriteString("  " + p.Green("buy"))
		case "S":
			b.WriteString("  " + p.Red("sell"))
		}
	case "X":
		b.WriteString("trade " + text(v, "X") + " of " + amount(v, "P", "Z") + " cancelled")
	case "C":
		b.WriteString("trade " + text(v, "X") + " of " + amount(v, "XP", "XZ") + " corrected to " + amount(v, "P", "Z"))
	case "Q":
		b.WriteString(p.Green(amount(v, "BP", "BZ")) + "  |  " + p.Red(amount(v, "AP", "AZ")))
	case "O":
		b.WriteString(p.book(v))
	case "H":
		b.WriteString(text(v, "E"))
		if reason := text(v, "Y"); reason != "" {
			b.WriteString(" (" + reason + ")")
		}
		if until := text(v, "U"); until != "" {
			b.WriteString(" until " + clockTime(until))
		}
	case "K":
		b.WriteString(text(v, "IV") + "  " + figures(v, "open", "OP", "high", "HI", "low", "LO", "close", "CL", "volume", "TV", "trades", "TC"))
	case "D":
		b.WriteString(figures(v, "open", "OP", "high", "HI", "low", "LO", "last", "LA", "previous", "CL", "volume", "TV", "trades", "TC"))
	}
	b.WriteString("  " + p.Faint("#"+text(v, "N")) + "\n")
	_, err := io.WriteString(p.out, b.String())
	return err
}

// figures returns the members that a message has, each with its label. words are pairs of a member
// and its label.
func figures(v *wire.Value, words ...string) string {
	var list []string
	for i := 0; i+1 < len(words); i += 2 {
		if figure := text(v, words[i+1]); figure != "" {
			list = append(list, words[i]+" "+figure)
		}
	}
	return strings.Join(list, "  ")
}

// amount returns "price x size", or "-" without a price.
func amount(v *wire.Value, price, size string) string {
	if v.Get(price).Kind == wire.Absent {
		return "-"
	}
	return text(v, price) + " x " + text(v, size)
}

// clockTime returns the local time of day for a time of the protocol.
func clockTime(s string) string {
	ns, err := wire.ParseTime(s)
	if err != nil {
		return s
	}
	return time.Unix(0, ns).Format("15:04:05.000")
}

// book returns the levels of a snapshot or an update, best first.
func (p textPrinter) book(v *wire.Value) string {
	word := "changes"
	if v.Get("R").True {
		word = "book"
	}
	bids, asks := v.Get("B"), v.Get("A")
	return word + "  " + p.Green(levels(&bids)) + "  |  " + p.Red(levels(&asks))
}

const levelsShown = 5

func levels(side *wire.Value) string {
	if len(side.Items) == 0 {
		return "-"
	}
	var shown []string
	for i := range side.Items {
		if i == levelsShown {
			shown = append(shown, "...")
			break
		}
		level := side.Items[i].Items
		if len(level) < 2 {
			continue
		}
		if level[1].Text == "0" {
			shown = append(shown, command.Printable(level[0].Text)+" gone")
			continue
		}
		shown = append(shown, command.Printable(level[0].Text+" x "+level[1].Text))
	}
	return strings.Join(shown, "  ")
}
