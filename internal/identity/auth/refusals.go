package auth

import (
	"cmp"
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
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/base/clientaddr"
	"github.com/ruedahq/rueda/internal/base/ratelimit"
)

// Limits for audit rows of refused logins, so that a flood does not fill the disk. Each kind of
// event has a limit of rows a minute, and one network gets only a share of it. One row a minute
// counts the events that were left out.
const (
	notedTogether = 120
	notedNetwork  = 20 // a sixth, so that a flood from one network does not hide the events of others
	maxNoted      = 1 << 14
	leftOutEvery  = time.Minute
)

// noted bounds the audit rows of one kind of event.
type noted struct {
	kind audit.Kind

	mu         sync.Mutex
	about      *ratelimit.Limiter[string] // what was recorded recently
	networks   *ratelimit.Limiter[netip.Prefix]
	all        time.Time
	left       int       // the number of events that were left out
	reportedAt time.Time // when that number was last recorded
}

func newNoted(kind audit.Kind) *noted {
	return &noted{kind: kind, about: ratelimit.NewLimiter[string](maxNoted), networks: ratelimit.NewLimiter[netip.Prefix](maxNoted)}
}

// due reports whether an event from a network is recorded. Events with the same about, except "",
// are recorded once a minute. An event that is skipped only for this reason does not count as left
// out, because the recorded row stands for it.
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

// undo reverts a due whose row could not be written. While no row can be written, no event counts
// as left out.
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

// leftOut returns the number of events that were left out, or 0 if it is not time to record it.
func (n *noted) leftOut(now time.Time) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.left == 0 || now.Sub(n.reportedAt) < leftOutEvery && !now.Before(n.reportedAt) {
		return 0
	}
	count := n.left
	n.left, n.reportedAt = 0, now
	return count
}

// again restores a count whose row could not be written.
func (n *noted) again(count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.left += count
}

// noteLeftOut records how many refusals were left out.
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

// keyedHash is Service.keyed.
type keyedHash func(what, text string) Hash

// keyed returns the hash of a text under the key of the installation. It hides a text that must not
// be revealed, such as a name that may be a password typed in the wrong field, or is a MAC.
func (s *Service) keyed(what, text string) (h Hash) {
	mac := hmac.New(sha256.New, s.cfg.AuditKey)
	mac.Write([]byte("rueda " + what + "\n" + text))
	mac.Sum(h[:0])
	return h
}

// namesake returns a hash that distinguishes names in audit rows without revealing them.
func namesake(s *Service, username string) string {
	h := s.keyed("username", strings.ToLower(username))
	return " name " + hex.EncodeToString(h[:8])
}

// loginRefused records a refused password before the answer is sent. It does so for unknown and
// known users alike, so that the time of the answer does not differ. user is the user of the
// attempt if the user base identified one.
func (s *Service) loginRefused(ctx context.Context, kind audit.Kind, detail string, login *broker.Login, user string, from Origin) error {
	// The refusal of a client that has disconnected is recorded too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	defer cancel()
	n, network := s.noted[kind], clientaddr.Network(from.Address)
	if !n.due("", network, time.Now()) {
		s.noteLeftOut(ctx)
		return nil
	}
	err := s.cfg.Store.Append(ctx, audit.Event{
		Time: time.Now(), Kind: kind, Actor: "client", User: user,
		Address: addressText(from), Client: clientText(from), Detail: detail + namesake(s, login.Username),
	})
	if err != nil {
		n.undo(network)
	}
	return err
}

// auditPatience is how long an answer waits for the audit log.
const auditPatience = 5 * time.Second

// loginThrottled records an attempt that was refused without checking the password.
func (s *Service) loginThrottled(ctx context.Context, reason, username string, from Origin) {
	about := "address " + clientaddr.Client(from.Address).String()
	if reason == TooManyFailures {
		about = "account " + username
	}
	s.noteOnce(ctx, about, audit.Event{Kind: audit.LoginThrottled, Detail: reason + namesake(s, username)}, from)
}

// refreshRefused records a refused refresh token, by client network if the family is unknown.
func (s *Service) refreshRefused(ctx context.Context, why string, family Family, from Origin) {
	about := "family " + family.ID
	if family.ID == "" {
		about = "token " + clientaddr.Client(from.Address).String()
	}
	s.noteOnce(ctx, about, audit.Event{Kind: audit.RefreshRefused, User: family.UserID, Family: family.ID, Detail: why}, from)
}

// RecordAdmin records a request of an administrator, a refused one, or a refused producer, once a
// minute for each actor, address, user and detail.
func (s *Service) RecordAdmin(ctx context.Context, e audit.Event, from Origin) {
	about := strings.Join([]string{e.Actor, clientaddr.Client(from.Address).String(), e.User, e.Detail}, "\n")
	s.noteOnce(ctx, about, e, from)
}

// noteOnce appends an event about something once a minute. The answer does not depend on it.
func (s *Service) noteOnce(ctx context.Context, about string, e audit.Event, from Origin) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditPatience)
	defer cancel()
	now := time.Now()
	if !s.noted[e.Kind].due(about, clientaddr.Network(from.Address), now) {
		return
	}
	e.Time, e.Actor, e.Address, e.Client = now, cmp.Or(e.Actor, "client"), addressText(from), clientText(from)
	if err := s.cfg.Store.Append(ctx, e); err != nil {
		s.cfg.Logger.Warn("refusal not written to the audit log", "reason", e.Kind, "error", err)
	}
}
