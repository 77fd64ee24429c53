package market

import (
	"errors"
	"time"
)

// Date is a trading date, the local date of a trading day (see TradingDay). Its number is 20261120
// for 2026-11-20, so dates can be compared. 0 is no date.
type Date uint32

// DateAt returns the date of the trading day that contains a time in Unix nanoseconds. A nil loc
// means UTC.
func DateAt(ns int64, loc *time.Location) Date {
	if loc == nil {
		loc = time.UTC
	}
	return dateOf(time.Unix(0, ns).In(loc))
}

func dateOf(t time.Time) Date {
	y, m, d := t.Date()
	return Date(y*10_000 + int(m)*100 + d)
}

// ParseDate parses a date like 2026-11-20, of a year that Unix nanoseconds have.
func ParseDate(s string) (Date, error) {
	var d Date
	for i := range len(s) {
		switch c := s[i]; {
		case i == 4 || i == 7:
			if c != '-' {
				return 0, errDate
			}
		case c-'0' > 9 || i >= len(time.DateOnly):
			return 0, errDate
		default:
			d = d*10 + Date(c-'0')
		}
	}
	year := d / 10_000
	if len(s) != len(time.DateOnly) || year < 1969 || year > 2262 || dateOf(d.Start(time.UTC)) != d {
		return 0, errDate
	}
	return d, nil
}

var errDate = errors.New("not a date like 2026-11-20")

// Start returns the first instant of the trading day with the date. A nil loc means UTC.
func (d Date) Start(loc *time.Location) time.Time {
	if loc == nil {
		loc = time.UTC
	}
	return date{int(d / 10_000), time.Month(d / 100 % 100), int(d % 100)}.at(0, loc)
}

// String returns the date as 2026-11-20, "" for no date.
func (d Date) String() string { return string(d.Append(nil)) }

// Append appends the date as String returns it.
func (d Date) Append(b []byte) []byte {
	if d == 0 {
		return b
	}
	digit := func(unit Date) byte { return '0' + byte(d/unit%10) }
	return append(b, digit(10_000_000), digit(1_000_000), digit(100_000), digit(10_000), '-',
		digit(1000), digit(100), '-', digit(10), digit(1))
}
