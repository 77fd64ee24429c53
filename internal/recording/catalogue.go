package recording

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"github.com/ruedahq/rueda/market"
)

// Catalogue requests from a server the definitions of the instruments that match some patterns. It
// returns the definitions and their identifiers. get performs a GET request of a path with a query
// and returns the body of a successful answer.
func Catalogue(ctx context.Context, get func(ctx context.Context, path string) ([]byte, error), patterns []string) (rows []Row, ids []string, err error) {
	var covered []market.InstrumentID
	for _, p := range patterns {
		id, err := market.ParsePattern(p)
		if err != nil {
			return nil, nil, fmt.Errorf("%q is %w", p, err)
		}
		covered = append(covered, id)
	}
	for cursor := ""; ; {
		query := url.Values{"limit": {"1000"}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		text, err := get(ctx, "/market/instruments?"+query.Encode())
		if err != nil {
			return nil, nil, err
		}
		var answer struct {
			Data struct {
				Instruments []Row  `json:"instruments"`
				Next        string `json:"next_cursor"`
			} `json:"data"`
		}
		if err := json.Unmarshal(text, &answer); err != nil {
			return nil, nil, errors.New("the server's answer is not a list of instruments")
		}
		for _, row := range answer.Data.Instruments {
			var named struct {
				Instrument string `json:"instrument"`
			}
			if err := json.Unmarshal(row, &named); err != nil {
				return nil, nil, fmt.Errorf("a row of the server's instruments: %w", err)
			}
			if anyCovers(covered, named.Instrument) {
				rows, ids = append(rows, row), append(ids, named.Instrument)
			}
		}
		if answer.Data.Next == "" || answer.Data.Next == cursor {
			return rows, ids, nil
		}
		cursor = answer.Data.Next
	}
}

// anyCovers reports whether a pattern matches an identifier. It returns false for a text that is
// not an identifier.
func anyCovers(patterns []market.InstrumentID, text string) bool {
	id, err := market.ParseInstrumentID(text)
	for _, p := range patterns {
		if err == nil && p.Matches(id) {
			return true
		}
	}
	return false
}
