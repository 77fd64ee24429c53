package config

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/identity/database"
)

// mainFile is the file of rueda serve. templates/rueda.toml explains every key and its default.
type mainFile struct {
	Listen      string         `toml:"listen"`
	Insecure    bool           `toml:"insecure"`
	Data        string         `toml:"data"`
	Drain       duration       `toml:"drain"`
	Origins     []string       `toml:"origins"`
	Hosts       []string       `toml:"hosts"`
	Proxies     []string       `toml:"proxies"`
	PublicURL   string         `toml:"public_url"`
	HSTS        bool           `toml:"hsts_subdomains"`
	Contact     string         `toml:"security_contact"`
	Console     *bool          `toml:"console"`
	Downloads   *bool          `toml:"client_downloads"`
	Markets     string         `toml:"markets"`
	Instruments string         `toml:"instruments"`
	TLS         tlsConfig      `toml:"tls"`
	Admin       adminConfig    `toml:"admin"`
	Auth        authConfig     `toml:"auth"`
	Users       usersConfig    `toml:"users"`
	Accounts    accountsConfig `toml:"accounts"`
	Keys        keysConfig     `toml:"keys"`
	Database    databaseConfig `toml:"database"`
	Stream      streamConfig   `toml:"stream"`
	Limits      limitsConfig   `toml:"limits"`
	Throttle    throttleConfig `toml:"throttle"`
	Journal     journalConfig  `toml:"journal"`
	Cluster     clusterConfig  `toml:"cluster"`
	Audit       auditConfig    `toml:"audit"`
	Log         Log            `toml:"log"`
	Feeds       []feedConfig   `toml:"feed"`
}

type tlsConfig struct {
	Certificate string `toml:"certificate"`
	Key         string `toml:"key"`
	MinVersion  string `toml:"min_version"`
}

// minVersion returns the oldest version of TLS of a listener with a certificate, 0 for the default.
func (c *tlsConfig) minVersion(certificate string) uint16 {
	if certificate != "" && c.MinVersion == "1.3" {
		return tls.VersionTLS13
	}
	return 0
}

type authConfig struct {
	Issuer           string    `toml:"issuer"`
	Audience         string    `toml:"audience"`
	AccessTTL        duration  `toml:"access_ttl"`
	RefreshTTL       duration  `toml:"refresh_ttl"`
	FamilyMaxAge     duration  `toml:"family_max_age"`
	ConsoleIdle      duration  `toml:"console_idle"`
	MaxSessions      int       `toml:"max_sessions"`
	Rotation         string    `toml:"rotation"`
	GracePeriod      duration  `toml:"grace_period"`
	PasswordSlots    int       `toml:"password_slots"`
	MinPassword      int       `toml:"min_password"`
	Breached         string    `toml:"breached_passwords"`
	ContextWords     []string  `toml:"context_words"`
	OTPIssuer        string    `toml:"otp_issuer"`
	PepperFile       string    `toml:"pepper_file"`
	PepperEnv        string    `toml:"pepper_env"`
	PepperCommand    *[]string `toml:"pepper_command"`
	OldPepperFile    string    `toml:"old_pepper_file"`
	OldPepperEnv     string    `toml:"old_pepper_env"`
	OldPepperCommand *[]string `toml:"old_pepper_command"`
}

type streamConfig struct {
	AuthTimeout     duration   `toml:"auth_timeout"`
	PingInterval    duration   `toml:"ping_interval"`
	PongTimeout     duration   `toml:"pong_timeout"`
	CloseOnExpiry   *bool      `toml:"close_on_expiry"`
	BookWildcards   bool       `toml:"book_wildcards"`
	TradesKept      int        `toml:"trades_kept"`
	TradesBytes     size       `toml:"trades_bytes"`
	MaxWaiting      size       `toml:"max_waiting"`
	MaxAge          duration   `toml:"max_age"`
	MaxBacklog      size       `toml:"max_backlog"`
	Memory          size       `toml:"memory"`
	FlushInterval   *duration  `toml:"flush_interval"`
	IOUring         bool       `toml:"io_uring"`
	TLSByGoroutines bool       `toml:"tls_by_goroutines"`
	Delays          []duration `toml:"delays"`
}

type limitsConfig struct {
	Connections               int  `toml:"connections"`
	Subscriptions             int  `toml:"subscriptions"`
	MessagesPerSecond         int  `toml:"messages_per_second"`
	MessageBytes              size `toml:"message_bytes"`
	RequestsPerMinute         int  `toml:"requests_per_minute"`
	LoginsPerMinute           int  `toml:"logins_per_minute"`
	LoginBurst                int  `toml:"login_burst"`
	Sockets                   int  `toml:"sockets"`
	UnauthenticatedPerAddress int  `toml:"unauthenticated_per_address"`
	Handshakes                int  `toml:"handshakes"`
	Requests                  int  `toml:"requests"`
	PerAddress                int  `toml:"requests_per_address"`
	HistoryReaders            int  `toml:"history_readers"`
	HistoryPerUser            int  `toml:"history_per_user"`
}

type journalConfig struct {
	Enabled *bool    `toml:"enabled"`
	Folder  string   `toml:"folder"`
	Segment size     `toml:"segment"`
	Sync    duration `toml:"sync"`
	Days    int      `toml:"days"`
	Bytes   size     `toml:"bytes"`
}

// Log is the configuration of the log.
type Log struct {
	Format string `toml:"format"`
	Level  string `toml:"level"`
}

// Settings is a valid configuration.
type Settings struct {
	Gateway gateway.Config    // without Data and Version
	Data    database.Config   // of the database
	Users   UserSource        // use or close it
	Lines   map[string]string // addresses of feeds of type ndjson, by name

	// Warnings are weaknesses of the configuration, one line each. They are in the log, too.
	Warnings []string
	Origins  []Origin // of the settings that the file or the environment sets

	file mainFile // what was read, for Changes
	doc  *document
}

// Limits of configuration files. The catalogue lists every instrument. A wrong path may name a file
// of any size.
const (
	maxConfig    = 1 << 20
	maxCatalogue = 4 << 20
)

// Limits that also apply to a user's rights.
const (
	MaxCount = 1_000_000          // of a limit without its own maximum, to detect typing errors
	MaxDelay = 7 * 24 * time.Hour // of delayed data
)

// Error is a configuration that cannot be read, with advice.
type Error struct {
	Err    error
	Advice string
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Read reads the file, the environment variables of settings and the files that they name, and
// creates the feeds and the user source, which do not connect yet. log creates the gateway's
// logger, and returns its level. The error contains all mistakes.
func Read(name string, log func(Log) (*slog.Logger, *slog.LevelVar)) (*Settings, error) {
	text, err := readFile(name, maxConfig)
	if err != nil {
		return nil, &Error{Err: err, Advice: "rueda serve --init DIR writes an example."}
	}
	var c mainFile
	doc, err := decode(name, text, &c)
	if err != nil {
		return nil, err
	}
	doc.environment(os.Environ(), &c)
	c.check(doc)
	s := c.settings(doc)
	c.front(doc, &s.Gateway)
	s.Gateway.Logger, s.Gateway.LogLevel = log(c.Log)
	c.sources(doc, s)
	var catalogue error
	if doc.exists("markets", c.Markets); doc.clean("markets") {
		doc.exists("instruments", c.Instruments)
	}
	if doc.clean("markets") && doc.clean("instruments") {
		s.Gateway.Markets, s.Gateway.Instruments, catalogue = readCatalogue(doc.relative(c.Markets), doc.relative(c.Instruments))
	}
	s.Lines = map[string]string{}
	names := map[string]bool{}
	for i := range c.Feeds {
		if name := c.Feeds[i].Name; name != "" && names[name] {
			doc.wrong(fmt.Sprintf("feed[%d].name", i), "duplicate feed name %q", name)
		}
		names[c.Feeds[i].Name] = true
		s.Lines[c.Feeds[i].Name] = c.Feeds[i].Listen
		f, ok := c.Feeds[i].feed(doc, fmt.Sprintf("feed[%d]", i), s.Gateway.Markets, s.Gateway.Logger)
		if ok {
			s.Gateway.Feeds = append(s.Gateway.Feeds, f)
		}
	}
	if err := errors.Join(doc.err(), catalogue); err != nil {
		return nil, err
	}
	s.Warnings, s.Origins, s.file = doc.warnings, doc.origins("", reflect.ValueOf(&c).Elem()), c
	s.doc = doc
	return s, nil
}

// CheckFiles returns an error for each file that a gateway needs and that is missing, with the line
// of its key. Commands that start no gateway do not need these files.
func (s *Settings) CheckFiles() error {
	c, doc := &s.file, s.doc.again()
	for _, f := range [][2]string{
		{"tls.certificate", c.TLS.Certificate}, {"tls.key", c.TLS.Key},
		{"admin.token_file", c.Admin.TokenFile}, {"admin.certificate", c.Admin.Certificate}, {"admin.key", c.Admin.Key},
		{"admin.client_ca", c.Admin.ClientCA}, {"admin.client_crl", c.Admin.ClientCRL},
	} {
		doc.exists(f[0], f[1])
	}
	return doc.err()
}

func readFile(name string, most int64) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if info.Size() > most || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read the configuration: %s is not a text file of at most %d MiB", name, most>>20)
	}
	return os.ReadFile(name)
}

// check finds values that have the right type and are invalid.
func (c *mainFile) check(doc *document) {
	oneOf := func(key, value string, good ...string) {
		for _, g := range good {
			if value == "" || value == g {
				return
			}
		}
		doc.notOneOf(key, value, good)
	}
	oneOf("auth.rotation", c.Auth.Rotation, "activation", "strict")
	oneOf("tls.min_version", c.TLS.MinVersion, "1.2", "1.3")
	oneOf("log.format", c.Log.Format, "text", "json")
	oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	for _, d := range []struct {
		key   string
		value duration
	}{
		{"auth.access_ttl", c.Auth.AccessTTL}, {"auth.refresh_ttl", c.Auth.RefreshTTL}, {"auth.console_idle", c.Auth.ConsoleIdle},
		{"auth.grace_period", c.Auth.GracePeriod}, {"stream.ping_interval", c.Stream.PingInterval},
		{"stream.pong_timeout", c.Stream.PongTimeout}, {"stream.auth_timeout", c.Stream.AuthTimeout},
	} {
		if d.value != 0 && time.Duration(d.value) < time.Second {
			doc.wrong(d.key, "must be at least 1s")
		}
	}
	for _, d := range []struct {
		key   string
		value duration
	}{{"auth.access_ttl", c.Auth.AccessTTL}, {"auth.refresh_ttl", c.Auth.RefreshTTL}, {"auth.console_idle", c.Auth.ConsoleIdle}} {
		if v := time.Duration(d.value); v > time.Second && v%time.Second != 0 {
			doc.wrong(d.key, "must be in whole seconds")
		}
	}
	c.checkCounts(doc)
	c.checkBounds(doc)
	c.checkThrottle(doc)
	c.checkUsers(doc)
	c.checkKeys(doc)
	if (c.TLS.Certificate == "") != (c.TLS.Key == "") {
		doc.wrong("tls", "certificate and key go together")
	}
	if len(c.Feeds) == 0 && c.Cluster.Name == "" {
		doc.warn("feed", "there is no [[feed]], so the gateway has no market data; rueda serve --init DIR writes an example")
	}
	c.checkStream(doc)
	c.checkJournal(doc)
	c.checkCluster(doc)
	c.checkListen(doc)
	c.checkFront(doc)
	c.checkAdmin(doc)
}

// longestFlush is the maximum time that data may be held back for larger writes.
const longestFlush = duration(50 * time.Millisecond)

func (c *mainFile) checkStream(doc *document) {
	if f := c.Stream.FlushInterval; f != nil && *f > longestFlush {
		doc.wrong("stream.flush_interval", "must be at most %v; 0s writes each event at once", time.Duration(longestFlush))
	}
	if b, w := c.Stream.MaxBacklog, cmp.Or(c.Stream.MaxWaiting, 1<<20); b != 0 && b < w {
		doc.wrong("stream.max_backlog", "must be at least max_waiting (%d bytes), the limit of one client", w)
	}
	// Trades are stored twice: for resumes, and for bars that a cancel changes.
	least := 2*cmp.Or(c.Stream.TradesBytes, 256<<20) + cmp.Or(c.Stream.MaxBacklog, 256<<20)
	if m := c.Stream.Memory; m != 0 && m < least {
		doc.wrong("stream.memory", "must be at least twice trades_bytes and max_backlog (together %d bytes)", least)
	}
	if c.Stream.TLSByGoroutines && c.TLS.Certificate == "" {
		doc.wrong("stream.tls_by_goroutines", "there is no [tls] certificate")
	}
	if e := c.Journal.Enabled; len(c.Stream.Delays) > 0 && e != nil && !*e {
		doc.wrong("stream.delays", "delayed data is read from the journal, and journal.enabled is false")
	}
	for _, d := range c.Stream.Delays {
		// A zero was not decoded, which is already reported.
		if d != 0 && (time.Duration(d)%time.Second != 0 || time.Duration(d) > MaxDelay) {
			doc.wrong("stream.delays", "%v is not a delay in whole seconds from 1s to %v, such as \"15m\"", time.Duration(d), MaxDelay)
		}
	}
}

// flushInterval returns the interval for the gateway, where 0 means the default.
func (s *streamConfig) flushInterval() time.Duration {
	switch {
	case s.FlushInterval == nil:
		return 0
	case *s.FlushInterval == 0:
		return -1
	}
	return time.Duration(*s.FlushInterval)
}

func (s *streamConfig) delays() []time.Duration {
	var list []time.Duration
	for _, d := range s.Delays {
		list = append(list, time.Duration(d))
	}
	return list
}

func (c *mainFile) checkCounts(doc *document) {
	for _, n := range []struct {
		key   string
		value int
	}{
		{"stream.trades_kept", c.Stream.TradesKept}, {"journal.days", c.Journal.Days},
		{"limits.connections", c.Limits.Connections}, {"limits.subscriptions", c.Limits.Subscriptions},
		{"limits.messages_per_second", c.Limits.MessagesPerSecond}, {"limits.requests_per_minute", c.Limits.RequestsPerMinute},
		{"limits.logins_per_minute", c.Limits.LoginsPerMinute}, {"limits.login_burst", c.Limits.LoginBurst},
		{"limits.sockets", c.Limits.Sockets}, {"limits.unauthenticated_per_address", c.Limits.UnauthenticatedPerAddress},
		{"limits.handshakes", c.Limits.Handshakes},
		{"limits.requests", c.Limits.Requests}, {"limits.requests_per_address", c.Limits.PerAddress},
		{"limits.history_readers", c.Limits.HistoryReaders}, {"limits.history_per_user", c.Limits.HistoryPerUser},
	} {
		if n.value < 0 {
			doc.wrong(n.key, "must not be negative; leave it out for the default")
		}
		if n.value > MaxCount {
			doc.wrong(n.key, "must be at most %d", MaxCount)
		}
	}
}

// checkListen finds what gateway.New would refuse, with the line of the key.
func (c *mainFile) checkListen(doc *document) {
	if c.Listen == "" {
		return
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if err != nil {
		doc.wrong("listen", "%q is not of the form host:port, such as \"127.0.0.1:8080\"", c.Listen)
		return
	}
	ip, err := netip.ParseAddr(host)
	if c.Insecure || c.TLS.Certificate != "" || host != "" && (err != nil || ip.Unmap().IsLoopback()) {
		return
	}
	doc.wrong("listen", "%q: %v: listen on 127.0.0.1, or give [tls] a certificate and key; behind a proxy that ends TLS set insecure = true",
		c.Listen, gateway.ErrInsecure)
}

// Minimum size of a journal file, and maximum interval of syncs.
const (
	leastSegment = 1 << 20
	longestSync  = duration(time.Minute)
)

func (c *mainFile) checkJournal(doc *document) {
	j := &c.Journal
	if j.Segment != 0 && j.Segment < leastSegment {
		doc.wrong("journal.segment", "must be at least 1MiB")
	}
	if j.Sync > longestSync {
		doc.wrong("journal.sync", "must be at most %v: what was not synced is lost when the machine fails", time.Duration(longestSync))
	}
}

// journal returns the settings of the journal, which is on by default.
func (c *mainFile) journal(doc *document) gateway.Journal {
	j := &c.Journal
	if j.Enabled != nil && !*j.Enabled {
		return gateway.Journal{}
	}
	folder := doc.relative(j.Folder)
	if folder == "" {
		folder = filepath.Join(doc.relative(cmp.Or(c.Data, "data")), "journal")
	}
	return gateway.Journal{Folder: folder, Segment: int64(j.Segment), Sync: time.Duration(j.Sync), Days: j.Days, Bytes: int64(j.Bytes)}
}

// data returns the settings of the database and the keys.
func (c *mainFile) data(doc *document) database.Config {
	a := &c.Auth
	d := database.Config{
		Folder:        doc.relative(cmp.Or(c.Data, "data")),
		Postgres:      c.database(doc),
		PasswordSlots: a.PasswordSlots,
		MinPassword:   a.MinPassword, Breached: c.breached(doc), ContextWords: a.ContextWords, OTPIssuer: a.OTPIssuer, Peppers: c.peppers(doc),
	}
	c.keys(doc, &d)
	return d
}

func (c *mainFile) settings(doc *document) *Settings {
	a, s, l := c.Auth, c.Stream, c.Limits
	return &Settings{
		Data: c.data(doc),
		Gateway: gateway.Config{
			Listen: c.Listen, Insecure: c.Insecure, Origins: c.Origins, Hosts: c.Hosts,
			Drain:          time.Duration(c.Drain),
			HSTSSubdomains: c.HSTS, SecurityContact: c.Contact,
			Console:         gateway.Console{Serve: c.Console == nil || *c.Console, Idle: time.Duration(a.ConsoleIdle)},
			ClientDownloads: c.Downloads == nil || *c.Downloads,
			TLS: gateway.TLS{
				Certificate: doc.relative(c.TLS.Certificate), Key: doc.relative(c.TLS.Key),
				MinVersion: c.TLS.minVersion(c.TLS.Certificate),
			},
			Auth: gateway.Auth{
				Issuer: a.Issuer, Audience: a.Audience,
				AccessTTL: time.Duration(a.AccessTTL), RefreshTTL: time.Duration(a.RefreshTTL),
				FamilyMaxAge: time.Duration(a.FamilyMaxAge),
				Rotation:     a.Rotation, GracePeriod: time.Duration(a.GracePeriod), MaxSessions: a.MaxSessions,
			},
			Stream: gateway.Stream{
				AuthTimeout: time.Duration(s.AuthTimeout), PingInterval: time.Duration(s.PingInterval),
				PongTimeout: time.Duration(s.PongTimeout),
				KeepExpired: s.CloseOnExpiry != nil && !*s.CloseOnExpiry, BookWildcards: s.BookWildcards,
				TradesKept: s.TradesKept, TradesBytes: int64(s.TradesBytes),
				MaxWaiting: int(s.MaxWaiting), MaxAge: time.Duration(s.MaxAge), MaxBacklog: int(s.MaxBacklog), Memory: int64(s.Memory),
				FlushInterval: s.flushInterval(), TLSByGoroutines: s.TLSByGoroutines, IOUring: s.IOUring,
				Delays: s.delays(),
			},
			Limits: gateway.Limits{
				Connections: l.Connections, Subscriptions: l.Subscriptions,
				MessagesPerSecond: l.MessagesPerSecond, MessageBytes: int(l.MessageBytes),
				RequestsPerMinute: l.RequestsPerMinute,
				LoginsPerMinute:   l.LoginsPerMinute, LoginBurst: l.LoginBurst, Logins: c.Throttle.logins(c.Users.Type),
				Sockets: l.Sockets, UnauthenticatedPerAddress: l.UnauthenticatedPerAddress, Handshakes: l.Handshakes,
				Requests: l.Requests, RequestsPerAddress: l.PerAddress,
				HistoryReaders: l.HistoryReaders, HistoryPerUser: l.HistoryPerUser,
			},
			Journal: c.journal(doc),
			Cluster: c.cluster(doc),
			Audit:   c.audit(doc),
		},
	}
}

// OpenData opens the database for a gateway.
func (s *Settings) OpenData(ctx context.Context) (*gateway.Data, error) {
	data, err := gateway.OpenData(ctx, gateway.DataConfig(s.Data))
	return data, s.openError(err)
}

// OpenDatabase opens the database for an administrative command.
func (s *Settings) OpenDatabase(ctx context.Context) (*database.DB, error) {
	db, err := database.Open(ctx, s.Data)
	return db, s.openError(err)
}

func (s *Settings) openError(err error) error {
	switch {
	case err == nil:
		return nil
	case s.Data.Postgres != "":
		return fmt.Errorf("open the database: %w", err)
	}
	return fmt.Errorf("open %s: %w", filepath.Clean(s.Data.Folder), err)
}
