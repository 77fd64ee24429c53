package host

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/hub"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/market"
)

// applying applies rows that came back from the log.
type applying struct {
	hub     *hub.Hub
	journal *journal.Journal
	records cluster.Records
	batch   []journal.Row
	levels  []market.Level
}

// applyPiece is the number of rows that are applied at once.
const applyPiece = 512

// apply applies the rows of an action.
func (x *applying) apply(a cluster.Apply) error {
	err := x.records.Each(a.Data, x.define, func(r *journal.Row) error {
		if r.Position <= a.Prev {
			return nil
		}
		x.keep(r)
		if len(x.batch) == applyPiece {
			return x.flush()
		}
		return nil
	})
	if err == nil {
		err = x.flush()
	}
	if err != nil {
		return fmt.Errorf("apply the rows after position %d: %w", a.Prev, err)
	}
	return nil
}

// keep copies a row to the batch, which reuses its memory.
func (x *applying) keep(from *journal.Row) {
	x.batch = append(x.batch, *from)
	r := &x.batch[len(x.batch)-1]
	keep := func(list []market.Level) []market.Level {
		n := len(x.levels)
		x.levels = append(x.levels, list...)
		return x.levels[n:len(x.levels):len(x.levels)]
	}
	r.Bids, r.Asks, r.TradeDetails = keep(from.Bids), keep(from.Asks), from.TradeDetails.Clone()
}

// flush applies the rows of the batch.
func (x *applying) flush() error {
	err := x.hub.Follow(x.batch)
	x.batch, x.levels = x.batch[:0], x.levels[:0]
	return err
}

// errNumber means that the journal has other numbers of instruments than the log. It has rows that
// the log has lost, or it is of another cluster.
var errNumber = errors.New("the journal has other numbers of instruments")

// define defines an instrument of the log. The error is errNumber if the journal has it under
// another number.
func (x *applying) define(number uint32, text []byte) error {
	if err := x.flush(); err != nil {
		return err
	}
	var def market.Instrument
	if err := json.Unmarshal(text, &def); err != nil {
		return fmt.Errorf("definition of instrument %d: %w", number, err)
	}
	if !x.journal.DefineAs(number, def) {
		return fmt.Errorf("%s has the number %d in the log: %w", def.ID, number, errNumber)
	}
	return x.hub.FollowDefinition(number, def)
}
