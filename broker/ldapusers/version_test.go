package ldapusers

import (
	"fmt"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
)

func TestVersion(t *testing.T) {
	at := time.Date(2026, 11, 21, 20, 54, 11, 0, time.UTC).UnixMicro()
	for _, tc := range []struct {
		values []string
		want   int64 // -1: refused
	}{
		{nil, 0},
		{[]string{"20261121205411Z"}, at},
		{[]string{"20261121205411.5Z"}, at + 500_000},
		{[]string{"20261121205411,5Z"}, at + 500_000},
		{[]string{"202611212054Z"}, at - 11_000_000},
		{[]string{"2026112120Z"}, at - (54*60+11)*1_000_000},
		{[]string{"20261121205411.123456Z#000000#000#000000"}, at + 123_456},
		{[]string{"133500000000000000"}, 133500000000000000},
		{[]string{"0"}, 0},
		{[]string{"3", "7", "5"}, 7},
		{[]string{"20261121205411+0300"}, -1},
		{[]string{"yesterday"}, -1},
		{[]string{"-5"}, -1},
		{[]string{""}, -1},
		{[]string{"1", "x"}, -1},
	} {
		got, err := version(tc.values)
		if (err != nil) != (tc.want < 0) || err == nil && got != tc.want {
			t.Errorf("%q: %d, %v; want %d", tc.values, got, err, tc.want)
		}
	}
}

// TestExpiry checks the forms of the end of an account, and that the first of several times counts.
func TestExpiry(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for value, want := range map[string]string{
		"0": "false", "9223372036854775807": "false", "": "error", "soon": "error", "-1": "error",
		"134398656000000000": "true", "134398656010000000": "false", "100000000000000000": "true", "140000000000000000": "false",
		"20261122235959Z": "true", "20261123000000Z": "true", "20261123000001Z": "false", "20271123000001.5Z": "false",
	} {
		end, err := expiry([]string{value})
		user := broker.User{Expires: end}
		got := fmt.Sprint(user.Ended(now))
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
	if end, err := expiry(nil); !end.IsZero() || err != nil {
		t.Error("without a value:", end, err)
	}
	if end, err := expiry([]string{"20271123000001Z", "0", "20261123000001Z"}); err != nil || end != now.Add(time.Second) {
		t.Error("of several values:", end, err)
	}
}

// FuzzVersion parses any text as a version: the result is never negative.
func FuzzVersion(f *testing.F) {
	for _, v := range []string{"20261121205411.123456Z#000000#000#000000", "133500000000000000", "99991231235959Z", "00010101000000Z", "Z", "#"} {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := version([]string{text}); n < 0 {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	})
}
