package marketdata

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/market"
)

const (
	maxLevelsShown = 25
	screenWidth    = 80
)

// book applies an update and shows the book. Updates between a gap and the next snapshot are not
// shown.
func (p *printer) book(u *client.BookUpdate) (shown bool, err error) {
	b := p.books[u.Instrument]
	if b == nil {
		b = &client.Book{}
		p.books[u.Instrument] = b
	}
	if b.Apply(*u) != nil {
		return false, nil // the client reports it, and requests a snapshot
	}
	return true, p.show(p.ladder(u, b))
}

// ladder returns a book as text, with bids on the left: a line for each level, best first, at most
// 80 columns wide.
func (p *printer) ladder(u *client.BookUpdate, b *client.Book) string {
	n := maxLevelsShown
	if p.depth > 0 {
		n = min(p.depth, n)
	}
	bids, asks := b.Bids(n), b.Asks(n)
	head := p.Bold(command.Printable(u.Instrument.String()))
	if phase := p.phases[u.Instrument]; phase != market.NoPhase {
		head += "  " + phase.String()
	}
	if len(bids) > 0 && len(asks) > 0 && asks[0].Price >= bids[0].Price {
		head += "  spread " + (asks[0].Price - bids[0].Price).String()
	}
	lines := []string{fmt.Sprintf("%s  %s  %s", head, clockTime(u.Time), p.Faint(fmt.Sprintf("#%d", u.N)))}
	w := widthsOf(bids, asks)
	lines = append(lines, p.Faint(w.left("orders", "size", "bid")+" | "+w.right("ask", "size", "orders")))
	for i := range max(len(bids), len(asks), 1) {
		lines = append(lines, p.Green(w.left(cells(bids, i)))+" | "+p.Red(reversed(w.right, asks, i)))
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

// cells returns the columns of a level, empty ones if there is none.
func cells(levels []market.Level, i int) (orders, size, price string) {
	if i >= len(levels) {
		return "", "", ""
	}
	l := levels[i]
	if l.Orders > 0 {
		orders = strconv.FormatUint(uint64(l.Orders), 10)
	}
	return orders, l.Size.String(), l.Price.String()
}

func reversed(format func(price, size, orders string) string, levels []market.Level, i int) string {
	orders, size, price := cells(levels, i)
	return format(price, size, orders)
}

// widths are the widths of the columns of a book. Without orders, that column is left out.
type widths struct{ orders, size, price int }

func widthsOf(sides ...[]market.Level) widths {
	w := widths{size: 10, price: 10}
	for _, levels := range sides {
		for i := range levels {
			orders, size, price := cells(levels, i)
			if orders != "" {
				w.orders = max(w.orders, len("orders"), len(orders))
			}
			w.size, w.price = max(w.size, len(size)), max(w.price, len(price))
		}
	}
	if 2*(w.orders+w.size+w.price+4)+3 > screenWidth {
		w.orders = 0
	}
	return w
}

func (w widths) left(orders, size, price string) string {
	text := fmt.Sprintf("%*s  %*s", w.size, size, w.price, price)
	if w.orders > 0 {
		text = fmt.Sprintf("%*s  ", w.orders, orders) + text
	}
	return text
}

func (w widths) right(price, size, orders string) string {
	text := fmt.Sprintf("%-*s  %*s", w.price, price, w.size, size)
	if w.orders > 0 {
		text += fmt.Sprintf("  %*s", w.orders, orders)
	}
	return text
}
