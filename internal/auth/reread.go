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
	// usersAtOnce is how many questions about users are on their way after a change, and userPage how many users one is
	// about where the base can answer so.
	usersAtOnce = 8
	userPage    = 256
	// maxUnanswered is after how many questions in a row without an answer the rest is left for later.
	maxUnanswered = 16
	// reviews is how often in Config.UserTTL users with open sockets are looked at, a part of them each time.
	reviews = 12
)

// UsersChanged says that the user base has changed. Every user that is remembered or has open sockets
// is read again, those with open sockets first, now or, where the base fails, by Run or when next needed;
// OnRevokeUser and OnRights tell what became of them.
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

// stale are the users whose memory may be of before the last change, or whom nothing is known of any more though they are
// connected; the connected first.
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

// readMany reads users again, several at once and in pages where the base can. One who cannot be read keeps nobody else
// from being read. It gives up when ctx ends or the base does not answer.
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
					s.cfg.Logger.Warn("user not read, stays as last read", "user", some[0], "of", len(some), "error", err)
				}
			}
		})
	}
	all.Wait()
	if left := len(ids) - int(next.Load()); left > 0 && ctx.Err() == nil {
		s.cfg.Logger.Warn("user base unavailable, users stay as last read", "users", left)
	}
}

// readPage is readUser for several. The error is that of the question.
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
			s.cfg.Logger.Warn("user not read, stays as last read", "user", id, "error", err)
		}
	}
	return nil
}

// review reads users with open sockets again, each before it was taken as read for Config.UserTTL, until ctx ends. Nobody
// else does where a socket asks for nothing and the base tells of no changes.
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

// due are those of the connected users to read now: whose memory is about to be too old, and beside them a part of
// the others, the oldest first, so that it comes to that for few at a time.
func (u *users) due(connected []string, now time.Time) (ids []string) {
	type one struct {
		id  string
		age time.Duration
	}
	list := make([]one, 0, len(connected))
	for _, id := range connected {
		age := u.ttl // of one that was forgotten
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
