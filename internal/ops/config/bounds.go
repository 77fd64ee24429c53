package config

import (
	"net/netip"
	"time"
)

// Limits of values that have no other limit, to detect typing errors and overflows.
const (
	day          = 24 * time.Hour
	maxAccessTTL = 7 * day // rights would be as old without a refresh
	maxGrace     = time.Hour
	maxLogin     = 10 * 365 * day
	maxTimeout   = day

	maxPasswordSlots = 256    // of 19 MiB each, and useless above the number of cores
	maxSessions      = 10_000 // of a user: each login reads all of them
)

// checkBounds finds values that are out of range.
func (c *mainFile) checkBounds(doc *document) {
	for _, d := range []struct {
		key   string
		value duration
		most  time.Duration
		name  string
	}{
		{"auth.access_ttl", c.Auth.AccessTTL, maxAccessTTL, "168h, which is a week"},
		{"auth.grace_period", c.Auth.GracePeriod, maxGrace, "1h"},
		{"auth.refresh_ttl", c.Auth.RefreshTTL, maxLogin, "87600h, which is ten years"},
		{"auth.console_idle", c.Auth.ConsoleIdle, maxLogin, "87600h, which is ten years"},
		{"auth.family_max_age", c.Auth.FamilyMaxAge, maxLogin, "87600h, which is ten years"},
		{"stream.auth_timeout", c.Stream.AuthTimeout, maxTimeout, "24h"},
		{"stream.ping_interval", c.Stream.PingInterval, maxTimeout, "24h"},
		{"stream.pong_timeout", c.Stream.PongTimeout, maxTimeout, "24h"},
	} {
		if time.Duration(d.value) > d.most {
			doc.wrong(d.key, "must be at most %s", d.name)
		}
	}
	for _, n := range []struct {
		key         string
		value, most int
	}{
		{"auth.password_slots", c.Auth.PasswordSlots, maxPasswordSlots},
		{"auth.max_sessions", c.Auth.MaxSessions, maxSessions},
	} {
		if n.value < 0 {
			doc.wrong(n.key, "must not be negative; leave it out for the default")
		}
		if n.value > n.most {
			doc.wrong(n.key, "must be at most %d", n.most)
		}
	}
}

// tooWide reports whether a network is implausibly large for proxies, such as half of all
// addresses.
func tooWide(p netip.Prefix) bool {
	bits, least := p.Bits(), 8
	switch {
	case p.Addr().Is4In6():
		bits -= 96
	case p.Addr().Is6() && p.Addr().IsPrivate():
		least = 7 // fc00::/7 is not routed on the internet
	case p.Addr().Is6():
		least = 16
	}
	return bits < least
}
