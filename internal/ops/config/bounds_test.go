package config

import (
	"strings"
	"testing"
)

// TestBounds checks that times which would overflow, and typing errors, are found before the start.
func TestBounds(t *testing.T) {
	for text, want := range map[string]string{
		"[auth]\naccess_ttl = \"168h\"\nrefresh_ttl = \"87600h\"\nfamily_max_age = \"87600h\"\ngrace_period = \"1h\"\npassword_slots = 256": "",
		"[auth]\nconsole_idle = \"10ms\"":               "auth.console_idle: must be at least 1s",
		"security_contact = \"a@b.example\"":            "security_contact: \"a@b.example\" must be a URI",
		"security_contact = \"mailto:a@b.example\"":     "",
		"[tls]\nmin_version = \"1.1\"":                  "tls.min_version: \"1.1\"",
		"[auth]\naccess_ttl = \"168h1s\"":               "auth.access_ttl: must be at most 168h, which is a week",
		"[auth]\naccess_ttl = \"2562047h\"":             "auth.access_ttl: must be at most",
		"[auth]\nrefresh_ttl = \"2562047h\"":            "auth.refresh_ttl: must be at most 87600h, which is ten years",
		"[auth]\nfamily_max_age = \"2562047h\"":         "auth.family_max_age: must be at most",
		"[auth]\ngrace_period = \"61m\"":                "auth.grace_period: must be at most 1h",
		"[auth]\npassword_slots = 257":                  "auth.password_slots: must be at most 256",
		"[auth]\nmax_sessions = 10001":                  "auth.max_sessions: must be at most 10000",
		"[auth]\npassword_slots = -1":                   "auth.password_slots: must not be negative",
		"[stream]\nauth_timeout = \"2562047h\"":         "stream.auth_timeout: must be at most 24h",
		"[stream]\nping_interval = \"2562047h\"":        "stream.ping_interval: must be at most 24h",
		"[stream]\npong_timeout = \"2562047h\"":         "stream.pong_timeout: must be at most 24h",
		`proxies = ["10.0.0.0/8", "2001:db8::/32"]`:     "",
		`proxies = ["fc00::/7", "::ffff:10.0.0.0/104"]`: "",
		`proxies = ["0.0.0.0/1", "128.0.0.0/1"]`:        `proxies: "0.0.0.0/1" is too wide`,
		`proxies = ["128.0.0.0/1"]`:                     `proxies: "128.0.0.0/1" is too wide`,
		`proxies = ["10.0.0.0/7"]`:                      "is too wide",
		`proxies = ["2001::/15"]`:                       "is too wide",
		`proxies = ["fc00::/6"]`:                        "is too wide",
		`proxies = ["::ffff:0:0/96"]`:                   "is too wide",

		"[stream]\nmemory = \"767MiB\"": "stream.memory: must be at least twice trades_bytes and max_backlog (together 805306368 bytes)",
		"[stream]\nmemory = \"768MiB\"": "",
		"[stream]\nmemory = \"64MiB\"\ntrades_bytes = \"16MiB\"\nmax_backlog = \"32MiB\"": "",
	} {
		var c mainFile
		doc, err := decode("rueda.toml", []byte(text), &c)
		if err != nil {
			t.Fatal(text, err)
		}
		c.check(doc)
		got := ""
		if err := doc.err(); err != nil {
			got = err.Error()
		}
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
