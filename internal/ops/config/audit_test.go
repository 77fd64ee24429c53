package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAuditReceivers checks the settings of the receivers of the audit log, and that mistakes are
// reported at their table.
func TestAuditReceivers(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "audit.secret"), []byte(strings.Repeat("s", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"[audit]\ndays = 10": "", "[audit.syslog]": "",
		"[audit.syslog]\naddress = \"udp://127.0.0.1\"\nformat = \"json\"\nfacility = \"local3\"": "",
		"[audit.webhook]\nurl = \"https://siem.example/\"\nsecret_file = \"audit.secret\"":        "",
		"[audit]\ndays = -1":                                                                 "rueda.toml:2: audit.days: must be from 1",
		"[audit.syslog]\nformat = \"json\"":                                                  "rueda.toml:1: audit.syslog: address is not like tls://",
		"[audit.syslog]\naddress = \"tcp://h\"\nca = \"x\"":                                  "ca, certificate and key are for an address with tls",
		"[audit.syslog]\naddress = \"tls://h\"\nca = \"missing.crt\"":                        folder + "/missing.crt",
		"[audit.webhook]\nurl = \"https://siem.example/\"":                                   "requests are neither signed nor sent with a certificate",
		"[audit.webhook]\nurl = \"http://siem.example/\"\nsecret_file = \"audit.secret\"":    "url must begin with https",
		"[audit.webhook]\nurl = \"https://siem.example/\"\nsecret_file = \"missing.secret\"": "audit.webhook.secret_file: ",
	} {
		var c mainFile
		doc, err := decode(filepath.Join(folder, "rueda.toml"), []byte(text), &c)
		if err != nil || doc.err() != nil {
			t.Fatal(text, err, doc.err())
		}
		g := c.audit(doc)
		switch err := doc.err(); {
		case want == "" && err != nil, want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", text, err, want)
		case strings.Contains(text, "udp://") && (g.Syslog.Format != "json" || g.Syslog.Facility != "local3"):
			t.Errorf("%+v", g.Syslog)
		case want == "" && strings.Contains(text, "webhook") && len(g.Webhook.Secret) != 32:
			t.Errorf("%+v", g.Webhook)
		}
	}
}
