package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/clientaddr"
	"github.com/ruedahq/rueda/internal/ratelimit"
)

// A flood of refusals must not fill the disk: of each kind so many are written down a minute, of which one network has a
// share, and the rest are counted in one row a minute.
const (
	notedTogether = 120
	notedNetwork  = 20 // a sixth, so that whoever floods does not hide what others do
	maxNoted      = 1 << 14
	leftOutEvery  = time.Minute
)

// noted bounds one kind of event.
type noted struct {
	kind audit.Kind

	mu       sync.Mutex
	about    *ratelimit.Limiter[string] // what was written down of late
	networks *ratelimit.Limiter[netip.Prefix]
	all      time.Time
	left     int       // how many were left out
	told     time.Time // when that was written down last
}

func newNoted(kind audit.Kind) *noted {
	return &noted{kind: kind, about: ratelimit.NewLimiter[string](maxNoted), networks: ratelimit.NewLimiter[netip.Prefix](maxNoted)}
}

// due says whether an event from a network is to be written down. About something, "" if nothing, it is once a minute, and
// what is not for this reason alone is not counted as left out: the row says that it goes on.
func (n *noted) due(about string, network netip.Prefix, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if about != "" {
		if _, wait := n.about.Check(about, ratelimit.Per(1, time.Minute, 1), now); wait > 0 {
			return false
		}
	}
	together := ratelimit.Per(notedTogether, time.Minute, notedTogether)
	ahead := together.Ahead(n.all, now)
	if together.Wait(ahead) > 0 || !n.takeNetwork(network, now) {
		n.left++
		return false
	}
	n.all = now.Add(ahead + together.Interval)
	if about != "" {
		n.about.Take(about, ratelimit.Per(1, time.Minute, 1), now)
	}
	return true
}

// undo takes back a due that could not be written down: while nothing can, nothing counts as left out.
func (n *noted) undo(network netip.Prefix) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = n.all.Add(-time.Minute / notedTogether)
	n.networks.Refund(network, ratelimit.Per(notedNetwork, time.Minute, notedNetwork))
}

func (n *noted) takeNetwork(network netip.Prefix, now time.Time) bool {
	_, wait := n.networks.Take(network, ratelimit.Per(notedNetwork, time.Minute, notedNetwork), now)
	return wait == 0
}

// leftOut is how many were left out, if that is to be written down.
func (n *noted) leftOut(now time.Time) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left == 0 || now.Sub(n.told) < leftOutEvery && !now.Before(n.told) {
		return 0
	}
	count := n.left
	n.left, n.told = 0, now
	return count
}

// again counts as left out what could not be written down as such.
func (n *noted) again(count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.left += count
}

// noteLeftOut writes down how many refusals were left out.
func (s *Service) noteLeftOut(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	defer cancel()
	for _, n := range s.noted {
		now := time.Now()
		count := n.leftOut(now)
		if count == 0 {
			continue
		}
		e := audit.Event{Time: now, Kind: n.kind, Actor: "gateway", Detail: fmt.Sprintf("and %d more", count)}
		if err := s.cfg.Store.Append(ctx, e); err != nil {
			n.again(count)
			s.cfg.Logger.Warn("refusals not counted in the audit log", "reason", n.kind, "error", err)
		}
	}
}

// keyed is a keyed hash of what must not be told: of a name that is perhaps a password, typed in the wrong field.
func (s *Service) keyed(what, text string) (h Hash) {
	mac := hmac.New(sha256.New, s.cfg.AuditKey)
	mac.Write([]byte("rueda " + what + "\n" + text))
	mac.Sum(h[:0])
	return h
}

// namesake is how an audit row tells one name from another without telling either.
func (s *Service) namesake(username string) string {
	h := s.keyed("username", strings.ToLower(username))
	return " name " + hex.EncodeToString(h[:8])
}

// loginRefused writes down a password that did not log in, before that is answered, and the same for
// all: an unknown user must not be answered sooner than a known one. user is who it is about, if the user base told.
func (s *Service) loginRefused(ctx context.Context, reason string, login *broker.Login, user string, from Origin) error {
	// Whoever hangs up is written down all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	defer cancel()
	n, network := s.noted[audit.LoginRefused], clientaddr.Network(from.Address)
	if !n.due("", network, time.Now()) {
		s.noteLeftOut(ctx)
		return nil
	}
	err := s.cfg.Store.Append(ctx, audit.Event{
		Time: time.Now(), Kind: audit.LoginRefused, Actor: "client", User: user,
		Address: addressText(from), Client: clientText(from), Detail: reason + s.namesake(login.Username),
	})
	if err != nil {
		n.undo(network)
	}
	return err
}

// auditPatience is how long an answer waits for the audit log.
const auditPatience = 5 * time.Second

// loginThrottled writes down that a password was not even looked at.
func (s *Service) loginThrottled(ctx context.Context, refused *Error, username string, from Origin) {
	about := "address " + clientaddr.Client(from.Address).String()
	if refused.Reason == TooManyFailures {
		about = "account " + username
	}
	s.noteOnce(ctx, about, audit.Event{Kind: audit.LoginThrottled, Detail: refused.Reason + s.namesake(username)}, from)
}

// refreshRefused writes down a refresh token that was refused. A family that is unknown is written down by place.
func (s *Service) refreshRefused(ctx context.Context, why string, family Family, from Origin) {
	about := "family " + family.ID
	if family.ID == "" {
		about = "token " + clientaddr.Client(from.Address).String()
	}
	s.noteOnce(ctx, about, audit.Event{Kind: audit.RefreshRefused, User: family.UserID, Family: family.ID, Detail: why}, from)
}

// noteOnce appends an event about something, once a minute. The answer does not hang on it.
func (s *Service) noteOnce(ctx context.Context, about string, e audit.Event, from Origin) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	defer cancel()
	now := time.Now()
	if !s.noted[e.Kind].due(about, clientaddr.Network(from.Address), now) {
		return
	}
	e.Time, e.Actor, e.Address, e.Client = now, "client", addressText(from), clientText(from)
	if err := s.cfg.Store.Append(ctx, e); err != nil {
		s.cfg.Logger.Warn("refusal not written to the audit log", "reason", e.Kind, "error", err)
	}
}
