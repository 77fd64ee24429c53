package auth

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/broker"
)

const (
	// usersAtOnce is the number of parallel queries for users after a change. userPage is the
	// number of users of one query if the user base supports that.
	usersAtOnce = 8
	userPage    = 256
	// maxUnanswered is the number of consecutive failed queries after which reading stops until
	// later.
	maxUnanswered = 16
	// reviews is how many times within Config.UserTTL users with open sockets are checked, a part
	// of them each time.
	reviews = 12
)

// UsersChanged reacts to a change of the user base. Every remembered user and every user with open
// sockets is read again, the latter first. If the user base fails, Run reads them later.
// OnRevokeUser and OnRights report the changes.
func (s *Service) UsersChanged(ctx context.Context) {
	for u := s.users; ; {
		before, now := u.changed.Load(), u.reads.Load()
		if before >= now || u.changed.CompareAndSwap(before, now) {
			break
		}
	}
	s.readStale(ctx)
}

func (s *Service) readStale(ctx context.Context) {
	if ids := s.users.stale(s.cfg.Connected()); len(ids) > 0 {
		s.readMany(ctx, ids)
	}
}

// stale returns the users whose stored state may be older than the last change, and connected users
// without stored state. Connected users come first.
func (u *users) stale(connected []string) (ids []string) {
	changed := u.changed.Load()
	seen := make(map[string]bool, len(connected))
	for _, id := range connected {
		seen[id] = true
		if k, ok := u.get(id); !ok || k.order <= changed {
			ids = append(ids, id)
		}
	}
	for i := range u.shards {
		x := &u.shards[i]
		x.mu.RLock()
		for id, k := range x.known.All() {
			if k.order <= changed && !seen[id] {
				ids = append(ids, id)
			}
		}
		x.mu.RUnlock()
	}
	return ids
}

// readMany reads users again, several in parallel, and in pages if the user base supports that. A
// user that cannot be read does not stop the others. It stops when ctx ends or the user base does
// not answer.
func (s *Service) readMany(ctx context.Context, ids []string) {
	base, paged := s.cfg.Users.(broker.BatchUsers)
	size := 1
	if paged {
		size = userPage
	}
	var next, unanswered, missed atomic.Int64
	var all sync.WaitGroup
	for range min(usersAtOnce, (len(ids)+size-1)/size) {
		all.Go(func() {
			for ctx.Err() == nil && unanswered.Load() < maxUnanswered {
				from := int(next.Add(int64(size))) - size
				if from >= len(ids) {
					return
				}
				some := ids[from:min(from+size, len(ids))]
				var err error
				if paged {
					err = s.readPage(ctx, base, some)
				} else {
					_, err = s.readUser(ctx, some[0])
				}
				if err == nil || errors.Is(err, broker.ErrBadUser) {
					unanswered.Store(0)
				} else {
					unanswered.Add(1)
				}
				if err != nil && missed.Add(1) <= maxUnanswered && ctx.Err() == nil {
					s.cfg.Logger.Warn("user not read, keeping the last state", "user", some[0], "of", len(some), "error", err)
				}
			}
		})
	}
	all.Wait()
	if left := len(ids) - int(next.Load()); left > 0 && ctx.Err() == nil {
		s.cfg.Logger.Warn("user base unavailable, keeping the last state of users", "users", left)
	}
}

// readPage is readUser for several users. The error is that of the query.
func (s *Service) readPage(ctx context.Context, base broker.BatchUsers, ids []string) error {
	asked, cancel := context.WithTimeout(ctx, userPatience)
	defer cancel()
	order := s.users.begin()
	answers, err := base.UsersByID(asked, ids)
	if err != nil {
		if ctx.Err() == nil {
			s.unanswered(order, ids...)
		}
		return err
	}
	for i, id := range ids {
		if i >= len(answers) {
			break
		}
		if _, err := s.answered(order, id, answers[i].User, answers[i].Err); err != nil {
			s.cfg.Logger.Warn("user not read, keeping the last state", "user", id, "error", err)
		}
	}
	s.gone.end(ctx, s, false)
	return nil
}

// review reads users with open sockets again within Config.UserTTL, until ctx ends. It finds
// changes for sockets without requests if the user base does not report changes.
func (s *Service) review(ctx context.Context) {
	tick := time.NewTicker(s.cfg.UserTTL / reviews)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := time.Now(); !s.users.down(now) {
			if ids := s.users.due(s.cfg.Connected(), now); len(ids) > 0 {
				s.readMany(ctx, ids)
			}
		}
	}
}

// due returns the connected users to read now: those whose state will soon be too old, and a share
// of the others, the oldest first. This spreads the queries over time.
func (u *users) due(connected []string, now time.Time) (ids []string) {
	type one struct {
		id  string
		age time.Duration
	}
	list := make([]one, 0, len(connected))
	for _, id := range connected {
		age := u.ttl // of a user without stored state
		if k, ok := u.get(id); ok {
			age = now.Sub(k.read)
		}
		if age >= u.ttl/2 {
			list = append(list, one{id, age})
		}
	}
	slices.SortFunc(list, func(a, b one) int { return cmp.Compare(b.age, a.age) })
	part := (len(connected) + reviews - 1) / reviews
	for i, x := range list {
		if i >= part && x.age < u.ttl-2*u.ttl/reviews {
			break
		}
		ids = append(ids, x.id)
	}
	return ids
}
