package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/internal/api/pages"
	"github.com/ruedahq/rueda/internal/api/rest"
	"github.com/ruedahq/rueda/internal/base/audit"
	"github.com/ruedahq/rueda/internal/base/certificate"
	"github.com/ruedahq/rueda/internal/base/proxy"
	"github.com/ruedahq/rueda/internal/cluster/host"
	"github.com/ruedahq/rueda/internal/engine/feeds"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/internal/engine/socket"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/internal/identity/auditexport"
	"github.com/ruedahq/rueda/internal/identity/auditlog"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/identity/usage"
	"github.com/ruedahq/rueda/market"
)

// Gateway is a gateway that New has assembled. Call Run once.
type Gateway struct {
	cfg  Config
	log  *slog.Logger
	data *Data // opened here, and closed here

	location string // where the database is, for the log
	folder   string // of the database; "": none
	monitor  *monitor

	journal     *journal.Journal // nil: none
	setup       *host.Setup      // nil: no cluster
	node        *host.Host       // nil: no cluster
	hub         *hub.Hub
	feeds       atomic.Pointer[feeds.Group] // nil: this node of a cluster does not run them now
	auth        *auth.Service
	keys        *keyset.Set
	registry    *session.Registry
	identities  identityCache
	usage       *usage.Meter
	instruments *usage.Instruments
	denials     *auditlog.Denials
	auditLog    database.Store
	receivers   []auditexport.Receiver // of the audit log
	sockets     *socket.Server
	rest        *rest.Server
	requests    *rest.Handler
	certificate *certificate.Certificate // nil: plain HTTP
	admin       *administrator           // nil: no such listener
	own         atomic.Pointer[string]   // loopback URL, once it is known

	changing sync.Mutex             // held during Change
	limits   atomic.Pointer[Limits] // that apply now
	up       atomic.Bool            // feeds and servers run
	draining atomic.Bool
}

// New assembles a gateway. It opens the journal and the keys, reads the certificate, and lists the
// markets and instruments. It restores the market from the journal, which may take minutes. It
// starts no server and no feed. The error names the mistake in cfg, or is that of ctx if ctx ends
// first.
func New(ctx context.Context, cfg Config) (*Gateway, error) {
	cfg.Listen = cmp.Or(cfg.Listen, defaultListen)
	cfg.Version = cmp.Or(cfg.Version, "devel")
	cfg.Drain = cmp.Or(cfg.Drain, defaultDrain)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{cfg: cfg, log: cfg.Logger, registry: &session.Registry{}, monitor: newMonitor()}
	g.limits.Store(&g.cfg.Limits)
	if err := g.build(ctx); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// Check returns an error that names a mistake in cfg, or nil. It opens neither Data nor the
// journal.
func Check(cfg Config) error {
	cfg.Data = nil
	cfg.Journal, cfg.Cluster = Journal{}, Cluster{}
	g, err := New(context.Background(), cfg) // it reads nothing that takes long
	if err != nil {
		return err
	}
	return g.close()
}

func (g *Gateway) build(ctx context.Context) error {
	url, err := web.ParsePublicURL(g.cfg.PublicURL)
	if err := errors.Join(checkAddress(&g.cfg), err, proxy.Trusted(g.cfg.Proxies).Check()); err != nil {
		return err
	}
	if g.cfg.PublicURL = url; g.cfg.Console.Serve && len(g.cfg.Origins) > 0 && url != "" {
		g.cfg.Origins = append(slices.Clone(g.cfg.Origins), url) // of the console
	}
	if g.cfg.TLS != (TLS{}) {
		c, err := certificate.Load(certificate.Files(g.cfg.TLS), g.log)
		if err != nil {
			return err
		}
		c.OnReload = g.recordCertificate
		g.certificate = c
	}
	if err := g.buildMarket(ctx); err != nil {
		return err
	}
	if err := g.buildUsers(ctx); err != nil {
		return err
	}
	if err := g.buildNode(); err != nil {
		return err
	}
	if err := g.buildServers(); err != nil {
		return err
	}
	return g.buildAdmin()
}

// buildMarket builds what a trade passes through: feeds, hours and hub. It opens the journal and
// restores the market from it.
func (g *Gateway) buildMarket(ctx context.Context) error {
	for _, m := range g.cfg.Markets {
		if err := m.Validate(); err != nil {
			return err
		}
	}
	if err := g.openJournal(ctx); err != nil {
		return err
	}
	if len(g.cfg.Stream.Delays) > 0 && g.journal == nil {
		return ErrDelaysNeedJournal
	}
	g.hub = hub.New(hub.Config{
		Journal:     g.journal,
		Restoring:   func(done, total int) { g.starting(RestoresInstruments, int64(done), int64(total)) },
		Markets:     g.cfg.Markets,
		TradesKept:  g.cfg.Stream.TradesKept,
		PerTurn:     g.cfg.Stream.MessagesPerFlush,
		RecentBytes: g.cfg.Stream.TradesBytes,
		Memory:      g.cfg.Stream.memory(),
		Delays:      g.cfg.Stream.Delays,
		Logger:      g.log,
		Following:   g.cfg.Cluster.Name != "",
	})
	if err := g.hub.Restore(ctx); err != nil || g.cfg.Cluster.Name != "" {
		return err
	}
	group, err := g.newFeeds(g.hub, g.hub)
	if err != nil {
		return err
	}
	g.feeds.Store(group)
	return nil
}

// starting passes the progress of New to Config.OnStart, if that is set.
func (g *Gateway) starting(step StartStep, done, total int64) {
	if g.cfg.OnStart != nil {
		g.cfg.OnStart(step, done, total)
	}
}

// newFeeds returns the configured feeds and the hours of the markets. They publish to sink, and h
// has the statuses of the markets.
func (g *Gateway) newFeeds(h *hub.Hub, sink feed.Sink) (*feeds.Group, error) {
	numbers, _ := sink.(feed.Resumer) // both sinks are
	cfg := feeds.GroupConfig{Markets: g.cfg.Markets, Instruments: g.cfg.Instruments, Numbers: numbers, Logger: g.log, Phase: func(name string) market.Phase {
		state, _ := h.MarketStatus(name)
		return state.Phase
	}}
	for _, f := range g.cfg.Feeds {
		if f.Source == nil {
			return nil, fmt.Errorf("feed %q has no source", f.Name)
		}
		checks, err := f.checks()
		if err != nil {
			return nil, err
		}
		if s, ok := f.Source.(interface {
			OnWrongToken(func(ctx context.Context, from string))
		}); ok {
			s.OnWrongToken(func(ctx context.Context, from string) { g.feedRefused(ctx, f.Name, from) })
		}
		cfg.Feeds = append(cfg.Feeds, feeds.Feed{Name: f.Name, Source: f.Source, Late: f.Late, Checks: checks})
	}
	return feeds.NewGroup(cfg, sink)
}

// feedRefused records in the audit log that a producer at the address from sent a wrong token to a
// feed.
func (g *Gateway) feedRefused(ctx context.Context, feed, from string) {
	var origin auth.Origin
	if a, err := netip.ParseAddrPort(from); err == nil {
		origin.Address = a.Addr().Unmap()
	}
	g.auth.RecordAdmin(ctx, audit.Event{Kind: audit.FeedRefused, Actor: "producer", Detail: feed}, origin)
}

// ErrDelaysNeedJournal means that Stream.Delays is set without a journal.
var ErrDelaysNeedJournal = errors.New("delayed data are read from the journal, and none is configured: configure one, or no delays")

// ErrJournalInUse means that another process uses the folder of the journal. Each gateway needs a
// folder of its own, even if gateways share a database.
var ErrJournalInUse = errors.New("another gateway uses the journal")

// openJournal sets g.journal and calls Config.OnJournal. It leaves g.journal nil if neither a
// journal nor a cluster is configured.
func (g *Gateway) openJournal(ctx context.Context) (err error) {
	c := g.cfg.Journal
	if c.Folder == "" && g.cfg.Cluster.Name == "" {
		return nil
	}
	cfg := journal.Config{
		Folder: c.Folder, Segment: c.Segment, Sync: c.Sync, Days: c.Days, Bytes: c.Bytes, Logger: g.log,
		Reading: func(done, total int64) { g.starting(ReadsJournal, done, total) },
	}
	if g.cfg.Cluster.Name != "" {
		if g.setup, err = host.Prepare(host.Settings(g.cfg.Cluster), &cfg, g.log); err != nil {
			return err
		}
	}
	g.journal, err = journal.Open(ctx, cfg)
	switch {
	case errors.Is(err, journal.ErrLocked):
		return fmt.Errorf("%w %s", ErrJournalInUse, c.Folder)
	case err != nil:
		return fmt.Errorf("open the journal: %w", err)
	}
	if g.setup == nil {
		err = host.Leave(g.journal, c.Folder, g.log)
	}
	if err != nil || g.cfg.OnJournal == nil {
		return err
	}
	return g.cfg.OnJournal(func(ids []market.InstrumentID) (time.Time, error) {
		return g.journal.NewestRow(context.Background(), ids)
	})
}

// buildUsers builds what a login passes through: the user base, the keys and package auth. Without
// Config.Data it opens a database in memory.
func (g *Gateway) buildUsers(ctx context.Context) error {
	data := g.cfg.Data
	if data == nil {
		d, err := OpenData(ctx, DataConfig{})
		if err != nil {
			return err
		}
		data, g.data = d, d
	}
	g.location, g.folder = data.db.Store.Location(), data.folder
	if g.cfg.Users == nil {
		g.cfg.UsersType = "local"
		g.cfg.Users, g.cfg.Accounts, g.cfg.WatchUsers = data.Users, data.Users, data.Users.Watch
		g.warnUnserved(ctx, data.Users)
	}
	if g.cfg.Accounts == nil {
		g.cfg.Accounts = noAccounts{}
	}
	if err := g.openKeys(ctx, data); err != nil {
		return err
	}
	g.auditLog = data.db.Store
	var err error
	if g.receivers, err = g.cfg.Audit.receivers(); err != nil {
		return err
	}
	g.instruments = usage.NewInstruments(data.db.Store, g.log)
	g.usage, g.denials = usage.NewMeter(data.db.Store, g.log), auditlog.NewDenials(data.db.Store, g.hub.HasMarket, g.log)
	a, l := g.cfg.Auth, g.cfg.Limits
	g.auth, err = auth.New(ctx, auth.Config{
		Users: g.cfg.Users, Store: data.db.Store, Shared: data.db.Limits, Keys: g.keys,
		Issuer: cmp.Or(a.Issuer, g.cfg.PublicURL), OldIssuer: g.oldIssuer(), Audience: a.Audience,
		AccessTTL: a.AccessTTL, RefreshTTL: a.RefreshTTL, FamilyMaxAge: a.FamilyMaxAge,
		Rotation: a.Rotation, GracePeriod: a.GracePeriod, MaxSessions: a.MaxSessions,
		Throttle:        l.throttle(),
		AccountFailures: l.Logins.AccountFailures, AccountFailureWindow: l.Logins.AccountFailureWindow,
		Expiring:     g.expiring,
		Connected:    g.registry.Users,
		Watched:      g.cfg.WatchUsers != nil,
		OnRevoke:     g.registry.Revoke,
		OnRevokeUser: g.registry.RevokeUser,
		OnRefresh:    g.registry.Extend,
		OnRights:     func(u broker.User) { g.registry.GrantsChanged(u.ID, grants(u)) },
		Logger:       g.log,
	})
	return err
}

// buildServers builds the servers for clients: the stream, REST and the web pages.
func (g *Gateway) buildServers() error {
	s, l := g.cfg.Stream, g.cfg.Limits
	g.sockets = socket.New(socket.Config{
		Env: &session.Env{
			Verify: g.verify, Known: g.known, Minted: g.auth.Minted, Admit: g.admit, Fault: g.faults(), Speed: g.cfg.Speed, Injected: g.injected, Registry: g.registry, Version: g.cfg.Version,
			Used: g.usage.Session, Denied: g.denials.Session,
			AuthTimeout: s.AuthTimeout, PingInterval: s.PingInterval, PongTimeout: s.PongTimeout,
			KeepExpired: s.KeepExpired, BookWildcards: s.BookWildcards,
			MaxWaiting: s.MaxWaiting, MaxAge: s.MaxAge, MaxBacklog: s.MaxBacklog,
			Connections: l.Connections, Subscriptions: l.Subscriptions,
			MessagesPerSecond: l.MessagesPerSecond, MessageBytes: l.MessageBytes,
		},
		Hub:                          g.hub,
		Hosts:                        g.cfg.hostNames(),
		Origins:                      g.cfg.Origins,
		Proxies:                      g.cfg.Proxies,
		Secure:                       g.overHTTPS(),
		Scheme:                       g.scheme(),
		MaxMessage:                   l.MessageBytes,
		MaxOpen:                      l.Sockets,
		MaxUnauthenticatedPerAddress: l.UnauthenticatedPerAddress,
		HandshakeBurst:               l.Handshakes,
		FlushInterval:                s.FlushInterval,
		SendBuffer:                   s.SendBuffer,
		IOUring:                      s.IOUring,
		Logger:                       g.log,
	})
	site, err := pages.ForUsers(pages.Console(g.cfg.Console), pages.About{
		Version: g.cfg.Version, Packages: g.cfg.ClientDownloads, Dev: g.cfg.Faults != nil, Contact: g.cfg.SecurityContact, PublicURL: g.cfg.PublicURL, Origin: g.requestOrigin,
	})
	if err != nil {
		return err
	}
	handler, err := rest.New(rest.Config{
		Auth: g.auth, Accounts: g.cfg.Accounts, Hub: g.hub, Journal: g.journal,
		Stream: g.sockets, Connect: g.sockets.Open, Ready: g.ready, Serves: g.node.Serves, Hosts: g.cfg.hostNames(), Origins: g.cfg.Origins,
		Proxies: g.cfg.Proxies, PublicURL: g.publicURL, Secure: g.overHTTPS(), Scheme: g.scheme(), Pages: site.Handlers, Console: site.Console,
		Sockets:           g.registry.FamilyConnections,
		Used:              g.usage.Request,
		Denied:            g.denials.Request,
		Counted:           g.instruments,
		Observe:           g.monitor.observe,
		RequestsPerMinute: l.RequestsPerMinute,
		HistoryReaders:    l.HistoryReaders, HistoryPerUser: l.HistoryPerUser,
		Logger: g.log,
	})
	if err != nil {
		return err
	}
	g.requests = handler
	g.rest = rest.NewServer(rest.ServerConfig{
		Handler: handler, Secure: g.overHTTPS(), Logger: g.log,
		MaxConns: l.Requests, MaxConnsPerAddress: l.RequestsPerAddress, Proxies: g.cfg.Proxies,
	})
	return nil
}

// overHTTPS returns the kind of HTTPS that clients use to reach the gateway, directly or through a
// proxy.
func (g *Gateway) overHTTPS() web.HTTPS {
	return g.https(g.certificate != nil || strings.HasPrefix(g.cfg.PublicURL, "https://"))
}

// https returns which Strict-Transport-Security header the answers of a listener have. If secure is
// false, they have none.
func (g *Gateway) https(secure bool) web.HTTPS {
	switch {
	case !secure:
		return web.NoHTTPS
	case g.cfg.HSTSSubdomains:
		return web.SubdomainsHTTPS
	}
	return web.HostHTTPS
}

// scheme returns the scheme that the gateway's own pages have, or "" if it may be http or https
// because a proxy may terminate TLS.
func (g *Gateway) scheme() string {
	switch {
	case g.certificate != nil:
		return "https"
	case strings.HasPrefix(g.cfg.PublicURL, "https://"), g.cfg.PublicURL == "" && len(g.cfg.Proxies) > 0:
		return ""
	}
	return "http"
}

// ready returns nil if a load balancer may send new clients to the gateway, and otherwise an error
// with the reason.
func (g *Gateway) ready() error {
	switch {
	case !g.up.Load():
		return errors.New("starting")
	case g.draining.Load():
		return errors.New("shutting down")
	case g.node != nil:
		return g.node.Ready()
	case !g.feeds.Load().Live():
		return errors.New("no feed is up")
	}
	return nil
}

func (g *Gateway) close() error {
	var errs []error
	if g.journal != nil {
		if err := g.journal.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the journal: %w", err))
		}
	}
	if g.data != nil {
		errs = append(errs, g.data.Close())
	}
	return errors.Join(errs...)
}

// Stats contains current figures of the stream, and the number of panics.
type Stats struct {
	Open            int    // connections
	Unauthenticated int    // of them, unauthenticated
	Backlogged      int    // of them, with a full socket buffer
	PendingBytes    int64  // pending output of those
	Writes          uint64 // completed writes to sockets
	Panics          uint64 // recovered panics, each of which has ended one connection or request
}

// Stats returns the current figures. It is cheap enough to be called often.
func (g *Gateway) Stats() Stats {
	s := g.sockets.Stats()
	return Stats{
		Open: s.Open, Unauthenticated: s.Unauthenticated, Backlogged: s.Behind, PendingBytes: s.PendingBytes, Writes: s.Writes,
		Panics: s.Panics + g.requests.Panics() + g.rest.Panics(),
	}
}

// AwaitDelivery waits until all published messages, except the newest behind messages, have been
// delivered to the connections. A feed without a clock, such as a replay at full speed, calls it to
// limit its rate. The error is that of ctx.
func (g *Gateway) AwaitDelivery(ctx context.Context, behind int) error {
	return g.hub.AwaitTurn(ctx, uint64(max(0, behind)))
}
