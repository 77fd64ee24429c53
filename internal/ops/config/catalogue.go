package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/base/spell"
	"github.com/ruedahq/rueda/market"
)

// marketsFile and instrumentsFile are the catalogue; the templates of the same names explain every
// key.
type marketsFile struct {
	Markets []marketConfig `toml:"market"`
}

type marketConfig struct {
	ID       string          `toml:"id"`
	Name     string          `toml:"name"`
	Timezone string          `toml:"timezone"`
	Weekdays []weekday       `toml:"weekdays"`
	Terms    []termConfig    `toml:"term"`
	Sessions []sessionConfig `toml:"session"`
	Holidays []holidayConfig `toml:"holiday"`
	Negative *bool           `toml:"negative_prices"`
}

type termConfig struct {
	Name           string `toml:"name"`
	SettlementDays int    `toml:"settlement_days"`
}

type sessionConfig struct {
	Start clock `toml:"start"`
	End   clock `toml:"end"`
	Phase phase `toml:"phase"`
}

type holidayConfig struct {
	Date  string   `toml:"date"`
	Name  string   `toml:"name"`
	Close clock    `toml:"close"`
	Terms []string `toml:"terms"`
}

type instrumentsFile struct {
	Instruments []instrumentConfig `toml:"instrument"`
}

type instrumentConfig struct {
	ID             instrument `toml:"id"`
	Name           string     `toml:"name"`
	Kind           string     `toml:"kind"`
	ISIN           string     `toml:"isin"`
	Currency       string     `toml:"currency"`
	SettlementDays *int       `toml:"settlement_days"`
	Multiplier     quantity   `toml:"multiplier"`
	PriceDecimals  int        `toml:"price_decimals"`
	SizeDecimals   int        `toml:"size_decimals"`
	Ticks          [][]price  `toml:"tick"`
	Lot            quantity   `toml:"lot"`
	MinSize        quantity   `toml:"min_size"`
	OwnQuotes      bool       `toml:"own_quotes"`
	NoBook         bool       `toml:"no_book"`
}

// readCatalogue reads both files. For an empty name it returns an empty list.
func readCatalogue(marketsName, instrumentsName string) ([]market.Market, []market.Instrument, error) {
	var mf marketsFile
	var inf instrumentsFile
	markets, err1 := decodeNamed(marketsName, &mf)
	instruments, err2 := decodeNamed(instrumentsName, &inf)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, err
	}
	var ms []market.Market
	terms := map[[2]string]int{} // settlement days by market and term
	for i := range mf.Markets {
		key := fmt.Sprintf("market[%d]", i)
		m := mf.Markets[i].market()
		if _, err := time.LoadLocation(m.Timezone); err != nil {
			markets.wrong(key+".timezone", "%q is not a time zone such as America/Argentina/Buenos_Aires", m.Timezone)
		} else if err := m.Validate(); err != nil && markets.clean(key) {
			markets.wrong(key, "%s", oneLine(err))
		}
		for _, t := range m.Terms {
			terms[[2]string{m.ID, t.Name}] = t.SettlementDays
		}
		ms = append(ms, m)
	}
	known := make([]string, 0, len(ms))
	for i := range ms {
		known = append(known, ms[i].ID)
	}
	var ins []market.Instrument
	seen := map[market.InstrumentID]bool{}
	for i := range inf.Instruments {
		key := fmt.Sprintf("instrument[%d]", i)
		in := inf.Instruments[i].instrument(instruments, key, terms)
		if err := in.Validate(); err != nil && instruments.clean(key) {
			instruments.wrong(key, "%s", oneLine(err))
		} else if err == nil && seen[in.ID] {
			instruments.wrong(key+".id", "duplicate instrument %s", in.ID)
		} else if err == nil && marketsName != "" && !slices.Contains(known, in.ID.Market) {
			instruments.wrong(key+".id", "market %s is not in %s; %s", in.ID.Market, filepath.Base(marketsName), spell.Suggest(in.ID.Market, known, "the markets are "))
		} else if listed := termsOf(ms, in.ID.Market); err == nil && len(listed) > 0 && inf.Instruments[i].SettlementDays == nil && !slices.Contains(listed, in.ID.Term) {
			instruments.wrong(key+".id", "term %s is not one of market %s, and settlement_days is not given; %s", in.ID.Term, in.ID.Market, spell.Suggest(in.ID.Term, listed, "the terms are "))
		}
		seen[in.ID] = true
		ins = append(ins, in)
	}
	return ms, ins, errors.Join(markets.err(), instruments.err())
}

func decodeNamed(name string, into any) (*document, error) {
	if name == "" {
		return &document{}, nil
	}
	text, err := readFile(name, maxCatalogue)
	if err != nil {
		return nil, err
	}
	return decode(name, text, into)
}

// termsOf returns the names of a market's terms.
func termsOf(ms []market.Market, id string) []string {
	var names []string
	for _, m := range ms {
		if m.ID == id {
			for _, t := range m.Terms {
				names = append(names, t.Name)
			}
		}
	}
	return names
}

// oneLine returns a joined error on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

func (c *marketConfig) market() market.Market {
	m := market.Market{ID: c.ID, Name: c.Name, Timezone: c.Timezone, Positive: c.Negative != nil && !*c.Negative}
	for _, t := range c.Terms {
		m.Terms = append(m.Terms, market.Term{Name: t.Name, SettlementDays: t.SettlementDays})
	}
	for _, w := range c.Weekdays {
		m.Schedule.Weekdays = append(m.Schedule.Weekdays, time.Weekday(w))
	}
	for _, s := range c.Sessions {
		m.Schedule.Sessions = append(m.Schedule.Sessions, market.Session{
			Start: time.Duration(s.Start), End: time.Duration(s.End), Phase: market.Phase(s.Phase)})
	}
	for _, h := range c.Holidays {
		m.Schedule.Holidays = append(m.Schedule.Holidays, market.Holiday{
			Date: h.Date, Name: h.Name, Close: time.Duration(h.Close), Terms: h.Terms})
	}
	return m
}

// instrument returns an instrument. Its settlement days are those of the market's term by default.
func (c *instrumentConfig) instrument(doc *document, key string, terms map[[2]string]int) market.Instrument {
	in := market.Instrument{
		ID: market.InstrumentID(c.ID), Name: c.Name, Kind: c.Kind, ISIN: c.ISIN, Currency: c.Currency,
		Multiplier: market.Size(c.Multiplier), PriceDecimals: c.PriceDecimals, SizeDecimals: c.SizeDecimals,
		Lot: market.Size(c.Lot), MinSize: market.Size(c.MinSize), QuotesFromFeed: c.OwnQuotes, NoBook: c.NoBook,
		SettlementDays: terms[[2]string{c.ID.Market, c.ID.Term}],
	}
	if c.SettlementDays != nil {
		in.SettlementDays = *c.SettlementDays
	}
	for i, row := range c.Ticks {
		if len(row) != 2 {
			doc.wrong(fmt.Sprintf("%s.tick[%d]", key, i), "must be [from, step]")
			continue
		}
		in.Ticks = append(in.Ticks, market.Tick{From: market.Price(row[0]), Step: market.Price(row[1])})
	}
	return in
}
