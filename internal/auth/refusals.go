package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/audit"
)

// Refusals that cost an attacker nothing are written down seldom, or a flood of them would fill the disk: once a
// minute for each account, place or family, and so often a minute altogether.
const (
	notedTogether = 120
	maxNoted      = 1 << 14
)

// noted are the refusals that were written down of late.
type noted struct {
	mu    sync.Mutex
	about table[string, time.Time]
	all   time.Time
}

// due says whether a refusal about this is to be written down.
func (n *noted) due(about string, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	together := perMinute(notedTogether, notedTogether)
	even := together.since(n.all, now).Add(together.interval)
	if even.Sub(now) > together.burst || take(&n.about, perMinute(1, 1), about, now) > 0 {
		return false
	}
	n.all = even
	return true
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
	return s.cfg.Store.Append(ctx, audit.Event{
		Time: time.Now(), Kind: audit.LoginRefused, Actor: "client", User: user,
		Address: addressText(from), Client: clientText(from), Detail: reason + s.namesake(login.Username),
	})
}

// auditPatience is how long an answer waits for the audit log.
const auditPatience = 5 * time.Second

// loginThrottled writes down that a password was not even looked at.
func (s *Service) loginThrottled(ctx context.Context, refused *Error, username string, from Origin) {
	about := "address " + placeOf(from.Address).String()
	if refused.Reason == TooManyFailures {
		about = "account " + username
	}
	s.noteOnce(ctx, about, audit.Event{Kind: audit.LoginThrottled, Detail: refused.Reason + s.namesake(username)}, from)
}

// refreshRefused writes down a refresh token that was refused. A family that is unknown is written down by place.
func (s *Service) refreshRefused(ctx context.Context, why string, family Family, from Origin) {
	about := "family " + family.ID
	if family.ID == "" {
		about = "token " + placeOf(from.Address).String()
	}
	s.noteOnce(ctx, about, audit.Event{Kind: audit.RefreshRefused, User: family.UserID, Family: family.ID, Detail: why}, from)
}

// noteOnce appends an event about something, once a minute. The answer does not hang on it.
func (s *Service) noteOnce(ctx context.Context, about string, e audit.Event, from Origin) {
	now := time.Now()
	if !s.noted.due(about, now) {
		return
	}
	e.Time, e.Actor, e.Address, e.Client = now, "client", addressText(from), clientText(from)
	if err := s.cfg.Store.Append(ctx, e); err != nil && ctx.Err() == nil {
		s.cfg.Logger.Warn("refusal not written to the audit log", "reason", e.Kind, "error", err)
	}
}
