package auth

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"
)

const (
	// sharedPatience is how long a login waits for the limits that nodes share.
	sharedPatience = time.Second
	// sharedQuiet is how long shared limits that failed are not asked.
	sharedQuiet = 5 * time.Second
	// maxUnsettled bounds the attempts that are yet to be settled where limits are shared.
	maxUnsettled = 256
)

// sharing is what a node knows of the limits that it shares with others.
type sharing struct {
	limits SharedLimits // nil: there are none

	mu    sync.Mutex
	down  bool
	probe time.Time // when one attempt may ask again
	late  []unsettled
}

// unsettled is an attempt whose end could not be told, or of which it is not even known whether it was charged.
type unsettled struct {
	reservation Reservation
	how         Settlement
}

// later keeps the end of an attempt until the shared limits work again. What is too much stays charged.
func (s *sharing) later(r Reservation, how Settlement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.late) < maxUnsettled {
		s.late = append(s.late, unsettled{r, how})
	}
}

// due are the attempts that are yet to be settled. They are handed out once.
func (s *sharing) due() []unsettled {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.late
	s.late = nil
	return list
}

// ask says whether an attempt is to ask the shared limits.
func (s *sharing) ask(now time.Time) bool {
	if s.limits == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down && now.Before(s.probe) {
		return false
	}
	if s.down {
		s.probe = now.Add(sharedQuiet)
	}
	return true
}

// answered notes whether the shared limits did, and says whether that is news.
func (s *sharing) answered(ok bool, now time.Time) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news = s.down == ok
	s.down, s.probe = !ok, now.Add(sharedQuiet)
	return news
}

// attempt charges an attempt at a password to this node's limits, and then to those shared with others. While
// these fail, this node takes half of what it may: with n nodes n/2 times as much gets through as should,
// never everything.
func (s *Service) attempt(ctx context.Context, username string, from netip.Addr, asks bool) (*attempt, *Error) {
	a, refused := s.throttle.password(ctx, username, from, asks)
	if refused != nil || !s.sharing.ask(time.Now()) {
		return a, refused
	}
	r := s.reservation(a, time.Now())
	// A client that hangs up does not cut this short: it must be known whether the attempt was charged.
	sharedCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedPatience)
	defer cancel()
	refusal, err := s.sharing.limits.Reserve(sharedCtx, r)
	if err != nil {
		s.sharing.later(r, Refunded)
		s.sharedAnswered(fmt.Errorf("reserve an attempt: %w", err))
		a.settle(Refunded)
		return s.throttle.password(ctx, username, from, asks)
	}
	s.sharedAnswered(nil)
	s.settleLate(sharedCtx)
	if refusal == nil {
		a.shared = &r
		return a, nil
	}
	a.settle(Refunded)
	if refusal.Account || len(r.Buckets) > refusal.Bucket && strings.HasPrefix(r.Buckets[refusal.Bucket].Key, accountBucket) {
		return nil, &Error{Reason: TooManyFailures, RetryAfter: max(refusal.Wait, s.throttle.pollShared(username, from, time.Now()))}
	}
	return nil, &Error{Reason: RateLimited, RetryAfter: refusal.Wait}
}

// settleLate settles what could not be settled while the shared limits failed.
func (s *Service) settleLate(ctx context.Context) {
	list := s.sharing.due()
	for i, u := range list {
		if err := s.sharing.limits.Settle(ctx, u.reservation, u.how); err != nil {
			for _, u := range list[i:] {
				s.sharing.later(u.reservation, u.how)
			}
			s.sharedAnswered(fmt.Errorf("settle an attempt late: %w", err))
			return
		}
	}
}

// settle ends an attempt here and where limits are shared: there first, so that
// what waits here for its outcome finds it settled.
func (s *Service) settle(ctx context.Context, a *attempt, how Settlement) {
	s.settleShared(ctx, a, how)
	a.settle(how)
}

// confirm ends an attempt whose password was right and that lacks the second factor.
func (s *Service) confirm(ctx context.Context, a *attempt) {
	s.settleShared(ctx, a, Refunded)
	a.confirm()
}

// giveUp ends an attempt that the user base did not answer.
func (s *Service) giveUp(ctx context.Context, a *attempt) {
	s.settleShared(ctx, a, Refunded)
	a.unanswered()
}

func (s *Service) settleShared(ctx context.Context, a *attempt, how Settlement) {
	if a.shared == nil || a.ended {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedPatience)
	defer cancel()
	if err := s.sharing.limits.Settle(ctx, *a.shared, how); err != nil {
		if how != Failed {
			s.sharing.later(*a.shared, how)
		}
		s.sharedAnswered(fmt.Errorf("settle an attempt: %w", err))
	}
}

func (s *Service) sharedAnswered(err error) {
	if !s.sharing.answered(err == nil, time.Now()) {
		return
	}
	s.throttle.halve(err != nil)
	if err != nil {
		s.cfg.Logger.Warn("limits shared between nodes fail, this one takes half of what it may", "error", err)
	} else {
		s.cfg.Logger.Info("limits shared between nodes work again")
	}
}

// reservation is an attempt as shared limits see it. They do not learn the username.
func (s *Service) reservation(a *attempt, now time.Time) Reservation {
	name := a.account.username + "\x00" + a.account.place.String()
	r := Reservation{Now: now, Account: s.keyed("account", name), Free: s.throttle.free}
	_, _ = rand.Read(r.ID[:])
	for _, c := range a.charges {
		key := c.key.text()
		if c.key.level == ofFirst || c.key.level == ofAgain {
			h := s.keyed("account", c.key.account)
			key = fmt.Sprint(accountBucket, c.key.level == ofFirst, " ", hex.EncodeToString(h[:]))
		}
		if key != "" {
			whole := s.throttle.rates[c.key.level]
			r.Buckets = append(r.Buckets, Bucket{Key: key, Interval: whole.Interval, Burst: whole.Burst})
		}
	}
	return r
}

// accountBucket begins the shared names of the buckets of accounts.
const accountBucket = "account "

// text is the name of a bucket among shared ones; "" for one that is not shared.
func (k bucketKey) text() string {
	switch k.level {
	case ofAddress:
		return "address " + k.place.String()
	case ofKnown:
		return "known " + k.place.String()
	case ofNetwork:
		return "network " + k.place.String()
	case ofAll:
		return "global"
	}
	return ""
}
