package config

import "github.com/ruedahq/rueda/gateway"

// auditConfig is the table [audit].
type auditConfig struct {
	Days int `toml:"days"`
}

// maxAuditDays is a hundred years: more is a slip of the keyboard.
const maxAuditDays = 36_500

func (c *mainFile) checkAudit(doc *document) {
	if d := c.Audit.Days; d < 0 || d > maxAuditDays {
		doc.wrong("audit.days", "must be from 1 to %d; leave it out for the default", maxAuditDays)
	}
}

func (a *auditConfig) audit() gateway.Audit { return gateway.Audit{Days: a.Days} }
