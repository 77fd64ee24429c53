package ldapusers

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// version converts attribute values to a number that rises: the latest time in microseconds, or the
// largest integer. Without values it is 0.
func version(values []string) (latest int64, err error) {
	for _, v := range values {
		n, err := parseVersion(v)
		if err != nil {
			return 0, err
		}
		latest = max(latest, n)
	}
	return latest, nil
}

// parseVersion parses a generalized time in UTC (RFC 4517, section 3.3.13), also at the beginning
// of an entryCSN, or an integer.
func parseVersion(text string) (int64, error) {
	text, _, _ = strings.Cut(text, "#")
	if t, ok := parseTime(text); ok {
		return t.UnixMicro(), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, errors.New("neither a time of UTC nor a whole number")
	}
	return n, nil
}

func parseTime(text string) (time.Time, bool) {
	at, isTime := strings.CutSuffix(text, "Z")
	if !isTime {
		return time.Time{}, false
	}
	at = strings.Replace(at, ",", ".", 1)
	for _, layout := range []string{"20060102150405.999999999", "200601021504", "2006010215"} {
		if t, err := time.ParseInLocation(layout, at, time.UTC); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// expiry returns the first time of the values, or the zero time if there is none. A time is a
// generalized time or, as in accountExpires of Active Directory, a number of 100 ns since 1601, of
// which 0 and the largest number mean never.
func expiry(values []string) (first time.Time, err error) {
	for _, v := range values {
		end, ok := parseTime(v)
		if !ok {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n < 0 {
				return time.Time{}, errors.New("neither a time of UTC nor a number of 100 ns since 1601")
			}
			if n == 0 || n == math.MaxInt64 {
				continue
			}
			end = time.Unix(n/1e7-secondsTo1970, n%1e7*100).UTC()
		}
		if first.IsZero() || end.Before(first) {
			first = end
		}
	}
	return first, nil
}

// secondsTo1970 is the time from 1601 to 1970.
const secondsTo1970 = 11_644_473_600
