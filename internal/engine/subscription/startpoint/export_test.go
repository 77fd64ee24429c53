package startpoint

import (
	"context"
	"time"

	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/wire"
)

// The tests of this package search as subscribers do. The functions of this file show them what a
// search has found.

const (
	MaxRows     = maxRows
	MaxSearched = maxSearched
)

// TooMany returns a fault if more rows than a start may have follow the first rows of a channel.
func TooMany(p *hub.Port, in *hub.Instrument, c wire.Channel) *wire.Fault {
	return tooMany(p, map[Sequence]uint64{{in, c}: 0})
}

// LateSearch returns a search whose time is over.
func LateSearch() *Search {
	return &Search{until: time.Now(), point: map[Sequence]uint64{}, place: map[Sequence]uint64{}}
}

// Points returns the number of points that were found.
func (x *Search) Points() int { return len(x.point) }

// Left returns the number of sequences that are not searched yet.
func (x *Search) Left() int { return len(x.ask) }

// Used returns the reading time.
func (x *Search) Used() time.Duration { return x.used }

// UseUp records that all reading time is used.
func (x *Search) UseUp() { x.used = searchTime }

// Forget drops the point of a sequence.
func (x *Search) Forget(in *hub.Instrument, c wire.Channel) { delete(x.point, Sequence{in, c}) }

// Read searches for about a time.
func (x *Search) Read(limit time.Duration) (more bool) { return x.read(context.Background(), limit) }
