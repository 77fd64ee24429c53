package market

import (
	"testing"
	"time"
)

// TestDate compares dates of random times, and their starts, with package time.
func TestDate(t *testing.T) {
	for _, name := range []string{"UTC", "Asia/Tokyo", "America/New_York", "America/Sao_Paulo", "America/Havana", "Asia/Kolkata", "Pacific/Kiritimati", "Etc/GMT+12"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for at := int64(1); at > 0 && at < 1<<62; at += 7_777_777*1e9 + 12345 {
			want := time.Unix(0, at).In(zone).Format(time.DateOnly)
			d := DateAt(at, zone)
			if d.String() != want {
				t.Fatalf("%s: date of %d is %s, want %s", name, at, d, want)
			}
			if p, err := ParseDate(want); err != nil || p != d {
				t.Fatalf("%s: parsed %s as %v, %v", name, want, p, err)
			}
			if from, to := TradingDay(time.Unix(0, at), zone); !d.Start(zone).Equal(from) || DateAt(from.UnixNano()-1, zone) >= d || DateAt(to.UnixNano()-1, zone) != d {
				t.Fatalf("%s: %s begins at %s, its trading day at %s", name, d, d.Start(zone), from)
			}
		}
	}
	if d := DateAt(1795185000e9, nil); d != 20261120 || !d.Start(nil).Equal(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)) || Date(0).String() != "" {
		t.Errorf("without a zone: %s", d)
	}
	for _, text := range []string{"", "2026-11-2", "2026-11-200", "2026-13-01", "2026-02-29", "2026-00-10", "2026-11-00", "2026/11/20",
		"20261120", "1968-12-31", "2263-01-01", "2026-11-2x", "-026-11-20", "٢٠٢٦-11-20"} {
		if d, err := ParseDate(text); err == nil {
			t.Errorf("%q is the date %s", text, d)
		}
	}
	if d, err := ParseDate("2028-02-29"); err != nil || d != 20280229 {
		t.Errorf("a leap day: %v, %v", d, err)
	}
}
