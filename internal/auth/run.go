package auth

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	housekeeping = time.Minute
	expireEvery  = 10 // rounds of housekeeping
	// An answer may still be on its way while the clock says it is over.
	revokedMargin = time.Minute
	// The clock of whoever revoked a family may differ from ours by so much.
	clocksApart = 5 * time.Minute
	// A watch of the Store that failed is begun again after the first, then twice as long, up to the second.
	watchAgain, watchSeldom = 100 * time.Millisecond, 5 * time.Second
	// DeadlineNear is how early Config.Expiring tells of a socket's family.
	DeadlineNear = 10 * time.Minute
	// familiesAtOnce is the most that a Store is asked for.
	familiesAtOnce = 1000
)

// Run learns what other processes revoke and refresh, forgets what has expired, reads changed users that could not
// be read when they changed, and those with open sockets whose changes nobody tells, and stores revocations that could not be stored when they
// came, until ctx ends; it then returns nil.
func (s *Service) Run(ctx context.Context) error {
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { s.watch(ctx) })
	if !s.cfg.Watched {
		watch.Go(func() { s.review(ctx) })
	}
	tick := time.NewTicker(housekeeping)
	defer tick.Stop()
	for round := 1; ; round++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s.readStale(ctx)
		s.storeRevoked(ctx)
		s.noteLeftOut(ctx)
		s.reread(ctx)
		s.moveDeadlines(ctx, time.Now())
		if round%expireEvery == 0 {
			s.expire(ctx, time.Now())
		}
	}
}

func (s *Service) expire(ctx context.Context, now time.Time) {
	past := now.Add(-s.cfg.AccessTTL - revokedMargin)
	s.revoked.forget(past)
	if n, err := s.cfg.Store.Expire(ctx, now, past); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("expired families were not deleted", "error", err)
	} else if n > 0 {
		s.cfg.Logger.Debug("expired families deleted", "families", n)
	}
}

// watch has the Store tell what is revoked elsewhere.
func (s *Service) watch(ctx context.Context) {
	for again := watchAgain; ; again = min(2*again, watchSeldom) {
		began := time.Now()
		err := s.watchOnce(ctx)
		if ctx.Err() != nil {
			return
		}
		s.cfg.Logger.Warn("revocations not watched, trying again", "error", err)
		if time.Since(began) > time.Minute {
			again = watchAgain
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(again):
		}
	}
}

// watchOnce watches until that fails. What was revoked between two watches, or before the first, is read
// when this one has begun, which it does not tell: so at once, and twice after a while.
func (s *Service) watchOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	reading.Go(func() {
		for _, wait := range []time.Duration{0, time.Second, 4 * time.Second} {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
			s.reread(ctx)
		}
	})
	return s.cfg.Store.Watch(ctx, s.toldRevoked)
}

// toldRevoked takes what was revoked, here or elsewhere.
func (s *Service) toldRevoked(list []Revocation) {
	for _, r := range list {
		s.familyOver(r.Family, r.At)
	}
}

func (s *Service) reread(ctx context.Context) {
	if err := s.readRevoked(ctx, s.familyOver); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("revoked families not read", "error", err)
	}
}

// readRevoked gives what was revoked since it did so last.
func (s *Service) readRevoked(ctx context.Context, give func(family string, at time.Time)) error {
	s.rereadMu.Lock()
	since := s.rereadAt
	s.rereadMu.Unlock()
	now := time.Now()
	if oldest := now.Add(-s.cfg.AccessTTL); since.Before(oldest) {
		since = oldest
	}
	list, err := s.cfg.Store.Revoked(ctx, since)
	if err != nil {
		return err
	}
	for _, r := range list {
		give(r.Family, r.At)
	}
	s.rereadMu.Lock()
	s.rereadAt = now.Add(-clocksApart)
	s.rereadMu.Unlock()
	return nil
}

// moveDeadlines tells of families with open sockets that were refreshed at another node, before those sockets close.
func (s *Service) moveDeadlines(ctx context.Context, now time.Time) {
	ids := s.cfg.Expiring()
	for len(ids) > 0 {
		some := ids[:min(len(ids), familiesAtOnce)]
		ids = ids[len(some):]
		families, err := s.cfg.Store.Families(ctx, some)
		if err != nil {
			if ctx.Err() == nil {
				s.cfg.Logger.Warn("families about to expire not read", "error", fmt.Errorf("%d families: %w", len(some), err))
			}
			return
		}
		for i := range families {
			s.moveDeadline(&families[i], now)
		}
	}
}

// moveDeadline tells of one family, unless the newest token is the one whose end is near.
func (s *Service) moveDeadline(f *Family, now time.Time) {
	if !f.Revoked.IsZero() {
		s.familyOver(f.ID, f.Revoked)
		return
	}
	expires := f.Used.Truncate(time.Second).Add(s.cfg.AccessTTL.Truncate(time.Second))
	if expires.After(now.Add(min(DeadlineNear, s.cfg.AccessTTL/2))) {
		s.cfg.OnRefresh(f.ID, expires)
	}
}
