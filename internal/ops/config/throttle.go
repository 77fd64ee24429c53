package config

import (
	"time"

	"github.com/ruedahq/rueda/gateway"
)

// throttleConfig is the table [throttle]: limits of failed logins other than those of one address,
// which are in [limits].
type throttleConfig struct {
	NetworkPerMinute   int `toml:"network_per_minute"`
	GlobalPerMinute    int `toml:"global_per_minute"`
	AccountFree        int `toml:"account_free"`
	RefreshesPerMinute int `toml:"refreshes_per_minute"`
	RefreshBurst       int `toml:"refresh_burst"`

	UserRefreshesPerMinute int      `toml:"user_refreshes_per_minute"`
	UserRefreshBurst       int      `toml:"user_refresh_burst"`
	AccountLoginsPerMinute int      `toml:"account_logins_per_minute"`
	AccountLoginBurst      int      `toml:"account_login_burst"`
	AccountFailures        int      `toml:"account_failures"`
	AccountFailureWindow   duration `toml:"account_failure_window"`
}

// ldapFailures is the default of throttle.account_failures for users of type ldap. It is lower than
// any sensible threshold at which a directory locks an account.
const ldapFailures = 2

// checkThrottle finds limits that would lock out everybody.
func (c *mainFile) checkThrottle(doc *document) {
	t := &c.Throttle
	for _, n := range []struct {
		key   string
		value int
	}{
		{"throttle.network_per_minute", t.NetworkPerMinute}, {"throttle.global_per_minute", t.GlobalPerMinute},
		{"throttle.account_free", t.AccountFree},
		{"throttle.refreshes_per_minute", t.RefreshesPerMinute}, {"throttle.refresh_burst", t.RefreshBurst},
		{"throttle.user_refreshes_per_minute", t.UserRefreshesPerMinute}, {"throttle.user_refresh_burst", t.UserRefreshBurst},
		{"throttle.account_logins_per_minute", t.AccountLoginsPerMinute}, {"throttle.account_login_burst", t.AccountLoginBurst},
		{"throttle.account_failures", t.AccountFailures},
	} {
		if n.value < 0 {
			doc.wrong(n.key, "must not be negative; leave it out for the default")
		}
		if n.value > MaxCount {
			doc.wrong(n.key, "must be at most %d", MaxCount)
		}
	}
	if w := time.Duration(t.AccountFailureWindow); w != 0 && (w < time.Minute || w > 24*time.Hour) {
		doc.wrong("throttle.account_failure_window", "must be from 1m to 24h")
	}
	for _, n := range []struct {
		key          string
		value, least int
		of           string
	}{
		{"throttle.network_per_minute", t.NetworkPerMinute, c.Limits.LoginsPerMinute, "limits.logins_per_minute"},
		{"throttle.global_per_minute", t.GlobalPerMinute, t.NetworkPerMinute, "throttle.network_per_minute"},
	} {
		if n.value > 0 && n.value < n.least {
			doc.wrong(n.key, "must be at least %s (%d), which lies within it", n.of, n.least)
		}
	}
}

// logins returns the limits for users of a type.
func (t *throttleConfig) logins(users string) gateway.Logins {
	failures := t.AccountFailures
	if failures == 0 && users == typeLDAP {
		failures = ldapFailures
	}
	return gateway.Logins{
		NetworkPerMinute: t.NetworkPerMinute, GlobalPerMinute: t.GlobalPerMinute,
		AccountFree:        t.AccountFree,
		RefreshesPerMinute: t.RefreshesPerMinute, RefreshBurst: t.RefreshBurst,
		UserRefreshesPerMinute: t.UserRefreshesPerMinute, UserRefreshBurst: t.UserRefreshBurst,
		AccountLoginsPerMinute: t.AccountLoginsPerMinute, AccountLoginBurst: t.AccountLoginBurst,
		AccountFailures: failures, AccountFailureWindow: time.Duration(t.AccountFailureWindow),
	}
}
