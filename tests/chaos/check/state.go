package check

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/ruedahq/rueda/tests/chaos/market"
	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// State reads the book of each instrument and the snapshot of all over REST, and judges them. The
// error is one of the request.
func (j *Judge) State(ctx context.Context, address, token string) error {
	var ids []string
	for _, in := range j.Market.Instruments {
		ids = append(ids, in.ID)
	}
	var snapshot struct {
		Epoch       string
		Instruments []map[string]json.RawMessage
	}
	if err := stream.Get(ctx, address, token, "/market/snapshot", url.Values{"instruments": {strings.Join(ids, ",")}}, &snapshot); err != nil {
		return err
	}
	j.Epoch(snapshot.Epoch)
	for _, list := range snapshot.Instruments {
		for _, channel := range []string{"T", "Q", "D", "H"} {
			if list[channel] == nil {
				continue
			}
			m := &stream.Message{Text: list[channel]}
			if err := json.Unmarshal(m.Text, m); err != nil {
				return err
			}
			j.Message(snapshot.Epoch, m, market.Book{}, 0)
		}
	}
	for _, in := range j.Market.Instruments {
		var text json.RawMessage
		err := stream.Get(ctx, address, token, "/market/book", url.Values{"instrument": {in.ID}, "depth": {"0"}}, &text)
		var refused *stream.Refused
		if errors.As(err, &refused) && refused.Status == 503 {
			continue // the book is stale
		}
		if err != nil {
			return err
		}
		b, m := clientBook{}, &stream.Message{Text: text}
		if err := json.Unmarshal(text, m); err != nil {
			return err
		}
		if m.N == nil || m.K == nil {
			j.Report.Violation("O", "/market/book of %s has no N or K", in.ID)
			continue
		}
		if wrong := b.apply(in, m); wrong != "" {
			j.Report.Violation("O whole", "/market/book of %s: %s", in.ID, wrong)
			continue
		}
		j.Message(snapshot.Epoch, m, b.Book, b.depth)
	}
	j.Report.Count("snapshots", 1)
	return nil
}
