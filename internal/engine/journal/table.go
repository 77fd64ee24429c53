package journal

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/ruedahq/rueda/internal/engine/journal/record"
	"github.com/ruedahq/rueda/market"
)

// table has the instruments of a journal by number. A number is never reused.
type table struct {
	mu        sync.RWMutex
	list      []defined // by number; 0 is unused
	realClock bool      // an instrument has or had this machine's clock
	ids       map[market.InstrumentID]uint32
}

type defined struct {
	def       market.Instrument
	text      []byte // as on disk
	realClock bool   // this or an earlier definition has this machine's clock
}

func newTable() *table {
	return &table{list: make([]defined, 1), ids: map[market.InstrumentID]uint32{}}
}

// add adds a definition from a file.
func (t *table) add(number uint32, text []byte) error {
	if number == 0 || number >= record.MaxInstruments {
		return fmt.Errorf("instrument number %d is out of range", number)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if int(number) < len(t.list) && slices.Equal(t.list[number].text, text) {
		return nil
	}
	var def market.Instrument
	if err := json.Unmarshal(text, &def); err != nil {
		return fmt.Errorf("definition of an instrument: %w", err)
	}
	// The file may be of somebody else, and names of markets become names of files.
	if id, err := market.ParsePattern(def.ID.String()); err != nil || id != def.ID {
		return fmt.Errorf("instrument number %d has an invalid identifier", number)
	}
	t.set(number, def, slices.Clone(text))
	return nil
}

// addEarlier adds a definition from a file that is older than those that the table has, which stay.
func (t *table) addEarlier(number uint32, text []byte, realClock bool) error {
	if t.text(number) == nil {
		if err := t.add(number, text); err != nil {
			return err
		}
	}
	if realClock {
		t.markRealClock(number)
	}
	return nil
}

// reserve prevents new instruments from getting numbers up to this one: there are rows with them,
// although their definitions may be damaged.
func (t *table) reserve(number uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for number < record.MaxInstruments && int(number) >= len(t.list) {
		t.list = append(t.list, defined{})
	}
}

func (t *table) set(number uint32, def market.Instrument, text []byte) {
	for int(number) >= len(t.list) {
		t.list = append(t.list, defined{})
	}
	t.list[number].def, t.list[number].text = def, text
	t.ids[def.ID] = number
	if !def.VirtualClock && !def.ID.IsPattern() {
		t.list[number].realClock, t.realClock = true, true
	}
}

// markRealClock records that an earlier definition of a defined number had this machine's clock.
func (t *table) markRealClock(number uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list[number].realClock, t.realClock = true, true
}

// hasRealClock reports whether any instrument has or had this machine's clock. Patterns for whole
// markets do not count.
func (t *table) hasRealClock() bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.realClock
}

// define returns the number of an instrument, and whether the definition is new or has changed.
func (t *table) define(def market.Instrument) (number uint32, text []byte, changed bool) {
	text, err := json.Marshal(def)
	if err != nil {
		// A struct of numbers and strings always encodes.
		return 0, nil, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	number, ok := t.ids[def.ID]
	if ok && slices.Equal(t.list[number].text, text) {
		return number, text, false
	}
	if !ok {
		number = uint32(len(t.list))
	}
	def.Ticks = slices.Clone(def.Ticks)
	t.set(number, def, text)
	return number, text, true
}

// DefineAs stores the definition of an instrument of a log, under its number there. It reports
// whether that is possible: another instrument may have the number, or the instrument another one.
func (a *Archive) DefineAs(number uint32, def market.Instrument) bool {
	return a.table.defineAs(number, def)
}

// defineAs sets the definition of an instrument whose number is known, and reports whether that is
// possible.
func (t *table) defineAs(number uint32, def market.Instrument) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n, ok := t.ids[def.ID]; ok {
		return n == number
	}
	if number == 0 || number >= record.MaxInstruments || int(number) < len(t.list) && t.list[number].text != nil {
		return false
	}
	text, err := json.Marshal(def)
	if err != nil {
		return false // a struct of numbers and strings always encodes
	}
	def.Ticks = slices.Clone(def.Ticks)
	t.set(number, def, text)
	return true
}

func (t *table) get(number uint32) (market.Instrument, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if int(number) >= len(t.list) || t.list[number].text == nil {
		return market.Instrument{}, false
	}
	return t.list[number].def, true
}

// hasVirtualClock reports whether a virtual clock publishes an instrument's rows.
func (t *table) hasVirtualClock(number uint32) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return int(number) < len(t.list) && t.list[number].def.VirtualClock
}

func (t *table) lookup(id market.InstrumentID) (uint32, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n, ok := t.ids[id]
	return n, ok
}

// text returns the definition of a number as on disk; nil if there is none.
func (t *table) text(number uint32) []byte {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if int(number) >= len(t.list) {
		return nil
	}
	return t.list[number].text
}

// last returns the greatest number in use.
func (t *table) last() uint32 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return uint32(len(t.list) - 1)
}

// each calls f for all definitions by rising number. realClock is true if this or an earlier
// definition of the number had this machine's clock.
func (t *table) each(f func(number uint32, text []byte, realClock bool)) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for n := range t.list {
		if t.list[n].text != nil {
			f(uint32(n), t.list[n].text, t.list[n].realClock)
		}
	}
}
