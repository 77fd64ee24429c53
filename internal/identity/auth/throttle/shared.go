package throttle

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
	// sharedPatience is how long a login waits for the shared limits.
	sharedPatience = time.Second
	// sharedQuiet is how long the shared limits are not used after a failure.
	sharedQuiet = 5 * time.Second
	// maxUnsettled bounds the queue of attempts that are not settled in the shared limits.
	maxUnsettled = 256
)

// sharing is the state of the shared limits on this node.
type sharing struct {
	limits Shared // nil: there are none

	mu    sync.Mutex
	down  bool
	probe time.Time // when one attempt may try the shared limits again
	late  []unsettled
}

// unsettled is an attempt that could not be settled. It may not have been charged.
type unsettled struct {
	reservation Reservation
	how         Settlement
}

// later queues a settlement until the shared limits work again. Attempts beyond maxUnsettled stay
// charged.
func (s *sharing) later(r Reservation, how Settlement) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.late) < maxUnsettled {
		s.late = append(s.late, unsettled{r, how})
	}
}

// due removes and returns the queued settlements.
func (s *sharing) due() []unsettled {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.late
	s.late = nil
	return list
}

// ask reports whether an attempt uses the shared limits.
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

// answered records whether the shared limits work and reports whether that has changed.
func (s *sharing) answered(ok bool, now time.Time) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	news = s.down == ok
	s.down, s.probe = !ok, now.Add(sharedQuiet)
	return news
}

// Attempt charges a password check to the limits of this node, then to the shared ones, and then to
// the Directory. Or it refuses the check and charges nothing. asks means that the client sent no
// one-time password. While the shared limits fail, this node uses half of its own: n nodes then
// allow up to n/2 times as much.
func (t *Limiter) Attempt(ctx context.Context, username string, from netip.Addr, asks bool) (*Attempt, *Error) {
	a, refused := t.password(ctx, username, from, asks)
	if refused == nil && t.sharing.ask(time.Now()) {
		a, refused = t.share(ctx, a, username, from, asks)
	}
	if refused != nil {
		return nil, refused
	}
	if err := ctx.Err(); err != nil {
		a.Complete(ctx, Refunded)
		return nil, unavailable(err)
	}
	if t.directory == nil {
		return a, nil
	}
	if refused := t.directory.Reserve(ctx, username, a.known); refused != nil {
		a.Complete(ctx, Refunded)
		return nil, refused
	}
	a.reserved = true
	return a, nil
}

// share charges an attempt to the shared limits. While they fail, it charges it to half of the
// limits of this node.
func (t *Limiter) share(ctx context.Context, a *Attempt, username string, from netip.Addr, asks bool) (*Attempt, *Error) {
	r := t.reservation(a, time.Now())
	// The request continues when the client disconnects, because the result of the charge must be
	// known.
	sharedCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedPatience)
	defer cancel()
	refusal, err := t.sharing.limits.Reserve(sharedCtx, r)
	if err != nil {
		t.sharing.later(r, Refunded)
		t.sharedAnswered(fmt.Errorf("reserve an attempt: %w", err))
		a.complete(Refunded)
		return t.password(ctx, username, from, asks)
	}
	t.sharedAnswered(nil)
	t.completeLate(sharedCtx)
	if refusal == nil {
		a.shared = &r
		return a, nil
	}
	a.complete(Refunded)
	reason := RateLimited
	if refusal.Account || len(r.Buckets) > refusal.Bucket && strings.HasPrefix(r.Buckets[refusal.Bucket].Key, accountBucket) {
		reason = TooManyFailures
	}
	return nil, &Error{Reason: reason, RetryAfter: refusal.Wait}
}

// completeLate settles the queued attempts.
func (t *Limiter) completeLate(ctx context.Context) {
	list := t.sharing.due()
	for i, u := range list {
		if err := t.sharing.limits.Settle(ctx, u.reservation, u.how); err != nil {
			for _, u := range list[i:] {
				t.sharing.later(u.reservation, u.how)
			}
			t.sharedAnswered(fmt.Errorf("settle an attempt late: %w", err))
			return
		}
	}
}

// Complete ends an attempt, first in the shared limits and then on this node, so that waiting
// attempts find it complete. Succeeded makes its location trusted. Further calls do nothing.
func (a *Attempt) Complete(ctx context.Context, how Settlement) {
	a.completeShared(ctx, how)
	a.complete(how)
}

func (a *Attempt) completeShared(ctx context.Context, how Settlement) {
	t := a.t
	if a.shared == nil || a.ended {
		return
	}
	if how > Refunded { // no failure
		how = Refunded
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sharedPatience)
	defer cancel()
	if err := t.sharing.limits.Settle(ctx, *a.shared, how); err != nil {
		if how != Failed {
			t.sharing.later(*a.shared, how)
		}
		t.sharedAnswered(fmt.Errorf("settle an attempt: %w", err))
	}
}

func (t *Limiter) sharedAnswered(err error) {
	if !t.sharing.answered(err == nil, time.Now()) {
		return
	}
	t.halve(err != nil)
	if err != nil {
		t.logger.Warn("shared limits failed, this node uses half of its own", "error", err)
	} else {
		t.logger.Info("shared limits work again")
	}
}

// reservation returns an attempt for the shared limits. It does not contain the username.
func (t *Limiter) reservation(a *Attempt, now time.Time) Reservation {
	name := a.account.username + "\x00" + a.account.place.String()
	r := Reservation{Now: now, Account: t.keyed("account", name), Free: t.limits.Load().free}
	_, _ = rand.Read(r.ID[:])
	for _, c := range a.charges {
		key := c.key.text()
		if c.key.level == levelFirstTry || c.key.level == levelRetry {
			h := t.keyed("account", c.key.account)
			key = fmt.Sprint(accountBucket, c.key.level == levelFirstTry, " ", hex.EncodeToString(h[:]))
		}
		if key != "" {
			whole := t.limits.Load().rates[c.key.level]
			r.Buckets = append(r.Buckets, Bucket{Key: key, Interval: whole.Interval, Burst: whole.Burst})
		}
	}
	return r
}

// accountBucket begins the keys of account buckets.
const accountBucket = "account "

// text returns the shared key of a bucket; "": it is not shared.
func (k bucketKey) text() string {
	switch k.level {
	case levelAddress:
		return "address " + k.place.String()
	case levelKnown:
		return "known " + k.place.String()
	case levelNetwork:
		return "network " + k.place.String()
	case levelGlobal:
		return "global"
	}
	return ""
}
