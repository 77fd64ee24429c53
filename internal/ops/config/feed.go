package config

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/ndjson"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/base/certificate"
	"github.com/ruedahq/rueda/internal/base/reload"
	"github.com/ruedahq/rueda/internal/data/replay"
	"github.com/ruedahq/rueda/market"
)

// feedConfig is a [[feed]]: a type and its keys. Other kinds of feeds need a main of your own, see
// examples/custom-gateway.
type feedConfig struct {
	Name         string    `toml:"name"`
	Type         string    `toml:"type"`
	Seed         int64     `toml:"seed"`          // sim
	Instruments  int       `toml:"instruments"`   // sim
	Speed        float64   `toml:"speed"`         // sim, replay
	File         string    `toml:"file"`          // replay
	Loop         bool      `toml:"loop"`          // replay
	Symbols      []string  `toml:"symbols"`       // replay
	Date         string    `toml:"date"`          // replay
	Listen       string    `toml:"listen"`        // ndjson
	Insecure     bool      `toml:"insecure"`      // ndjson
	TokenFile    string    `toml:"token_file"`    // ndjson
	TokenEnv     string    `toml:"token_env"`     // ndjson
	TokenCommand *[]string `toml:"token_command"` // ndjson
	Certificate  string    `toml:"certificate"`   // ndjson
	Key          string    `toml:"key"`           // ndjson
	ClientCA     string    `toml:"client_ca"`     // ndjson
	ClientCRL    string    `toml:"client_crl"`    // ndjson

	PriceBand *float64  `toml:"price_band"`
	MaxAhead  *duration `toml:"max_ahead"`
	Stall     *duration `toml:"stall"`
	Refuse    []string  `toml:"refuse"`
}

// feed creates the source. ok is false after a mistake, which doc has.
func (c *feedConfig) feed(doc *document, key string, markets []market.Market, log *slog.Logger) (f gateway.Feed, ok bool) {
	before := len(doc.mistakes)
	if c.Name == "" {
		doc.wrong(key, "name is missing; the log uses it")
	}
	if k := key + ".speed"; doc.lines[k] > 0 && (!(c.Speed > 0) || math.IsInf(c.Speed, 1)) {
		doc.wrong(k, "must be above 0; 1 is real time")
	}
	source, err := c.source(doc, key, markets, log)
	if err != nil {
		doc.wrong(key, "%s", oneLine(err))
	}
	return gateway.Feed{Name: c.Name, Source: source, Late: c.Type == "ndjson", Checks: c.checks(doc, key)}, len(doc.mistakes) == before
}

// checks returns when the feed looks wrong. A value of 0 disables a check.
func (c *feedConfig) checks(doc *document, key string) (checks gateway.FeedChecks) {
	if c.PriceBand != nil {
		if checks.PriceBand = *c.PriceBand; checks.PriceBand == 0 {
			checks.PriceBand = -1
		} else if !(checks.PriceBand > 0) || math.IsInf(checks.PriceBand, 1) {
			doc.wrong(key+".price_band", "must be a percentage such as 50, or 0 for no check")
		}
	}
	limit := func(d *duration) time.Duration {
		switch {
		case d == nil:
			return 0
		case *d == 0:
			return -1
		}
		return time.Duration(*d)
	}
	checks.MaxAhead, checks.Stall = limit(c.MaxAhead), limit(c.Stall)
	if k := key + ".stall"; checks.Stall > 0 && checks.Stall < time.Second {
		doc.wrong(k, "must be at least 1s, or 0s for no check")
	}
	kinds := gateway.RefusableEvents()
	for i, word := range c.Refuse {
		if !slices.Contains(kinds, word) {
			doc.notOneOf(fmt.Sprintf("%s.refuse[%d]", key, i), word, kinds)
		}
	}
	checks.Refuse = c.Refuse
	return checks
}

func (c *feedConfig) source(doc *document, key string, markets []market.Market, log *slog.Logger) (feed.Source, error) {
	switch c.Type {
	case "sim":
		c.only(doc, key, "seed", "instruments", "speed")
		return sim.New(sim.Config{Seed: uint64(c.Seed), Instruments: c.Instruments, Speed: c.Speed})
	case "replay":
		c.only(doc, key, "file", "speed", "loop", "symbols", "date")
		if c.File == "" {
			return nil, fmt.Errorf("file is missing: the recording to play")
		}
		return replay.Open(doc.relative(c.File), replay.Config{
			Speed: c.Speed, Loop: c.Loop, Symbols: c.Symbols, Date: c.Date, FromName: c.Date == "", Logger: log,
		})
	case "ndjson":
		c.only(doc, key, "listen", "insecure", "token_file", "token_env", "token_command", "certificate", "key", "client_ca", "client_crl")
		return c.lines(doc, key, markets, log)
	case "":
		return nil, fmt.Errorf("type is missing: sim, replay or ndjson")
	}
	doc.notOneOf(key+".type", c.Type, []string{"sim", "replay", "ndjson"})
	return nil, nil
}

// lines creates a feed of type ndjson.
func (c *feedConfig) lines(doc *document, key string, markets []market.Market, log *slog.Logger) (feed.Source, error) {
	if c.Listen == "" {
		return nil, errors.New("listen is missing: the address that accepts lines")
	}
	n := ndjson.Config{Listen: c.Listen, Insecure: c.Insecure, Markets: markets, Logger: log}
	if path, ok := strings.CutPrefix(c.Listen, "unix:"); ok && path != "" {
		n.Listen = "unix:" + doc.relative(path)
	}
	if from := (secretSource{c.TokenFile, c.TokenEnv, c.TokenCommand}); from.exists() {
		before := len(doc.mistakes)
		if n.Token = doc.secret(key, "token", from); len(doc.mistakes) > before {
			return nil, nil
		}
		if c.TokenFile != "" {
			now, err := reload.New(doc.relative(c.TokenFile), func(string) (string, error) { return doc.feedToken(c.TokenFile) }, log)
			if err != nil {
				return nil, err
			}
			n.TokenNow = now.Get
		}
	}
	if c.ClientCRL != "" && c.ClientCA == "" {
		return nil, errors.New("client_crl needs client_ca, too")
	}
	if c.Certificate == "" && c.Key == "" {
		if c.ClientCA != "" {
			return nil, errors.New("client_ca needs certificate and key, too")
		}
		return ndjson.New(n)
	}
	pair, err := certificate.Load(certificate.Files{Certificate: doc.relative(c.Certificate), Key: doc.relative(c.Key)}, log)
	if err != nil {
		return nil, err
	}
	n.TLS = pair.Config()
	n.TLS.NextProtos = nil // which are of HTTP
	secure := &secureLines{certificate: pair}
	if c.ClientCA != "" {
		files := certificate.ClientFiles{Authorities: doc.relative(c.ClientCA), Revoked: doc.relative(c.ClientCRL)}
		if secure.clients, err = certificate.LoadClients(files, log); err != nil {
			return nil, err
		}
		secure.clients.Require(n.TLS)
	}
	if secure.Source, err = ndjson.New(n); err != nil {
		return nil, err
	}
	return secure, nil
}

// feedToken reads the token of a feed again.
func (d *document) feedToken(name string) (string, error) {
	again := d.again()
	token := again.secret("feed", "token", secretSource{file: name})
	if len(token) < ndjson.MinToken {
		again.wrong("feed.token_file", "has fewer than %d characters", ndjson.MinToken)
	}
	return token, again.err()
}

// secureLines is a feed of type ndjson with TLS, whose files are read again when they change.
type secureLines struct {
	*ndjson.Source
	certificate *certificate.Certificate
	clients     *certificate.Clients // nil: no client certificate is required
}

// Run implements feed.Source.
func (s *secureLines) Run(ctx context.Context, sink feed.Sink) error {
	reloading, stop := context.WithCancel(ctx)
	var reload sync.WaitGroup
	reload.Go(func() { _ = s.certificate.Run(reloading) }) // logs its errors
	if s.clients != nil {
		reload.Go(func() { _ = s.clients.Run(reloading) })
	}
	defer reload.Wait()
	defer stop()
	return s.Source.Run(ctx, sink)
}

// only reports keys of other types.
func (c *feedConfig) only(doc *document, key string, own ...string) {
	for _, k := range []string{"seed", "instruments", "speed", "file", "loop", "symbols", "date", "listen", "insecure", "token_file", "token_env", "token_command", "certificate", "key", "client_ca", "client_crl"} {
		if doc.lines[key+"."+k] > 0 && !slices.Contains(own, k) {
			doc.wrong(key+"."+k, "is not a key of feeds of type %s", c.Type)
		}
	}
}
