package usage

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// Reader reads stored usage.
type Reader interface {
	Usage(ctx context.Context, month string) ([]store.Usage, error)
}

// Report returns the usage of a month such as 2026-11, with the names of those users that are in
// users. nil: the gateway has another user base.
func Report(ctx context.Context, s Reader, users *local.Base, month string) ([]Row, error) {
	used, err := s.Usage(ctx, month)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	if users != nil && len(used) > 0 {
		list, err := users.List(ctx)
		if err != nil {
			return nil, err
		}
		for i := range list {
			names[list[i].ID] = list[i].Username
		}
	}
	rows := make([]Row, len(used))
	for i, u := range used {
		rows[i] = Row{
			UserID: u.UserID, Username: names[u.UserID], Market: u.Market, Level: u.Level, Delay: u.Delay, Days: []int{},
			Connections: u.Connections, First: u.First.UTC().Truncate(time.Second), Last: u.Last.UTC().Truncate(time.Second),
		}
		for day := 1; day <= 31; day++ {
			if u.Days&(1<<(day-1)) != 0 {
				rows[i].Days = append(rows[i].Days, day)
			}
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return a.Compare(&b) })
	return rows, nil
}

// Row is the use of a level of a market by a user in a month.
type Row struct {
	UserID      string    `json:"user_id"`
	Username    string    `json:"username,omitempty"`
	Market      string    `json:"market"`
	Level       string    `json:"level"`
	Delay       int       `json:"delay_seconds"`
	Days        []int     `json:"days"` // of the month
	Connections int       `json:"connections"`
	First       time.Time `json:"first"`
	Last        time.Time `json:"last"`
}

// Name returns the name of the user, or else the id.
func (r *Row) Name() string { return cmp.Or(r.Username, r.UserID) }

// Compare orders rows by user, market, level and delay.
func (r *Row) Compare(v *Row) int {
	return cmp.Or(cmp.Compare(r.Name(), v.Name()), cmp.Compare(r.Market, v.Market), cmp.Compare(r.Level, v.Level), cmp.Compare(r.Delay, v.Delay))
}
