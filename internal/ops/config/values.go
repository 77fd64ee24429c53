package config

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/market"
)

// Types of values with their own text form. wanted describes them with an example.

var errForm = errors.New("not of this form")

// ParseDuration parses a duration that is not negative: "250ms", "30s", "24h", "7d", "1d12h". A day
// has 24 hours.
func ParseDuration(s string) (time.Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	if !found {
		days, rest = "0", s
	} else if rest == "" {
		rest = "0s"
	}
	n, err := strconv.ParseUint(days, 10, 16)
	d, err2 := time.ParseDuration(rest)
	if err != nil || err2 != nil || d < 0 || found && strings.HasPrefix(rest, "+") {
		return 0, errForm
	}
	if d += time.Duration(n) * 24 * time.Hour; d < 0 {
		return 0, errForm
	}
	return d, nil
}

// duration is "250ms", "30s", "24h", "7d".
type duration time.Duration

func (duration) wanted() string { return `a duration in quotes, such as "30s", "24h" or "7d"` }

func (d *duration) UnmarshalText(text []byte) error {
	v, err := ParseDuration(string(text))
	*d = duration(v)
	return err
}

// size is a number of bytes: 65536, "64KiB", "256MiB".
type size int64

func (size) numeric()       {}
func (size) wanted() string { return `a size in bytes, such as 65536 or "64KiB"` }

func (s *size) UnmarshalText(text []byte) error {
	digits, unit := string(text), int64(1)
	for _, u := range []struct {
		suffix string
		bytes  int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}} {
		if d, ok := strings.CutSuffix(digits, u.suffix); ok {
			digits, unit = d, u.bytes
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil || n < 0 || n > 1<<40/unit {
		return errForm
	}
	*s = size(n * unit)
	return nil
}

// clock is a time of day, from "00:00" to "24:00".
type clock time.Duration

func (clock) wanted() string { return `a time of day in quotes, such as "10:30"` }

func (c *clock) UnmarshalText(text []byte) error {
	h, m, ok := strings.Cut(string(text), ":")
	hours, err1 := strconv.ParseUint(h, 10, 8)
	minutes, err2 := strconv.ParseUint(m, 10, 8)
	total := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if !ok || err1 != nil || err2 != nil || len(h) != 2 || len(m) != 2 || minutes > 59 || total > 24*time.Hour {
		return errForm
	}
	*c = clock(total)
	return nil
}

// phase is the trading status of a session.
type phase market.Phase

func (phase) wanted() string {
	return "one of pre_open, auction, open, quoting, halt, pause, suspended, pre_close, closed, post_close"
}

func (p *phase) UnmarshalText(text []byte) error {
	v, ok := market.ParsePhase(string(text))
	if !ok || v == market.Unknown || v.OfFeed() {
		return errForm
	}
	*p = phase(v)
	return nil
}

// weekday is an English name of a day.
type weekday time.Weekday

func (weekday) wanted() string { return `a day in quotes, such as "monday"` }

func (w *weekday) UnmarshalText(text []byte) error {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(d.String(), string(text)) {
			*w = weekday(d)
			return nil
		}
	}
	return errForm
}

// instrument is an exact instrument identifier.
type instrument market.InstrumentID

func (instrument) wanted() string { return `an instrument, such as "GGAL|BYMA|24hs"` }

func (i *instrument) UnmarshalText(text []byte) error {
	id, err := market.ParseInstrumentID(string(text))
	*i = instrument(id)
	return err
}

// price and quantity are exact decimals, as numbers or in quotes.
type (
	price    market.Price
	quantity market.Size
)

func (price) numeric()          {}
func (price) wanted() string    { return "a decimal with at most 15 digits, 8 of them behind the point" }
func (quantity) numeric()       {}
func (quantity) wanted() string { return price(0).wanted() + ", not negative" }

func (p *price) UnmarshalText(text []byte) error {
	v, err := market.ParsePrice(text)
	*p = price(v)
	return err
}

func (q *quantity) UnmarshalText(text []byte) error {
	v, err := market.ParseSize(text)
	*q = quantity(v)
	return err
}
