package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ruedahq/rueda/market"
)

// NewestRow returns the publication time of the newest row of any of the instruments, or the zero
// time if there is none. It skips damaged rows.
func (a *Archive) NewestRow(ctx context.Context, ids []market.InstrumentID) (newest time.Time, err error) {
	numbers := make(map[uint32]bool, len(ids))
	for _, id := range ids {
		if n, ok := a.Lookup(id); ok {
			numbers[n] = true
		}
	}
	at := int64(0)
	see := func(r *Row) { at = max(at, r.At) }
	undamaged := func(err error) error {
		if _, ok := errors.AsType[*Damage](err); ok {
			return nil
		}
		return err
	}
	// The indexes give a lower bound, so that the scan for rows without an index, such as those of
	// books, is short.
	for _, id := range ids {
		for _, channel := range [...]Channel{Trades, Quotes, Statuses} {
			series := Series{Instrument: id, Channel: channel}
			err := a.Read(ctx, series, Range{Reverse: true}, func(_ string, r *Row) bool { see(r); return false })
			if undamaged(err) != nil {
				return newest, fmt.Errorf("read the newest rows of %s: %w", id, err)
			}
		}
	}
	kinds := ^(Checkpoints | Kinds(Gap))
	for _, epoch := range a.Epochs() {
		if len(numbers) == 0 {
			break
		}
		from := ScanStart{Epoch: epoch, Time: at}
		err := a.Scan(ctx, from, func(n uint32) bool { return numbers[n] }, kinds, func(r *Row) bool { see(r); return true })
		if undamaged(err) != nil {
			return newest, fmt.Errorf("read the newest rows of the journal: %w", err)
		}
	}
	if at != 0 {
		newest = time.Unix(0, at)
	}
	return newest, nil
}
