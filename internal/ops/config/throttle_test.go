package config

import (
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/gateway"
)

func TestThrottleConfig(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"[throttle]\nnetwork_per_minute = 10\nglobal_per_minute = 10\naccount_free = 3\nrefreshes_per_minute = 1\nrefresh_burst = 1\n[limits]\nlogins_per_minute = 10\nlogin_burst = 20": "",
		"[throttle]\naccount_free = -1":                                       "throttle.account_free: must not be negative",
		"[throttle]\nrefresh_burst = 1000001":                                 "throttle.refresh_burst: must be at most 1000000",
		"[throttle]\nnetwork_per_minute = 5\n[limits]\nlogins_per_minute = 6": "throttle.network_per_minute: must be at least limits.logins_per_minute (6)",
		"[throttle]\nglobal_per_minute = 9\nnetwork_per_minute = 10":          "throttle.global_per_minute: must be at least throttle.network_per_minute (10)",
		"[throttle]\naccount_failure_window = \"25h\"":                        "throttle.account_failure_window: must be from 1m to 24h",
		"[throttle]\nrefresh_bursts = 9":                                      "refresh_burst",
	} {
		var c mainFile
		doc, err := decode("rueda.toml", []byte(text), &c)
		if err != nil {
			t.Fatal(err)
		}
		c.checkThrottle(doc)
		got := ""
		if err := doc.err(); err != nil {
			got = err.Error()
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	all := throttleConfig{1, 3, 5, 6, 7, 8, 9, 10, 11, 12, duration(time.Hour)}
	if got, want := all.logins(typeLDAP), (gateway.Logins{
		NetworkPerMinute: 1, GlobalPerMinute: 3, AccountFree: 5, RefreshesPerMinute: 6, RefreshBurst: 7,
		UserRefreshesPerMinute: 8, UserRefreshBurst: 9, AccountLoginsPerMinute: 10, AccountLoginBurst: 11,
		AccountFailures: 12, AccountFailureWindow: time.Hour,
	}); got != want {
		t.Errorf("%+v", got)
	}
	var none throttleConfig
	for users, want := range map[string]int{typeLDAP: 2, typeHTTP: 0, typeSQL: 0, typeLocal: 0} {
		if got := none.logins(users).AccountFailures; got != want {
			t.Errorf("users of type %s: %d wrong passwords reach the user base by default, want %d", users, got, want)
		}
	}
}
