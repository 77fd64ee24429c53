package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/base/certificate"
	"github.com/ruedahq/rueda/internal/engine/feeds"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/socket"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/market"
)

// Change lists settings to change in a running gateway. A field with its zero value changes
// nothing.
type Change struct {
	Names []string // of the settings, for the audit log; none: it is not recorded

	// Limits replaces all limits, except for HistoryReaders, Logins.AccountFailures and
	// Logins.AccountFailureWindow. Connections, subscriptions and requests above a lower limit are
	// not ended.
	Limits *Limits

	// TLS and AdminTLS replace the files of the certificates, which are loaded at once. The field
	// Reload has no effect here. Each needs a listener that already has a certificate.
	TLS, AdminTLS *TLS

	// Markets and Instruments are added, or replace those with the same identifiers. A market that
	// exists keeps its time zone. It cannot begin or cease to have hours.
	Markets     []market.Market
	Instruments []market.Instrument

	LogLevel *slog.Level // of Config.LogLevel
}

// Caller describes who requests a change, for the audit log. The zero Caller stands for the process
// itself.
type Caller struct {
	Actor   string // such as "administrator (ana)"
	Address string
	Client  string // the User-Agent
}

// Reloaded is the result of Config.Reload. It contains names of settings as in the configuration
// file.
type Reloaded struct {
	Applied []string // settings that have changed and apply now
	Restart []string // settings that have changed and apply after a restart
}

// ErrNotRecorded means that nothing has changed because the audit log could not be written.
var ErrNotRecorded = errors.New("the change cannot be recorded")

// Change changes settings of the gateway, before or during Run. It first stores a row in the audit
// log, if c has Names. It checks c before it changes anything. If a later step fails, the settings
// before it may have changed.
func (g *Gateway) Change(ctx context.Context, by Caller, c Change) error {
	g.changing.Lock()
	defer g.changing.Unlock()
	if err := g.checkChange(&c); err != nil {
		return err
	}
	if len(c.Names) > 0 {
		e := audit.Event{Time: time.Now(), Kind: audit.SettingChanged, Actor: by.Actor, Address: by.Address, Client: by.Client, Detail: changeDetail(c.Names)}
		if e.Actor == "" {
			e.Actor = "gateway"
		}
		if err := g.auditLog.Append(ctx, e); err != nil {
			return fmt.Errorf("%w: %w", ErrNotRecorded, err)
		}
	}
	if c.TLS != nil {
		if err := g.certificate.SetFiles(ctx, certificate.Files(*c.TLS)); err != nil {
			return err
		}
	}
	if c.AdminTLS != nil {
		if err := g.admin.certificate.SetFiles(ctx, certificate.Files(*c.AdminTLS)); err != nil {
			return err
		}
	}
	if err := g.changeMarkets(&c); err != nil {
		return err
	}
	if c.Limits != nil {
		g.setLimits(c.Limits)
	}
	if c.LogLevel != nil {
		g.cfg.LogLevel.Set(*c.LogLevel)
	}
	return nil
}

// maxDetail bounds how many bytes of names a row of the audit log contains.
const maxDetail = 200

func changeDetail(names []string) string {
	text := "configuration: " + strings.Join(names, ", ")
	if len(text) > maxDetail {
		text = text[:strings.LastIndex(text[:maxDetail], ",")] + " and others"
	}
	return text
}

// checkChange returns an error if the change cannot succeed, before anything is changed.
func (g *Gateway) checkChange(c *Change) error {
	switch {
	case c.TLS != nil && g.certificate == nil, c.AdminTLS != nil && (g.admin == nil || g.admin.certificate == nil):
		return errors.New("a listener without TLS gets a certificate only at the start")
	case c.LogLevel != nil && g.cfg.LogLevel == nil:
		return errors.New("the level of the log is fixed")
	}
	for _, files := range []*TLS{c.TLS, c.AdminTLS} {
		if files == nil {
			continue
		}
		if _, err := certificate.Load(certificate.Files(*files), g.log); err != nil {
			return err
		}
	}
	for i := range c.Markets {
		m := &c.Markets[i]
		if err := m.Validate(); err != nil {
			return err
		}
		was := slices.ContainsFunc(g.hub.Markets(), func(x market.Market) bool { return x.ID == m.ID && feeds.Scheduled(&x) })
		if was != feeds.Scheduled(m) {
			return fmt.Errorf("market %s begins or ends to have hours, which needs a restart", m.ID)
		}
	}
	return nil
}

// changeMarkets adds or replaces the markets and instruments of a change.
func (g *Gateway) changeMarkets(c *Change) error {
	group := g.feeds.Load()
	for _, m := range c.Markets {
		if err := g.hub.PutMarket(m); err != nil {
			return err
		}
		if group != nil && feeds.Scheduled(&m) {
			group.SetHours(m.ID, m.Schedule)
		}
	}
	if group == nil {
		return nil
	}
	return group.List(c.Instruments)
}

// setLimits replaces the limits of sockets, requests and logins while the gateway runs.
func (g *Gateway) setLimits(l *Limits) {
	limits := *l
	g.limits.Store(&limits)
	g.sockets.SetLimits(socket.Limits{
		MaxOpen: l.Sockets, MaxUnauthenticatedPerAddress: l.UnauthenticatedPerAddress, HandshakeBurst: l.Handshakes,
		Sessions: session.Limits{
			Connections: l.Connections, Subscriptions: l.Subscriptions, MessagesPerSecond: l.MessagesPerSecond, MessageBytes: l.MessageBytes,
		},
	})
	rest.SetLimits(g.requests, l.RequestsPerMinute, l.HistoryPerUser)
	g.rest.SetLimits(l.Requests, l.RequestsPerAddress)
	auth.SetThrottle(g.auth, l.throttle())
}

// reload calls Config.Reload for POST /admin/reload. It returns the lines of its error as mistakes,
// unless the audit log could not be written or ctx has ended.
func (g *Gateway) reload(ctx context.Context, by audit.Event) (applied, restart, mistakes []string, err error) {
	r, err := g.cfg.Reload(ctx, Caller{Actor: by.Actor, Address: by.Address, Client: by.Client})
	if err != nil && !errors.Is(err, ErrNotRecorded) && ctx.Err() == nil {
		return nil, nil, strings.Split(err.Error(), "\n"), nil
	}
	return r.Applied, r.Restart, nil, err
}

// reloader returns g.reload for the listener for administrators, or nil if Config.Reload is nil.
func (g *Gateway) reloader() rest.Reload {
	if g.cfg.Reload == nil {
		return nil
	}
	return g.reload
}
