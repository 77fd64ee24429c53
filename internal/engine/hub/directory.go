package hub

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/engine/catalogue"
	"github.com/ruedahq/rueda/internal/engine/state"
	"github.com/ruedahq/rueda/market"
)

type Group = catalogue.Group[*Instrument]

// directory has the known instruments and markets as a whole. The hub's lock guards it, except for
// the catalogue and the listings, which have their own locks.
type directory struct {
	core

	catalog  catalogue.Catalogue
	handles  []*Instrument          // by handle: listed instruments and markets as a whole
	venues   map[string]*Instrument // markets as a whole
	numbered []*Instrument          // by number in the journal, listed or not
	// unlisted has instruments of which the journal no longer has any row. They are listed when
	// they are defined again.
	unlisted map[market.InstrumentID]*Instrument
	zones    map[string]*time.Location // time zones by market; nil if not known
	version  uint64                    // of the catalogue, for ETags
	listings listings
	groups   catalogue.Groups[*Instrument]
	withBook catalogue.Set
}

// listings keeps the newest Listing.
type listings struct {
	mu     sync.Mutex // held while a Listing is made; the hub's lock may be taken under it
	newest *Listing
}

// enter lists an instrument with its index in the catalogue. The hub's lock is held.
func (d *directory) enter(in *Instrument, index int) {
	in.index = uint32(index)
	for _, x := range in.later {
		x.index = in.index
	}
	d.groups.Add(in)
	d.noteBook(in)
}

// lookup returns a listed instrument, or nil. The hub's lock is held.
func (d *directory) lookup(id market.InstrumentID) *Instrument {
	i, ok := d.catalog.Index(id)
	if !ok {
		return nil
	}
	return d.groups.All()[i]
}

// lists reports whether an instrument is listed, or the market as a whole for its pattern. The
// hub's lock is held.
func (d *directory) lists(id market.InstrumentID) bool {
	if id.IsPattern() {
		return d.venues[id.Market] != nil
	}
	return d.lookup(id) != nil
}

// covered returns the instruments that an item covers, at its delay. The hub's lock is held.
func (d *directory) covered(x Item) []*Instrument {
	list := d.members(x.ID)
	if x.Tier.Delay == 0 {
		return list
	}
	delayed := make([]*Instrument, 0, len(list))
	for _, in := range list {
		if in = in.AtDelay(x.Tier.Delay); in != nil {
			delayed = append(delayed, in)
		}
	}
	return delayed
}

// members returns the instruments that an identifier covers. Neither callers nor later listings
// change the result. The hub's lock is held.
func (d *directory) members(id market.InstrumentID) []*Instrument {
	if id.IsPattern() {
		return slices.Clip(d.group(id).Members)
	}
	i, ok := d.catalog.Index(id)
	if !ok {
		return nil
	}
	return d.groups.All()[i : i+1 : i+1]
}

// group returns the group of a pattern. It makes the group if there is none. That may take long, so
// callers call Prepare first. The hub's lock is held.
func (d *directory) group(id market.InstrumentID) *Group {
	if g := d.groups.Find(id); g != nil {
		return g
	}
	list := d.groups.Candidates(id)
	d.mu.Visit(len(list))
	return d.groups.Make(id, catalogue.Matching(nil, list, id))
}

// noteBook records whether an instrument has an order book.
func (d *directory) noteBook(in *Instrument) {
	d.withBook.Add(in.index)
	if in.Def.NoBook {
		d.withBook.Remove(in.index)
	}
}

// lookupItem returns the instrument that an exact item reads, at the delay of the item, or nil. The
// hub's lock is held.
func (d *directory) lookupItem(x Item) *Instrument {
	if in := d.lookup(x.ID); in != nil {
		return in.AtDelay(x.Tier.Delay)
	}
	return nil
}

// venuesOf returns a market as a whole. If name is market.Any, it returns all of them in the order
// of definition. The hub's lock is held.
func (d *directory) venuesOf(name string) []*Instrument {
	if name != market.Any {
		if v := d.venues[name]; v != nil {
			return []*Instrument{v}
		}
		return nil
	}
	var list []*Instrument
	for _, v := range d.venues {
		list = append(list, v)
	}
	slices.SortFunc(list, func(a, b *Instrument) int { return int(a.handle) - int(b.handle) })
	return list
}

// marketDown reports whether the feed of an instrument's market is down, as known at its delay. The
// hub's lock is held.
func (d *directory) marketDown(in *Instrument) bool {
	v := d.venues[in.id.Market]
	if v != nil {
		v = v.AtDelay(in.delay())
	}
	return v != nil && v.Down
}

// number records an instrument under its number in the journal. The hub's lock is held.
func (d *directory) number(in *Instrument) {
	for int(in.Number) >= len(d.numbered) {
		d.numbered = append(d.numbered, nil)
	}
	d.numbered[in.Number] = in
}

// Clock returns the time on a market. With a virtual clock this is the newest event time, otherwise
// the present time.
func (d *directory) Clock(name string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, in := range d.groups.All() {
		if in.id.Market == name && in.Def.VirtualClock {
			return time.Unix(0, in.Publication(time.Now().UnixNano()))
		}
		d.mu.Step(1)
	}
	return time.Now()
}

// Instruments returns the listed instruments with their present phases, in the order of definition.
// version increases with every definition.
func (d *directory) Instruments() (list []market.Instrument, version uint64) {
	d.mu.Lock()
	n := len(d.groups.All())
	d.mu.Unlock()
	list = make([]market.Instrument, 0, n) // may take megabytes, so not under the lock
	d.mu.Lock()
	defer d.mu.Unlock()
	version = d.version
	for _, in := range d.groups.All() {
		list = append(list, in.Def)
		list[len(list)-1].Phase = in.Phase
		d.mu.Step(1)
	}
	return list, version
}

// Instrument returns the definition of a listed instrument, with its present phase. It returns
// false if the instrument is not listed.
func (d *directory) Instrument(id market.InstrumentID) (market.Instrument, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := d.lookup(id)
	if in == nil {
		return market.Instrument{}, false
	}
	def := in.Def
	def.Phase = in.Phase
	return def, true
}

// Zone returns the time zone of a market, UTC if it is not known.
func (d *directory) Zone(name string) *time.Location {
	d.mu.Lock()
	defer d.mu.Unlock()
	return cmp.Or(d.zones[name], time.UTC)
}

// Suggest returns the listed identifier that is most like id, if there is a similar one.
func (d *directory) Suggest(id market.InstrumentID) (market.InstrumentID, bool) {
	return d.catalog.Suggest(id)
}

// Markets returns the markets.
func (d *directory) Markets() []market.Market {
	return d.catalog.Markets()
}

// HasMarket reports whether a market is listed.
func (d *directory) HasMarket(name string) bool {
	_, ok := d.catalog.Market(name)
	return ok
}

// Status returns the trading status of a listed instrument at a delay in seconds. Call AwaitDelay
// first. Status returns false if the instrument is not known at that delay.
func (d *directory) Status(id market.InstrumentID, delay int) (state.Status, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	in := d.lookupItem(Item{ID: id, Tier: Tier{Delay: delay}})
	if in == nil {
		return state.Status{}, false
	}
	return in.Status(), true
}

// MarketStatus returns the status of a market as a whole. ok is false if neither its feed nor its
// schedule has stated one.
func (d *directory) MarketStatus(name string) (s state.Status, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	v := d.venues[name]
	if v == nil || v.Statuses.Last == 0 && d.cut == 0 {
		return state.Status{}, false
	}
	if d.cut != 0 {
		return state.Status{Phase: market.FeedDown}, true
	}
	return v.Status(), true
}
