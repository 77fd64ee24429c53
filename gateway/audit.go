package gateway

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/audit"
	"github.com/ruedahq/rueda/internal/auditlog"
)

const (
	defaultAuditDays = 400
	day              = 24 * time.Hour
)

// recordCertificate records the use of a certificate in the audit log.
func (g *Gateway) recordCertificate(ctx context.Context, expires time.Time) {
	auditlog.Record(ctx, g.auditLog, audit.Certificate, "valid until "+expires.UTC().Format(time.RFC3339), g.log)
}

// runAudit records the start of the gateway, and prunes and watches the audit log until ctx ends.
func (g *Gateway) runAudit(ctx context.Context) error {
	auditlog.Record(ctx, g.auditLog, audit.Started, g.cfg.Version, g.log)
	if g.certificate != nil {
		g.recordCertificate(ctx, g.certificate.Expires())
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { auditlog.Watch(ctx, g.auditLog, g.keys, g.log) })
	auditlog.Prune(ctx, g.auditLog, time.Duration(cmp.Or(g.cfg.Audit.Days, defaultAuditDays))*day, g.log)
	return nil
}
