package host

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/market"
)

// applying applies rows that came back from the log.
type applying struct {
	hub     *hub.Hub
	journal *journal.Journal
	records cluster.Records
}

// apply applies the rows of an action.
func (x *applying) apply(a cluster.Apply) error {
	err := x.hub.Follow(func(f *hub.Follower) error {
		define := func(number uint32, text []byte) error { return x.define(f, number, text) }
		return x.records.Each(a.Data, define, func(r *journal.Row) error {
			if r.Position <= a.Prev {
				return nil
			}
			return f.Row(r)
		})
	})
	if err != nil {
		return fmt.Errorf("apply the rows after position %d: %w", a.Prev, err)
	}
	return nil
}

// errNumber means that the journal has other numbers of instruments than the log. It has rows that
// the log has lost, or it is of another cluster.
var errNumber = errors.New("the journal has other numbers of instruments")

// define defines an instrument of the log. The error is errNumber if the journal has it under
// another number.
func (x *applying) define(f *hub.Follower, number uint32, text []byte) error {
	var def market.Instrument
	if err := json.Unmarshal(text, &def); err != nil {
		return fmt.Errorf("definition of instrument %d: %w", number, err)
	}
	if !x.journal.DefineAs(number, def) {
		return fmt.Errorf("%s has the number %d in the log: %w", def.ID, number, errNumber)
	}
	return f.Define(number, def)
}
