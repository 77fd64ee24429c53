package config

import "github.com/ruedahq/rueda/gateway"

// throttleConfig is the table [throttle]: limits of failed logins other than those of one address,
// which are in [limits].
type throttleConfig struct {
	NetworkPerMinute   int `toml:"network_per_minute"`
	NetworkBurst       int `toml:"network_burst"`
	GlobalPerMinute    int `toml:"global_per_minute"`
	GlobalBurst        int `toml:"global_burst"`
	AccountFree        int `toml:"account_free"`
	RefreshesPerMinute int `toml:"refreshes_per_minute"`
	RefreshBurst       int `toml:"refresh_burst"`
}

// checkThrottle finds limits that would lock out everybody.
func (c *mainFile) checkThrottle(doc *document) {
	t := &c.Throttle
	for _, n := range []struct {
		key   string
		value int
	}{
		{"throttle.network_per_minute", t.NetworkPerMinute}, {"throttle.network_burst", t.NetworkBurst},
		{"throttle.global_per_minute", t.GlobalPerMinute}, {"throttle.global_burst", t.GlobalBurst},
		{"throttle.account_free", t.AccountFree},
		{"throttle.refreshes_per_minute", t.RefreshesPerMinute}, {"throttle.refresh_burst", t.RefreshBurst},
	} {
		if n.value < 0 {
			doc.wrong(n.key, "must not be negative; leave it out for the default")
		}
		if n.value > MaxCount {
			doc.wrong(n.key, "must be at most %d", MaxCount)
		}
	}
	for _, n := range []struct {
		key          string
		value, least int
		of           string
	}{
		{"throttle.network_burst", t.NetworkBurst, c.Limits.LoginBurst, "limits.login_burst"},
		{"throttle.network_per_minute", t.NetworkPerMinute, c.Limits.LoginsPerMinute, "limits.logins_per_minute"},
		{"throttle.global_burst", t.GlobalBurst, t.NetworkBurst, "throttle.network_burst"},
		{"throttle.global_per_minute", t.GlobalPerMinute, t.NetworkPerMinute, "throttle.network_per_minute"},
	} {
		if n.value > 0 && n.value < n.least {
			doc.wrong(n.key, "must be at least %s (%d), which lies within it", n.of, n.least)
		}
	}
}

func (t *throttleConfig) logins() gateway.Logins {
	return gateway.Logins{
		NetworkPerMinute: t.NetworkPerMinute, NetworkBurst: t.NetworkBurst,
		GlobalPerMinute: t.GlobalPerMinute, GlobalBurst: t.GlobalBurst,
		AccountFree:        t.AccountFree,
		RefreshesPerMinute: t.RefreshesPerMinute, RefreshBurst: t.RefreshBurst,
	}
}
