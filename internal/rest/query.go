package rest

import (
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/spell"
	"github.com/ruedahq/rueda/wire"
)

// Names that routes of history have in common.
func historyQuery(more ...string) []string {
	return append(more, "instrument", "start", "end", "after_sequence", "epoch", "order", "limit", "cursor")
}

// followQuery are the names of a subscription in a query.
func followQuery() []string {
	return []string{
		"trades", "quotes", "order_book", "status", "summary", "bars",
		"depth", "conflate", "interval", "snapshot", "alive", "start", "slow",
	}
}

// noQuery is of routes that take no parameter.
func noQuery() []string { return []string{} }

// checkQuery refuses parameters that the route does not know, most often a slip of the pen that would otherwise give an
// answer to another question. Such a name may be anything, a secret too, and is not repeated.
func (q *request) checkQuery() *wire.Fault {
	known := q.route.query
	if known == nil {
		return nil
	}
	for name := range q.params {
		if slices.Contains(known, name) {
			continue
		}
		f := wire.NewFault(wire.BadField, "A parameter of the query is not known here")
		switch near, ok := spell.Nearest(strings.ToLower(name), known); {
		case ok:
			f.Hint = "Did you mean " + near + "?"
		case len(known) > 0:
			f.Hint = "Known are " + strings.Join(known, ", ")
		}
		return f
	}
	return nil
}

// checkValues refuses parameters that are given more than once, or are empty: a place or an option
// that was lost would otherwise give an answer to another question.
func (q *request) checkValues() *wire.Failure {
	for _, name := range q.route.query {
		if len(q.params[name]) > 1 {
			return wire.NewFailure(wire.BadField, name, "is given more than once")
		}
		if slices.Contains(q.params[name], "") && !slices.Contains(q.route.empty, name) {
			return wire.NewFailure(wire.BadField, name, "is empty: give it a value or leave it out")
		}
	}
	return nil
}
