package feeds

import (
	"context"
	"errors"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/market"
)

// A Supervisor passes the questions of a source about stored numbers to the log. Feeds have
// numberings of their own.

// errNoNumbers means that there is no log.
var errNoNumbers = errors.New("numbers of sources are not stored")

var _ feed.Resumer = (*Supervisor)(nil)

// Resume implements feed.Resumer.
func (s *Supervisor) Resume(numbering string) (list []feed.Held, ok bool) {
	if s.numbers == nil {
		return nil, false
	}
	return s.numbers.Resume(s.name + "/" + numbering)
}

// Number implements feed.Resumer.
func (s *Supervisor) Number(h market.Handle, numbering string) {
	if numbering != "" {
		numbering = s.name + "/" + numbering
	}
	if s.numbers != nil {
		s.numbers.Number(h, numbering)
	}
}

// AwaitStored implements feed.Resumer.
func (s *Supervisor) AwaitStored(ctx context.Context, list []feed.Held) error {
	if s.numbers == nil {
		return errNoNumbers
	}
	return s.numbers.AwaitStored(ctx, list)
}
