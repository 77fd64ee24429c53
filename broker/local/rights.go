package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/audit"
)

// Rights are the rights that a user or group has of its own.
type Rights broker.Rights

// Limits of a user or group. Every subscription checks these rights.
const (
	maxEntitlements = 500
	maxScopes       = 50
	maxNetworks     = 100
	maxWord         = 64 // bytes of a scope, a market or a group name
)

// Check returns what is wrong with rights.
func (r *Rights) Check() error {
	if len(r.Scopes) > maxScopes || len(r.Entitlements) > maxEntitlements {
		return fmt.Errorf("there may be %d scopes and %d entitlements at most", maxScopes, maxEntitlements)
	}
	for i, s := range r.Scopes {
		if !isWord(s) {
			return fmt.Errorf("scope %q is not one word", s)
		}
		if slices.Contains(r.Scopes[:i], s) {
			return fmt.Errorf("scope %s is named twice", s)
		}
	}
	for i := range r.Entitlements {
		e := &r.Entitlements[i]
		if err := e.Check(); err != nil {
			return err
		}
		switch {
		case !isWord(e.Market):
			return fmt.Errorf("market %q is not one word", e.Market)
		case !e.Trades && !e.Quotes && e.Depth == 0:
			return fmt.Errorf("the entitlement to %s gives neither trades, quotes nor depth", e.Market)
		}
	}
	l := r.Limits
	if min(l.Connections, l.Subscriptions, l.MessagesPerSecond, l.RequestsPerMinute) < 0 {
		return errors.New("a limit is negative")
	}
	if len(r.Networks) > maxNetworks {
		return fmt.Errorf("there may be %d networks at most", maxNetworks)
	}
	for i, p := range r.Networks {
		if _, err := broker.ParseNetwork(p.String()); err != nil {
			return err
		}
		if slices.Contains(r.Networks[:i], p) {
			return fmt.Errorf("network %s is named twice", p)
		}
	}
	return nil
}

// isWord reports whether s is one word in lists, JSON and tables.
func isWord(s string) bool {
	return s != "" && len(s) <= maxWord && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}

// union returns a user's own rights together with those of groups, in new slices.
func union(own Rights, groups []Group) Rights {
	u := broker.User{Scopes: slices.Clone(own.Scopes), Entitlements: slices.Clone(own.Entitlements), Limits: own.Limits, Networks: slices.Clone(own.Networks)}
	for _, g := range groups {
		u.Grant(broker.Rights(g.Rights))
	}
	return Rights{Scopes: list(u.Scopes), Entitlements: list(u.Entitlements), Limits: u.Limits, Networks: u.Networks}
}

func sameEntitlement(x, y broker.Entitlement) bool {
	from, until := x.From.Equal(y.From), x.Until.Equal(y.Until)
	x.From, x.Until, y.From, y.Until = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return x == y && from && until
}

// storedRights has the columns of rights: scopes, entitlements, limits and networks.
type storedRights [4]string

// decode decodes columns of the database. Without networks, the slice is nil.
func (r *Rights) decode(stored storedRights) error {
	err := errors.Join(json.Unmarshal([]byte(stored[0]), &r.Scopes), json.Unmarshal([]byte(stored[1]), &r.Entitlements),
		json.Unmarshal([]byte(stored[2]), &r.Limits), json.Unmarshal([]byte(stored[3]), &r.Networks))
	if len(r.Networks) == 0 {
		r.Networks = nil
	}
	return err
}

// changes describes the differences from before, each in a few words.
func (r *Rights) changes(before Rights) (list []string) {
	for _, s := range r.Scopes {
		if !slices.Contains(before.Scopes, s) {
			list = append(list, "scope "+s)
		}
	}
	for _, s := range before.Scopes {
		if !slices.Contains(r.Scopes, s) {
			list = append(list, "without scope "+s)
		}
	}
	has := func(list []broker.Entitlement, e broker.Entitlement) bool {
		return slices.ContainsFunc(list, func(x broker.Entitlement) bool { return sameEntitlement(x, e) })
	}
	for _, e := range before.Entitlements {
		if !has(r.Entitlements, e) {
			list = append(list, "revoke "+Describe(e))
		}
	}
	for _, e := range r.Entitlements {
		if !has(before.Entitlements, e) {
			list = append(list, "grant "+Describe(e))
		}
	}
	for _, p := range r.Networks {
		if !slices.Contains(before.Networks, p) {
			list = append(list, "network "+p.String())
		}
	}
	for _, p := range before.Networks {
		if !slices.Contains(r.Networks, p) {
			list = append(list, "without network "+p.String())
		}
	}
	for _, l := range []struct {
		name     string
		old, now int
	}{
		{"connections", before.Limits.Connections, r.Limits.Connections}, {"subscriptions", before.Limits.Subscriptions, r.Limits.Subscriptions},
		{"messages_per_second", before.Limits.MessagesPerSecond, r.Limits.MessagesPerSecond},
		{"requests_per_minute", before.Limits.RequestsPerMinute, r.Limits.RequestsPerMinute},
	} {
		if l.old != l.now {
			list = append(list, l.name+"="+strconv.Itoa(l.now))
		}
	}
	return list
}

// Describe formats an entitlement: BYMA trades quotes depth=5 delay=900 until=2027-01-01.
func Describe(e broker.Entitlement) string {
	b := []string{e.Market}
	if e.Trades {
		b = append(b, "trades")
	}
	if e.Quotes {
		b = append(b, "quotes")
	}
	switch {
	case e.Depth < 0:
		b = append(b, "depth=all")
	case e.Depth > 0:
		b = append(b, "depth="+strconv.Itoa(e.Depth))
	}
	if e.Instruments > 0 {
		b = append(b, "instruments="+strconv.Itoa(e.Instruments))
	}
	if e.Delay > 0 {
		b = append(b, "delay="+strconv.Itoa(e.Delay))
	}
	if !e.From.IsZero() {
		b = append(b, "from="+shortTime(e.From))
	}
	if !e.Until.IsZero() {
		b = append(b, "until="+shortTime(e.Until))
	}
	return strings.Join(b, " ")
}

// shortTime formats a time as short as possible.
func shortTime(t time.Time) string {
	t = t.UTC()
	if t.Equal(t.Truncate(24 * time.Hour)) {
		return t.Format(time.DateOnly)
	}
	return t.Format(time.RFC3339)
}

// Covers reports whether x grants everything that e grants, with no more delay and for as long.
func Covers(x, e broker.Entitlement) bool {
	deep := x.Depth < 0 || e.Depth >= 0 && x.Depth >= e.Depth
	many := x.Instruments <= 0 || e.Instruments > 0 && x.Instruments >= e.Instruments
	long := x.Until.IsZero() || !e.Until.IsZero() && !x.Until.Before(e.Until)
	return (x.Market == "*" || x.Market == e.Market) && (x.Trades || !e.Trades) && (x.Quotes || !e.Quotes) &&
		deep && many && long && x.Delay <= e.Delay && !x.From.After(e.From)
}

// Granted returns the distinct entitlements of all users and groups.
func (b *Base) Granted(ctx context.Context) ([]broker.Entitlement, error) {
	ctx, cancel := b.sql.limit(ctx, askLimit)
	defer cancel()
	rows, err := b.reader.QueryContext(ctx, `SELECT entitlements FROM users UNION SELECT entitlements FROM groups`)
	if err != nil {
		return nil, unavailable("list what is granted", err)
	}
	lists, err := scanAll(rows, func() (list []broker.Entitlement, err error) { return list, rows.Scan(asJSON{&list}) })
	if err != nil {
		return nil, unavailable("list what is granted", err)
	}
	var r Rights
	for _, e := range slices.Concat(lists...) {
		r.Grant(e)
	}
	return r.Entitlements, nil
}

// EditRights changes a user's own rights (not those of groups) in one transaction, by calling edit
// with the current ones. It reports whether anything changed. Logins stay valid; a running gateway
// applies the change to them. Errors: broker.ErrNotFound, broker.ErrUnavailable, the error that
// edit returned, or an error that states why the new rights are invalid.
func (b *Base) EditRights(ctx context.Context, username string, edit func(*Rights) error) (changed bool, err error) {
	err = b.write(ctx, "change a user's rights", func(c *change) error {
		var id string
		var stored storedRights
		found, err := c.one(ctx, `SELECT id, scopes, entitlements, limits, networks FROM users WHERE username = ?`, username, &id, &stored[0], &stored[1], &stored[2], &stored[3])
		if err != nil {
			return err
		}
		if !found {
			return broker.ErrNotFound
		}
		changed, err = c.edit(ctx, edit, audit.GrantChanged, id, "", stored,
			`UPDATE users SET scopes = ?, entitlements = ?, limits = ?, networks = ? WHERE id = ?`, id)
		return err
	})
	return changed && err == nil, err
}

// edit changes stored rights and writes them with query, whose last parameter is key.
func (c *change) edit(ctx context.Context, edit func(*Rights) error, kind audit.Kind, user, owner string, stored storedRights, query, key string) (bool, error) {
	var before, now Rights
	if err := errors.Join(before.decode(stored), now.decode(stored)); err != nil {
		return false, unavailable(c.what, err)
	}
	if err := edit(&now); err != nil {
		return false, err
	}
	if err := now.Check(); err != nil {
		return false, err
	}
	what := now.changes(before)
	if len(what) == 0 {
		return false, nil
	}
	if _, err := c.exec(ctx, query, toJSON(list(now.Scopes)), toJSON(list(now.Entitlements)), toJSON(now.Limits), toJSON(list(now.Networks)), key); err != nil {
		return false, err
	}
	c.log(kind, user, owner+strings.Join(what, "; "))
	return true, nil
}

// SetRights replaces a user's own rights.
func (b *Base) SetRights(ctx context.Context, username string, r Rights) error {
	_, err := b.EditRights(ctx, username, func(now *Rights) error {
		*now = r
		return nil
	})
	return err
}

// Grant adds an entitlement to a user and reports whether that changed anything.
func (b *Base) Grant(ctx context.Context, username string, e broker.Entitlement) (bool, error) {
	return b.EditRights(ctx, username, func(r *Rights) error { r.Grant(e); return nil })
}

// Revoke removes the user's own entitlements that which selects, and returns them.
func (b *Base) Revoke(ctx context.Context, username string, which func(broker.Entitlement) bool) (revoked []broker.Entitlement, err error) {
	_, err = b.EditRights(ctx, username, func(r *Rights) error { revoked = r.Revoke(which); return nil })
	return revoked, err
}

// Grant adds an entitlement unless it exists.
func (r *Rights) Grant(e broker.Entitlement) {
	if !slices.ContainsFunc(r.Entitlements, func(x broker.Entitlement) bool { return sameEntitlement(x, e) }) {
		r.Entitlements = append(r.Entitlements, e)
	}
}

// Revoke removes the entitlements that which selects, and returns them.
func (r *Rights) Revoke(which func(broker.Entitlement) bool) (revoked []broker.Entitlement) {
	r.Entitlements = slices.DeleteFunc(r.Entitlements, func(e broker.Entitlement) bool {
		if which(e) {
			revoked = append(revoked, e)
			return true
		}
		return false
	})
	return revoked
}
