package auth

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/cache"
)

const (
	// maxUsers bounds the number of remembered users. A forgotten user is read again at the next
	// request, or at the next change if the user has open sockets.
	maxUsers = 1 << 17
	// userPatience is how long a token check waits for the user base.
	userPatience = 2 * time.Second
	// userQuiet is how long the user base is not queried after an error: about that one user after
	// one error, and about all remembered users after userFailures consecutive errors.
	userQuiet    = 5 * time.Second
	userFailures = 3
	// badUserKept is how long the last state of a user is used when the record cannot be read any
	// more.
	badUserKept = 5 * time.Minute
)

// users remembers the users whose tokens are in use, so that a token check rarely queries the user
// base, and never while it is down.
type users struct {
	base  broker.Users
	ttl   time.Duration
	start time.Time // quiet is relative to it

	reads   atomic.Uint64 // number of reads that were started; orders their answers
	changed atomic.Uint64 // reads up to this number are stale
	failed  atomic.Int64  // consecutive queries without an answer
	quiet   atomic.Int64  // the user base is treated as down until this long after start

	notify [shards]sync.Mutex // held while a user is stored and its hooks run, so that hooks run in the order of reads
	shards [shards]struct {
		mu    sync.RWMutex
		known cache.Map[string, *knownUser]
		_     [16]byte // fills a cache line
	}
}

// knownUser is the last state of a user that was read. It is immutable.
type knownUser struct {
	user  broker.User // as last read; only the ID of a deleted user
	gone  bool        // deleted, disabled, or not readable for a long time
	read  time.Time
	order uint64    // number of the read that returned it
	bad   time.Time // since when its record cannot be read; zero: it can
	later time.Time // when the user base may be queried about this user again
}

func newUsers(base broker.Users, ttl time.Duration) *users {
	u := &users{base: base, ttl: ttl, start: time.Now()}
	for i := range u.shards {
		u.shards[i].known = cache.New[string, *knownUser](maxUsers / shards)
	}
	return u
}

func (k *knownUser) result() (*broker.User, error) {
	if k.gone || !k.user.Expires.IsZero() && !time.Now().Before(k.user.Expires) {
		return nil, refuse(TokenRevoked, errors.New("user may not log in any more"))
	}
	return &k.user, nil
}

// begin numbers a read of the user base.
func (u *users) begin() uint64 { return u.reads.Add(1) }

// end stores the result of a read, unless a later read has already ended. It returns the previous
// state.
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

// amend changes the stored state of a user, unless a later read has already ended.
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

// get returns the stored state of a user, if there is one.
func (u *users) get(id string) (*knownUser, bool) {
	x := &u.shards[shardOf(id)]
	x.mu.RLock()
	k, ok := x.known.Peek(id)
	x.mu.RUnlock()
	if ok {
		return k, true
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.known.Get(id)
}

// user returns the user with this id for a token of the given version. It uses the stored state if
// that is recent enough or the user base is down. A state that is older than the token is not
// enough.
func (s *Service) user(ctx context.Context, id string, version int64, now time.Time) (*broker.User, error) {
	k, enough := s.users.remembered(id, version, now)
	if enough {
		return k.result()
	}
	fresh, err := s.readUser(ctx, id)
	if err == nil {
		return fresh.result()
	}
	if ctx.Err() == nil { // the failure is not due to the caller
		s.cfg.Logger.Warn("user not read, keeping the last state", "user", id, "error", err)
	}
	if k == nil {
		return nil, unavailable(err)
	}
	return k.result()
}

// remembered returns what is cached about a user, or nil. enough is true if the cache may decide
// about a token of this version: it is recent, or the user base is down, so that nothing newer can
// be had.
func (u *users) remembered(id string, version int64, now time.Time) (k *knownUser, enough bool) {
	k, ok := u.get(id)
	if !ok {
		return nil, false
	}
	recent := k.order > u.changed.Load() && now.Sub(k.read) < u.ttl && (k.gone || k.user.Version >= version)
	return k, recent || now.Before(k.later) || u.down(now)
}

// down reports whether the user base is treated as down.
func (u *users) down(now time.Time) bool { return int64(now.Sub(u.start)) < u.quiet.Load() }

// readUser queries the user base and stores the answer.
func (s *Service) readUser(ctx context.Context, id string) (knownUser, error) {
	asked, cancel := context.WithTimeout(ctx, userPatience)
	defer cancel()
	order := s.users.begin()
	user, err := s.cfg.Users.User(asked, id)
	k, err := s.answered(order, id, user, err)
	s.gone.end(ctx, s, false)
	if err != nil && !errors.Is(err, broker.ErrBadUser) && ctx.Err() == nil {
		s.unanswered(order, id)
	}
	return k, err
}

// answered stores an answer of the user base. It returns an error if the answer does not identify
// the user.
func (s *Service) answered(order uint64, id string, user broker.User, err error) (knownUser, error) {
	var k knownUser
	switch {
	case err == nil:
		user.ID = id
		k.user = user
	case errors.Is(err, broker.ErrNotFound), errors.Is(err, broker.ErrDisabled), errors.Is(err, broker.ErrEnrolmentRequired):
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

// unanswered stops queries of the user base for a while, or, after a single error, those for these
// users.
func (s *Service) unanswered(order uint64, ids ...string) {
	u, now := s.users, time.Now()
	for _, id := range ids {
		u.amend(id, order, func(k *knownUser) { k.later = now.Add(userQuiet) })
	}
	if u.failed.Add(1) >= userFailures {
		u.quiet.Store(int64(now.Sub(u.start) + userQuiet))
	}
}

// badUser keeps the last state of a user whose record cannot be read, for badUserKept only: the new
// record may remove rights.
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

// note stores a user as read and calls the hooks for what changed. goneUsers.end revokes the
// families of a user who is gone now.
func (s *Service) note(order uint64, now knownUser) {
	mu := &s.users.notify[shardOf(now.user.ID)]
	mu.Lock()
	defer mu.Unlock()
	before, ok := s.users.end(order, now)
	if k, known := s.users.get(now.user.ID); known { // a later read may have ended first
		s.ends.set(k.user.ID, k.user.Expires)
	}
	if now.gone && now.bad.IsZero() && (!ok || !before.gone || !before.bad.IsZero()) {
		s.gone.add(now.user.ID)
	}
	switch {
	case !ok && now.gone: // sockets may be open from an earlier login
		s.cfg.OnRevokeUser(now.user.ID)
	case !ok || before.gone:
	case now.gone || now.user.Version > before.user.Version:
		s.cfg.Logger.Info("user disabled or changed, older tokens are invalid", "user", now.user.ID)
		s.cfg.OnRevokeUser(now.user.ID)
	case !reflect.DeepEqual(now.user, before.user):
		s.cfg.OnRights(now.user)
	}
}
