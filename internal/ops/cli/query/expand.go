package query

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/client"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/market"
)

// Listed returns the listed instruments that identifiers and patterns cover.
func Listed(ctx context.Context, c *client.Client, patterns []string) (list []client.Instrument, err error) {
	var wanted []market.InstrumentID
	for _, p := range patterns {
		id, err := market.ParsePattern(p)
		if err != nil {
			return nil, fmt.Errorf("%q is %w", p, err)
		}
		wanted = append(wanted, id)
	}
	for in, err := range c.Instruments(ctx, client.Filter{}) {
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(wanted, func(p market.InstrumentID) bool { return p.Matches(in.ID) }) {
			list = append(list, in)
		}
	}
	return list, nil
}

// expand returns the listed instruments that identifiers and patterns cover, in the order of the
// patterns. missing are the patterns that cover none.
func expand(ctx context.Context, c *client.Client, patterns []string) (ids, missing []string, err error) {
	list, err := Listed(ctx, c, patterns)
	if err != nil {
		return nil, nil, err
	}
	for _, text := range patterns {
		p, err := market.ParsePattern(text)
		if err != nil {
			return nil, nil, err
		}
		before := len(ids)
		known := false
		for _, in := range list {
			if id := in.ID.String(); p.Matches(in.ID) {
				if known = true; !slices.Contains(ids[:before], id) {
					ids = append(ids, id)
				}
			}
		}
		if !known {
			missing = append(missing, text)
		}
	}
	return ids, missing, nil
}

func isPattern(id string) bool { return strings.Contains(id, market.Any) }

// notFound returns the failure for identifiers and patterns that cover no instrument.
func notFound(ids []string, advice string) error {
	if isPattern(ids[0]) && advice == "" {
		advice = "See what there is: " + command.ProgramName() + " instruments"
	}
	return command.Fail(command.ExitNotFound, fmt.Errorf("there is no instrument %s", strings.Join(ids, " or ")), advice)
}
