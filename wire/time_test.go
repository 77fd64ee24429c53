package wire

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// layout is the format of AppendTime for package time.
const layout = "2006-01-02T15:04:05.000000000Z"

func TestAppendTime(t *testing.T) {
	for _, tt := range []struct {
		ns   int64
		want string
	}{
		{0, "1970-01-01T00:00:00.000000000Z"},
		{1, "1970-01-01T00:00:00.000000001Z"},
		{-1, "1969-12-31T23:59:59.999999999Z"},
		{951782399999999999, "2000-02-28T23:59:59.999999999Z"},
		{951782400000000000, "2000-02-29T00:00:00.000000000Z"},
		{1795185000123456789, "2026-11-20T14:30:00.123456789Z"},
		{4107542400000000000, "2100-03-01T00:00:00.000000000Z"},
		{math.MaxInt64, "2262-04-11T23:47:16.854775807Z"},
		{math.MinInt64, "1677-09-21T00:12:43.145224192Z"},
	} {
		if got := string(AppendTime(nil, tt.ns)); got != tt.want {
			t.Errorf("AppendTime(%d) = %s, want %s", tt.ns, got, tt.want)
		}
	}
}

func TestAppendTimeAsTimePackage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		ns := int64(r.Uint64())
		got, want := string(AppendTime(nil, ns)), time.Unix(0, ns).UTC().Format(layout)
		if got != want {
			t.Fatalf("AppendTime(%d) = %s, want %s", ns, got, want)
		}
		if ns >= 0 && ns < 9214646400e9 {
			if back, err := ParseTime(got); err != nil || back != ns {
				t.Fatalf("ParseTime(%s) = %d, %v, want %d", got, back, err, ns)
			}
		}
	}
}

// TestParseTimeEveryDay checks every day in the range of ParseTime, including all leap days.
func TestParseTimeEveryDay(t *testing.T) {
	for day := time.Unix(0, 0).UTC(); day.Year() < 2262; day = day.AddDate(0, 0, 1) {
		s := day.Format(time.RFC3339)
		if got, err := ParseTime(s); err != nil || got != day.UnixNano() {
			t.Fatalf("ParseTime(%s) = %d, %v, want %d", s, got, err, day.UnixNano())
		}
	}
}

func TestParseTime(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want int64
	}{
		{"1970-01-01T00:00:00Z", 0},
		{"2026-11-20T14:30:00.123456789Z", 1795185000123456789},
		{"2026-11-20T14:30:00.5Z", 1795185000500000000},
		{"2026-11-20T11:30:00-03:00", 1795185000000000000},
		{"2026-11-21T00:00:00.000+09:30", 1795185000000000000},
		{"1969-12-31T23:59:59-00:01", 59e9},
		{"2261-12-31T23:59:59.999999999Z", 9214646399999999999},
	} {
		got, err := ParseTime(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("ParseTime(%q) = %d, %v, want %d", tt.in, got, err, tt.want)
		}
		if b, err := ParseTime([]byte(tt.in)); b != got || err != nil {
			t.Errorf("ParseTime([]byte(%q)) = %d, %v", tt.in, b, err)
		}
	}
	for _, in := range []string{
		"", "open", "2026-11-20", "2026-11-20T14:30:00", "2026-11-20 14:30:00Z", "2026-11-20t14:30:00z",
		"2026-11-20T14:30Z", "2026-11-20T24:00:00Z", "2026-11-20T14:60:00Z", "2026-11-20T14:30:60Z",
		"2026-02-29T00:00:00Z", "2100-02-29T00:00:00Z", "2026-00-01T00:00:00Z", "2026-13-01T00:00:00Z",
		"2026-01-00T00:00:00Z", "2026-04-31T00:00:00Z", "0000-01-01T00:00:00Z",
		"2026-11-20T14:30:00.Z", "2026-11-20T14:30:00,5Z", "2026-11-20T14:30:00.1234567890Z",
		"2026-11-20T14:30:00+3:00", "2026-11-20T14:30:00+24:00", "2026-11-20T14:30:00+03:60",
		"2026-11-20T14:30:00+0300", "2026-11-20T14:30:00ZZ", "2026-11-20T14:30:00Z ", "+026-11-20T14:30:00Z",
		"1969-12-31T23:59:59Z", "1970-01-01T00:00:00+00:01", "2262-01-01T00:00:00Z", "9999-12-31T23:59:59Z",
	} {
		if got, err := ParseTime(in); err != ErrTime {
			t.Errorf("ParseTime(%q) = %d, %v, want ErrTime", in, got, err)
		}
	}
}

func TestTimeAllocs(t *testing.T) {
	buf := make([]byte, 0, 64)
	if n := testing.AllocsPerRun(1000, func() {
		buf = AppendTime(buf[:0], 1795185000123456789)
		if _, err := ParseTime(buf); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a time written and read, want 0", n)
	}
}

// FuzzParseTime checks that package time accepts what ParseTime accepts and returns the same
// instant.
func FuzzParseTime(f *testing.F) {
	for _, s := range []string{
		"2026-11-20T14:30:00.123456789Z", "2026-11-20T11:30:00-03:00", "2024-02-29T00:00:00.1Z",
		"2026-11-20T14:30:00,5Z", "", "1970-01-01T00:00:00Z",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := ParseTime(s)
		if err != nil {
			return
		}
		want, err := time.Parse(time.RFC3339Nano, s)
		if err != nil || want.UnixNano() != got {
			t.Fatalf("ParseTime(%q) = %d, package time says %d, %v", s, got, want.UnixNano(), err)
		}
		if again, err := ParseTime(AppendTime(nil, got)); err != nil || again != got {
			t.Fatalf("%q: read %d, written and read again %d, %v", s, got, again, err)
		}
	})
}

func BenchmarkAppendTime(b *testing.B) {
	b.ReportAllocs()
	buf := make([]byte, 0, 64)
	for b.Loop() {
		buf = AppendTime(buf[:0], 1795185000123456789)
	}
}

func BenchmarkAppendTimeStandard(b *testing.B) {
	b.ReportAllocs()
	buf := make([]byte, 0, 64)
	for b.Loop() {
		buf = time.Unix(0, 1795185000123456789).UTC().AppendFormat(buf[:0], layout)
	}
}
