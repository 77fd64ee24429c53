package gateway

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/identity/auditexport"
	"github.com/ruedahq/rueda/internal/identity/auditlog"
)

const (
	defaultAuditDays = 400
	day              = 24 * time.Hour
)

// recordCertificate records in the audit log that the gateway uses a certificate, and until when it
// is valid.
func (g *Gateway) recordCertificate(ctx context.Context, expires time.Time) {
	auditlog.Record(ctx, g.auditLog, audit.Certificate, "valid until "+expires.UTC().Format(time.RFC3339), g.log)
}

// receivers returns the syslog server and the web service to which the audit log is sent, as far as
// they are configured.
func (a *Audit) receivers() (list []auditexport.Receiver, err error) {
	if a.Syslog != (AuditSyslog{}) {
		r, err := auditexport.NewSyslog(auditexport.Syslog(a.Syslog))
		if err != nil {
			return nil, fmt.Errorf("send the audit log to syslog: %w", err)
		}
		list = append(list, r)
	}
	if w := &a.Webhook; w.URL != "" || len(w.Secret) > 0 || w.Certificate != "" || w.Key != "" || w.Authorities != "" {
		r, err := auditexport.NewWebhook(auditexport.Webhook(*w))
		if err != nil {
			return nil, fmt.Errorf("send the audit log to a webhook: %w", err)
		}
		list = append(list, r)
	}
	return list, nil
}

// runAudit records the start of the gateway. Until ctx ends it removes old rows of the audit log,
// checks that no rows were lost, and sends new rows to the receivers.
func (g *Gateway) runAudit(ctx context.Context) error {
	auditlog.Record(ctx, g.auditLog, audit.Started, g.cfg.Version, g.log)
	if g.certificate != nil {
		g.recordCertificate(ctx, g.certificate.Expires())
	}
	var watch sync.WaitGroup
	defer watch.Wait()
	watch.Go(func() { auditlog.Watch(ctx, g.auditLog, g.keys, g.log) })
	watch.Go(func() { auditexport.Run(ctx, g.auditLog, g.receivers, g.log) })
	auditlog.Prune(ctx, g.auditLog, time.Duration(cmp.Or(g.cfg.Audit.Days, defaultAuditDays))*day, g.log)
	return nil
}
