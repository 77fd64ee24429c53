package ldapusers

import (
	"errors"
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
	if at, isTime := strings.CutSuffix(text, "Z"); isTime {
		at = strings.Replace(at, ",", ".", 1)
		for _, layout := range []string{"20060102150405.999999999", "200601021504", "2006010215"} {
			if t, err := time.ParseInLocation(layout, at, time.UTC); err == nil {
				return t.UnixMicro(), nil
			}
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, errors.New("neither a time of UTC nor a whole number")
	}
	return n, nil
}
