package config

import (
	"fmt"
	"log/slog"
	"math"
	"slices"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/ndjson"
	"github.com/ruedahq/rueda/feed/replay"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/market"
)

// feedConfig is a [[feed]]: a type and its keys. Other kinds of feeds need a main of your own, see
// examples/custom-gateway.
type feedConfig struct {
	Name        string   `toml:"name"`
	Type        string   `toml:"type"`
	Seed        int64    `toml:"seed"`        // sim
	Instruments int      `toml:"instruments"` // sim
	Speed       float64  `toml:"speed"`       // sim, replay
	File        string   `toml:"file"`        // replay
	Loop        bool     `toml:"loop"`        // replay
	Symbols     []string `toml:"symbols"`     // replay
	Date        string   `toml:"date"`        // replay
	Listen      string   `toml:"listen"`      // ndjson
	Insecure    bool     `toml:"insecure"`    // ndjson
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
	return gateway.Feed{Name: c.Name, Source: source, Late: c.Type == "ndjson"}, len(doc.mistakes) == before
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
		c.only(doc, key, "listen", "insecure")
		if c.Listen == "" {
			return nil, fmt.Errorf("listen is missing: the address that accepts lines")
		}
		return ndjson.New(ndjson.Config{Listen: c.Listen, Insecure: c.Insecure, Markets: markets, Logger: log})
	case "":
		return nil, fmt.Errorf("type is missing: sim, replay or ndjson")
	}
	doc.wrong(key+".type", "%q: %s", c.Type, suggestion(c.Type, []string{"sim", "replay", "ndjson"}))
	return nil, nil
}

// only reports keys of other types.
func (c *feedConfig) only(doc *document, key string, own ...string) {
	for _, k := range []string{"seed", "instruments", "speed", "file", "loop", "symbols", "date", "listen", "insecure"} {
		if doc.lines[key+"."+k] > 0 && !slices.Contains(own, k) {
			doc.wrong(key+"."+k, "is not a key of feeds of type %s", c.Type)
		}
	}
}
