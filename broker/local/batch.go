package local

import (
	"context"
	"strings"

	"github.com/ruedahq/rueda/broker"
)

// UsersByID implements broker.BatchUsers.
func (b *Base) UsersByID(ctx context.Context, ids []string) ([]broker.UserResult, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = ""
		if checkUsername(id) == nil { // other ids cannot exist
			args[i] = id
		}
	}
	rows, err := b.users(ctx, selectUsers+` WHERE u.id IN (?`+strings.Repeat(", ?", len(ids)-1)+`) ORDER BY u.id, g.name`, args...)
	if err != nil {
		return nil, unavailable("read users", err)
	}
	found := make(map[string]*row, len(rows))
	for i := range rows {
		found[rows[i].ID] = &rows[i]
	}
	answers := make([]broker.UserResult, len(ids))
	for i, id := range ids {
		if u := found[id]; u != nil {
			answers[i].User, answers[i].Err = u.answer()
		} else {
			answers[i].Err = broker.ErrNotFound
		}
	}
	return answers, nil
}
