package broker

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of what a user base may return, in bytes and entries.
const (
	maxID           = 64
	maxName         = 128
	maxScopes       = 64
	maxEntitlements = 256
)

// Check returns what is wrong with a user from an external base, without quoting secrets.
func (u *User) Check() error {
	if err := checkText("id", u.ID, maxID); err != nil {
		return err
	}
	if err := checkText("username", u.Username, maxName); err != nil {
		return err
	}
	if len(u.Scopes) > maxScopes || len(u.Entitlements) > maxEntitlements {
		return fmt.Errorf("user has more than %d scopes or %d entitlements", maxScopes, maxEntitlements)
	}
	for i, s := range u.Scopes {
		if s == "" || strings.ContainsFunc(s, notOfScope) || slices.Contains(u.Scopes[:i], s) {
			return fmt.Errorf("scope %q is not one word, or stands there twice", s)
		}
	}
	for i := range u.Entitlements {
		if err := u.Entitlements[i].Check(); err != nil {
			return err
		}
	}
	if l := u.Limits; min(l.Connections, l.Subscriptions, l.MessagesPerSecond, l.RequestsPerMinute) < 0 {
		return errors.New("a limit is negative")
	}
	return checkNetworks(u.Networks)
}

// notOfScope reports whether r is not allowed in a scope (RFC 6749, section 3.3).
func notOfScope(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }

// longestDelay is the maximum delay of delayed data.
const longestDelay = 7 * 24 * time.Hour

// Check returns what is wrong with an entitlement.
func (e *Entitlement) Check() error {
	switch {
	case checkText("market", e.Market, maxID) != nil:
		return errors.New("entitlement names no market")
	case e.Depth < -1:
		return fmt.Errorf("entitlement has depth %d; -1 is all levels", e.Depth)
	case e.Instruments < 0:
		return fmt.Errorf("entitlement has %d instruments; 0 is as many as there are", e.Instruments)
	case e.Delay < 0 || e.Delay > int(longestDelay/time.Second):
		return fmt.Errorf("entitlement has a delay of %d seconds", e.Delay)
	case !e.Until.IsZero() && !e.From.Before(e.Until):
		return errors.New("entitlement ends before it begins")
	}
	return nil
}

// Check returns what is wrong with an account from an external base.
func (a *Account) Check() error {
	for _, f := range []struct{ name, text string }{
		{"account id", a.ID}, {"account number", a.Number}, {"account type", a.Type},
		{"account status", a.Status}, {"account currency", a.Currency},
	} {
		if err := checkText(f.name, f.text, maxName); err != nil {
			return err
		}
	}
	return nil
}

func checkText(what, s string, most int) error {
	if s == "" || len(s) > most || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%s is not of 1 to %d bytes of text", what, most)
	}
	return nil
}

// Rights are granted to the members of a group.
type Rights struct {
	Scopes       []string
	Entitlements []Entitlement
	Limits       Limits         // for each, the largest of a user's groups applies
	Networks     []netip.Prefix // in addition to the user's own
}

// Membership is a group that a user belongs to.
type Membership struct {
	Group   string
	Granted bool // rights are configured for it
}

// Grant adds rights to the user's own. It does not retain memory of r.
func (u *User) Grant(r Rights) {
	for _, s := range r.Scopes {
		if !slices.Contains(u.Scopes, s) {
			u.Scopes = append(u.Scopes, s)
		}
	}
	for _, e := range r.Entitlements {
		if !slices.Contains(u.Entitlements, e) {
			u.Entitlements = append(u.Entitlements, e)
		}
	}
	for _, p := range r.Networks {
		if !slices.Contains(u.Networks, p) {
			u.Networks = append(u.Networks, p)
		}
	}
	u.Limits.Connections = max(u.Limits.Connections, r.Limits.Connections)
	u.Limits.Subscriptions = max(u.Limits.Subscriptions, r.Limits.Subscriptions)
	u.Limits.MessagesPerSecond = max(u.Limits.MessagesPerSecond, r.Limits.MessagesPerSecond)
	u.Limits.RequestsPerMinute = max(u.Limits.RequestsPerMinute, r.Limits.RequestsPerMinute)
}
