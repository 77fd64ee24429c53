package copying

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/record"
)

// Errors of a copy that is refused.
var (
	errRows   = errors.New("rows are missing in its journal")
	errDay    = errors.New("a closed day of its journal does not have the hash that was stated")
	errOthers = errors.New("a closed day of its journal differs from that of other nodes")
)

// check reads a copy as a journal. All rows up to state.Position must be there, without damage. The
// hash of a closed day must be the one that from states, and at least as many offers must agree
// with it as differ.
func check(ctx context.Context, folder string, state *cluster.State, from *Offer, others []Offer) (err error) {
	r, err := journal.OpenReader(ctx, folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for _, d := range r.Damage() {
		if d.Reason != record.ReasonTorn { // the other node was writing
			return damaged(&d)
		}
	}
	whole := r.Epoch() == state.History.Epoch && r.Newest() >= state.Position
	if !whole && !isEmpty(r, state) || r.Complete() > r.Begins() {
		return errRows
	}
	rows := uint64(0)
	for _, d := range r.Days() {
		rows += d.Rows
		if !d.Closed && has(from, d.Date) {
			return fmt.Errorf("%s: %w", d.Date, errDay)
		}
		if !d.Closed {
			continue
		}
		if err := checkDay(ctx, r, &d, from, others); err != nil {
			return damaged(err)
		}
	}
	if len(r.Epochs()) == 1 && rows != r.Newest()-r.Begins() {
		return errRows
	}
	return nil
}

// checkDay reads the rows of a closed day of a copy, and compares their hash.
func checkDay(ctx context.Context, r *journal.Reader, d *journal.Day, from *Offer, others []Offer) error {
	hash, err := r.HashDay(ctx, d.Date)
	switch {
	case err != nil:
		return err
	case hash != d.Hash, contradicts(from, d.Date, hash):
		return fmt.Errorf("%s: %w", d.Date, errDay)
	}
	return agree(d.Date, hash, from, others)
}

// agree returns an error if more offers have another hash for a closed day than have this one.
func agree(date, hash string, from *Offer, others []Offer) error {
	same, other := 0, 0
	for i := range others {
		switch {
		case contradicts(&others[i], date, hash):
			if !beginsIn(&others[i], date, from) { // otherwise its hash is that of fewer rows
				other++
			}
		case has(&others[i], date):
			same++
		}
	}
	if other > same {
		return fmt.Errorf("%s: %w (%d of %d)", date, errOthers, other, same+other)
	}
	return nil
}

// isEmpty reports whether the epoch of a state has no rows yet. The copy has those of earlier ones.
func isEmpty(r *journal.Reader, state *cluster.State) bool {
	s := state.History.Starts
	return len(s) > 0 && state.Position <= s[0].After && !slices.Contains(r.Epochs(), state.History.Epoch)
}

// beginsIn reports whether the journal of an offer begins in a day of which another one has earlier
// rows.
func beginsIn(o *Offer, date string, than *Offer) bool {
	return o.Days[0].Date == date && (o.days() < than.days() || len(o.Epochs) < len(than.Epochs))
}

// has reports whether the journal of an offer has a closed day.
func has(o *Offer, date string) bool {
	for _, d := range o.Days {
		if d.Date == date {
			return true
		}
	}
	return false
}

// contradicts reports whether an offer has another hash for a day.
func contradicts(o *Offer, date, hash string) bool {
	for _, d := range o.Days {
		if d.Date == date {
			return d.Hash != hash
		}
	}
	return false
}
