package config

import (
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/identity/auditexport"
)

// auditConfig is the table [audit].
type auditConfig struct {
	Days    int           `toml:"days"`
	Syslog  syslogConfig  `toml:"syslog"`
	Webhook webhookConfig `toml:"webhook"`
}

// syslogConfig is the table [audit.syslog].
type syslogConfig struct {
	Address     string `toml:"address"`
	Format      string `toml:"format"`
	Facility    string `toml:"facility"`
	SDID        string `toml:"sd_id"`
	Certificate string `toml:"certificate"`
	Key         string `toml:"key"`
	CA          string `toml:"ca"`
}

// webhookConfig is the table [audit.webhook].
type webhookConfig struct {
	URL           string    `toml:"url"`
	SecretFile    string    `toml:"secret_file"`
	SecretEnv     string    `toml:"secret_env"`
	SecretCommand *[]string `toml:"secret_command"`
	Certificate   string    `toml:"certificate"`
	Key           string    `toml:"key"`
	CA            string    `toml:"ca"`
}

// maxAuditDays is a hundred years: more is a slip of the keyboard.
const maxAuditDays = 36_500

// audit returns the settings of the audit log, or reports mistakes.
func (c *mainFile) audit(doc *document) gateway.Audit {
	a := &c.Audit
	if d := a.Days; d < 0 || d > maxAuditDays {
		doc.wrong("audit.days", "must be from 1 to %d; leave it out for the default", maxAuditDays)
	}
	g := gateway.Audit{Days: a.Days}
	if s := a.Syslog; s != (syslogConfig{}) {
		g.Syslog = gateway.AuditSyslog{
			Address: s.Address, Format: s.Format, Facility: s.Facility, SDID: s.SDID,
			Certificate: doc.relative(s.Certificate), Key: doc.relative(s.Key), Authorities: doc.relative(s.CA),
		}
		if _, err := auditexport.NewSyslog(auditexport.Syslog(g.Syslog)); err != nil {
			doc.wrong("audit.syslog", "%v", err)
		}
	}
	if w := &a.Webhook; *w != (webhookConfig{}) {
		g.Webhook = gateway.AuditWebhook{
			URL: w.URL, Certificate: doc.relative(w.Certificate), Key: doc.relative(w.Key), Authorities: doc.relative(w.CA),
		}
		if from := (secretSource{w.SecretFile, w.SecretEnv, w.SecretCommand}); from.exists() {
			g.Webhook.Secret = []byte(doc.secret("audit.webhook", "secret", from))
		}
		if _, err := auditexport.NewWebhook(auditexport.Webhook(g.Webhook)); err != nil && doc.clean("audit.webhook") {
			doc.wrong("audit.webhook", "%v", err)
		}
	}
	return g
}
