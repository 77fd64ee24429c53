package history

import (
	"context"
	"fmt"
	"slices"

	"github.com/ruedahq/rueda/internal/data/export"
	"github.com/ruedahq/rueda/internal/engine/journal"
)

// addLost adds the missing rows in the range r to a page that has all other rows of the range. If
// the page has only rows of another epoch, it ends before the epoch of r instead. If the page has
// no rows, it ends after the missing rows. following lists the epochs that come next.
func (p *page) addLost(ctx context.Context, found *journal.Found, r journal.Range, following []string, limit *horizon) error {
	q := p.query
	if p.next != nil && p.epoch != r.Epoch {
		return nil // the next page has the whole epoch
	}
	if p.next != nil && q.desc {
		r.AfterN = p.last.n - 1
	} else if p.next != nil {
		r.ToN = p.last.n
	}
	list, err := found.Lost(ctx, r)
	if err != nil {
		return fmt.Errorf("find the missing %s of %s: %w", q.list, q.series.Instrument, err)
	}
	list = slices.DeleteFunc(list, func(l journal.Lost) bool { return limit.hidesLost(&l) })
	switch {
	case len(list) == 0:
		return nil
	case p.rows > 0 && p.epoch != r.Epoch:
		p.next = &cursor{epoch: r.Epoch}
		return nil
	case p.rows == 0 && len(following) > 0:
		p.next = &cursor{epoch: following[0]}
	}
	p.epoch = r.Epoch
	if q.desc {
		slices.Reverse(list)
	}
	for i := range list {
		if limit.hidesEnd(&list[i]) {
			list[i].To, list[i].End = 0, 0
		}
		p.lost = append(p.lost, export.RangeOf(&list[i]))
	}
	return nil
}

// hidesEnd reports whether the user may not know yet where the lost rows end.
func (z *horizon) hidesEnd(l *journal.Lost) bool {
	return z.hides(l.Epoch, &journal.Row{At: l.At, Position: l.Position})
}

// hidesLost reports whether the user may not know of the lost rows yet. While rows are being lost,
// the user may know of the loss but not of its end, if the row before it is visible.
func (z *horizon) hidesLost(l *journal.Lost) bool {
	return z.hidesEnd(l) && (z.virtual || l.Since == 0 || l.Since > z.at)
}

// lostHeader is the name of the header that lists the rows that an answer lacks.
const lostHeader = "Rueda-Lost"

// maxLostHeader bounds the ranges in lostHeader.
const maxLostHeader = 32
