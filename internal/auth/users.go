package auth

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/broker"
)

const (
	// maxUsers bounds the users remembered. One that is forgotten is read again
	// when next seen, but a change to it no longer closes its open sockets.
	maxUsers = 1 << 17
	// userPatience is how long a token check waits for the user base.
	userPatience = 2 * time.Second
	// userQuiet is how long a user base that failed is not asked about users that
	// are remembered.
	userQuiet = 5 * time.Second
)

// users remembers the users whose tokens are in use, so that a token check asks
// the user base seldom, and not at all while it is down.
type users struct {
	base  broker.Users
	ttl   time.Duration
	start time.Time // what quiet counts from

	reads   atomic.Uint64 // counts reads begun, to tell an earlier answer from a later one
	changed atomic.Uint64 // what a read up to this one found is stale
	quiet   atomic.Int64  // the base is taken as down until so long after start

	shards [shards]struct {
		mu    sync.RWMutex
		known table[string, *knownUser]
		_     [16]byte // a shard is a line of the cache
	}
}

// knownUser is what was read of a user. It does not change.
type knownUser struct {
	user  broker.User // as last read; only the ID of one that is gone
	gone  bool        // deleted or disabled
	read  time.Time
	order uint64 // the read it comes from
}

func newUsers(base broker.Users, ttl time.Duration) *users {
	u := &users{base: base, ttl: ttl, start: time.Now()}
	for i := range u.shards {
		u.shards[i].known = newTable[string, *knownUser](maxUsers / shards)
	}
	return u
}

func (k *knownUser) result() (*broker.User, error) {
	if k.gone {
		return nil, refuse(TokenRevoked, errors.New("user may not log in any more"))
	}
	return &k.user, nil
}

// begin numbers a read of the user base.
func (u *users) begin() uint64 { return u.reads.Add(1) }

// end keeps what a read found, unless a later read has ended before, and returns
// what was known until now.
func (u *users) end(order uint64, now knownUser) (before *knownUser, ok bool) {
	x := &u.shards[shardOf(now.user.ID)]
	x.mu.Lock()
	defer x.mu.Unlock()
	before, ok = x.known.get(now.user.ID)
	if ok && before.order > order {
		return &now, true
	}
	now.order, now.read = order, time.Now()
	x.known.put(now.user.ID, &now)
	return before, ok
}

// get is what is known of a user.
func (u *users) get(id string) (*knownUser, bool) {
	x := &u.shards[shardOf(id)]
	x.mu.RLock()
	k, ok := x.known.peek(id)
	x.mu.RUnlock()
	if ok {
		return k, true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.known.get(id)
}

// user is the user with this id, as a token of the given version may see it: from
// memory if that is recent or the base is down. A memory older than the token is not enough.
func (s *Service) user(ctx context.Context, id string, version int64, now time.Time) (*broker.User, error) {
	u := s.users
	k, enough := u.remembered(id, version, now)
	if enough {
		return k.result()
	}
	fresh, err := s.readUser(ctx, id)
	if err == nil {
		return fresh.result()
	}
	if ctx.Err() == nil { // the base's fault, not the caller's
		u.quiet.Store(int64(time.Since(u.start) + userQuiet))
		s.cfg.Logger.Warn("user base unavailable, users stay as last read", "error", err)
	}
	if k == nil {
		return nil, unavailable(err)
	}
	return k.result()
}

// remembered is what is known of a user, nil if nothing is, and whether that is enough
// for a token of the given version.
func (u *users) remembered(id string, version int64, now time.Time) (k *knownUser, enough bool) {
	k, ok := u.get(id)
	if !ok {
		return nil, false
	}
	recent := k.order > u.changed.Load() && now.Sub(k.read) < u.ttl && (k.gone || k.user.Version >= version)
	return k, recent || int64(now.Sub(u.start)) < u.quiet.Load()
}

// readUser asks the user base and notes the answer.
func (s *Service) readUser(ctx context.Context, id string) (knownUser, error) {
	ctx, cancel := context.WithTimeout(ctx, userPatience)
	defer cancel()
	order := s.users.begin()
	user, err := s.cfg.Users.User(ctx, id)
	switch {
	case err == nil:
		user.ID = id
		k := knownUser{user: user}
		s.note(order, k)
		return k, nil
	case errors.Is(err, broker.ErrNotFound), errors.Is(err, broker.ErrDisabled):
		k := knownUser{user: broker.User{ID: id}, gone: true}
		s.note(order, k)
		return k, nil
	}
	return knownUser{}, err
}

// note keeps a user as read and tells the hooks what changed.
func (s *Service) note(order uint64, now knownUser) {
	before, ok := s.users.end(order, now)
	switch {
	case !ok || before.gone:
	case now.gone || now.user.Version > before.user.Version:
		s.cfg.Logger.Info("user disabled or changed, tokens of before are over", "user", now.user.ID)
		s.cfg.OnRevokeUser(now.user.ID)
	case !reflect.DeepEqual(now.user, before.user):
		s.cfg.OnRights(now.user)
	}
}

// UsersChanged says that the user base has changed. Every user that is remembered
// is read again, now or, where the base fails, by Run or when next needed;
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
	for _, id := range s.users.stale() {
		if _, err := s.readUser(ctx, id); err != nil {
			if ctx.Err() == nil {
				s.cfg.Logger.Warn("changed users not read", "error", err)
			}
			return
		}
	}
}

// stale are the users whose memory may be of before the last change.
func (u *users) stale() (ids []string) {
	changed := u.changed.Load()
	for i := range u.shards {
		x := &u.shards[i]
		x.mu.RLock()
		for id, k := range x.known.all() {
			if k.order <= changed {
				ids = append(ids, id)
			}
		}
		x.mu.RUnlock()
	}
	return ids
}
