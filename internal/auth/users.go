package auth

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/cache"
)

const (
	// maxUsers bounds the users remembered. One that is forgotten is read again
	// when next seen, or at the next change where it has open sockets.
	maxUsers = 1 << 17
	// userPatience is how long a token check waits for the user base.
	userPatience = 2 * time.Second
	// userQuiet is how long a user base that failed is not asked about users that
	// are remembered: about the one user at once, about all after userFailures in a row.
	userQuiet    = 5 * time.Second
	userFailures = 3
	// badUserKept is how long a user whose record cannot be read stays as last read.
	badUserKept = 5 * time.Minute
)

// users remembers the users whose tokens are in use, so that a token check asks
// the user base seldom, and not at all while it is down.
type users struct {
	base  broker.Users
	ttl   time.Duration
	start time.Time // what quiet counts from

	reads   atomic.Uint64 // counts reads begun, to tell an earlier answer from a later one
	changed atomic.Uint64 // what a read up to this one found is stale
	failed  atomic.Int64  // questions in a row that the base did not answer
	quiet   atomic.Int64  // the base is taken as down until so long after start

	telling [shards]sync.Mutex // held from the keeping of a user to the end of its hooks, so that these come in the order of reads
	shards  [shards]struct {
		mu    sync.RWMutex
		known cache.Map[string, *knownUser]
		_     [16]byte // a shard is a line of the cache
	}
}

// knownUser is what was read of a user. It does not change.
type knownUser struct {
	user  broker.User // as last read; only the ID of one that is gone
	gone  bool        // deleted, disabled or for long not readable
	read  time.Time
	order uint64    // the read it comes from
	bad   time.Time // since when its record cannot be read; zero: it can
	later time.Time // it is not asked about before
}

func newUsers(base broker.Users, ttl time.Duration) *users {
	u := &users{base: base, ttl: ttl, start: time.Now()}
	for i := range u.shards {
		u.shards[i].known = cache.New[string, *knownUser](maxUsers / shards)
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
	before, ok = x.known.Get(now.user.ID)
	if ok && before.order > order {
		return &now, true
	}
	now.order, now.read = order, time.Now()
	x.known.Put(now.user.ID, &now)
	return before, ok
}

// amend changes what is remembered of a user, unless a read after this one has ended before.
func (u *users) amend(id string, order uint64, change func(*knownUser)) {
	x := &u.shards[shardOf(id)]
	x.mu.Lock()
	defer x.mu.Unlock()
	if before, ok := x.known.Get(id); ok && before.order <= order {
		now := *before
		change(&now)
		x.known.Put(id, &now)
	}
}

// get is what is known of a user.
func (u *users) get(id string) (*knownUser, bool) {
	x := &u.shards[shardOf(id)]
	return recall(&x.mu, &x.known, id)
}

// user is the user with this id, as a token of the given version may see it: from
// memory if that is recent or the base is down. A memory older than the token is not enough.
func (s *Service) user(ctx context.Context, id string, version int64, now time.Time) (*broker.User, error) {
	k, enough := s.users.remembered(id, version, now)
	if enough {
		return k.result()
	}
	fresh, err := s.readUser(ctx, id)
	if err == nil {
		return fresh.result()
	}
	if ctx.Err() == nil { // not the caller's fault
		s.cfg.Logger.Warn("user not read, stays as last read", "user", id, "error", err)
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
	return k, recent || now.Before(k.later) || u.down(now)
}

// down says whether the base is taken as down.
func (u *users) down(now time.Time) bool { return int64(now.Sub(u.start)) < u.quiet.Load() }

// readUser asks the user base and notes the answer.
func (s *Service) readUser(ctx context.Context, id string) (knownUser, error) {
	asked, cancel := context.WithTimeout(ctx, userPatience)
	defer cancel()
	order := s.users.begin()
	user, err := s.cfg.Users.User(asked, id)
	k, err := s.answered(order, id, user, err)
	if err != nil && !errors.Is(err, broker.ErrBadUser) && ctx.Err() == nil {
		s.unanswered(order, id)
	}
	return k, err
}

// answered notes what the base said of a user. The error says that it did not tell who that is.
func (s *Service) answered(order uint64, id string, user broker.User, err error) (knownUser, error) {
	var k knownUser
	switch {
	case err == nil:
		user.ID = id
		k.user = user
	case errors.Is(err, broker.ErrNotFound), errors.Is(err, broker.ErrDisabled):
		k.user.ID, k.gone = id, true
	case errors.Is(err, broker.ErrBadUser):
		s.users.failed.Store(0)
		s.badUser(order, id)
		return k, err
	default:
		return k, err
	}
	s.users.failed.Store(0)
	s.note(order, k)
	return k, nil
}

// unanswered has the base left alone for a while, if only about some users that are remembered.
func (s *Service) unanswered(order uint64, ids ...string) {
	u, now := s.users, time.Now()
	for _, id := range ids {
		u.amend(id, order, func(k *knownUser) { k.later = now.Add(userQuiet) })
	}
	if u.failed.Add(1) >= userFailures {
		u.quiet.Store(int64(now.Sub(u.start) + userQuiet))
	}
}

// badUser keeps a user whose record cannot be read as it was, and for badUserKept only: what cannot be read may say
// that nothing is allowed any more.
func (s *Service) badUser(order uint64, id string) {
	k, ok := s.users.get(id)
	now := time.Now()
	if ok && !k.bad.IsZero() && now.Sub(k.bad) >= badUserKept {
		s.note(order, knownUser{user: broker.User{ID: id}, gone: true, bad: k.bad})
		return
	}
	s.users.amend(id, order, func(k *knownUser) {
		if k.bad.IsZero() {
			k.bad = now
		}
		k.order, k.read = order, now
	})
}

// note keeps a user as read and tells the hooks what changed.
func (s *Service) note(order uint64, now knownUser) {
	telling := &s.users.telling[shardOf(now.user.ID)]
	telling.Lock()
	defer telling.Unlock()
	before, ok := s.users.end(order, now)
	switch {
	case !ok && now.gone: // sockets may be open from when more was known
		s.cfg.OnRevokeUser(now.user.ID)
	case !ok || before.gone:
	case now.gone || now.user.Version > before.user.Version:
		s.cfg.Logger.Info("user disabled or changed, tokens of before are over", "user", now.user.ID)
		s.cfg.OnRevokeUser(now.user.ID)
	case !reflect.DeepEqual(now.user, before.user):
		s.cfg.OnRights(now.user)
	}
}
