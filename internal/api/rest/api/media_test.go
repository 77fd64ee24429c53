package api

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

func TestNegotiate(t *testing.T) {
	rows := []string{MediaJSON, MediaCSV, MediaLines}
	for _, tt := range []struct {
		accept string
		offers []string
		want   string
	}{
		{"", rows, MediaJSON},
		{"*/*", rows, MediaJSON},
		{"text/csv", rows, MediaCSV},
		{"text/*", rows, MediaCSV},
		{"application/x-ndjson", rows, MediaLines},
		{"application/*", rows, MediaJSON},
		{"text/csv;q=0.5, application/json;q=0.4", rows, MediaCSV},
		{"text/csv;q=0.5, */*;q=0.4", rows, MediaCSV},
		{"application/json;q=0, */*", rows, MediaCSV},
		{"application/json;q=0", rows, ""},
		{"image/png", rows, ""},
		{";;, =", rows, MediaJSON},
		{"text/csv;q=x", rows, MediaCSV},
		{"text/csv", []string{MediaJSON}, ""},
		{"text/event-stream", []string{MediaEvents, MediaLines}, MediaEvents},
		{strings.Repeat("a/b,", maxRanges) + "text/csv", rows, ""},
	} {
		var values []string
		if tt.accept != "" {
			values = []string{tt.accept}
		}
		if got := Negotiate(values, tt.offers); got != tt.want {
			t.Errorf("%.60q of %v: got %q, want %q", tt.accept, tt.offers, got, tt.want)
		}
	}
}

func TestCoding(t *testing.T) {
	for accept, want := range map[string]string{
		"": "", "identity": "", "br": "", "gzip": "gzip", "GZIP": "gzip", "x-gzip": "gzip", "gzip, deflate, br, zstd": "zstd", "zstd;q=0, gzip": "gzip",
		"gzip;q=1, zstd;q=0.5": "gzip", "*": "gzip", "gzip;q=0": "", "zstd ; q=0.2": "zstd", ",;=,": "", strings.Repeat("br,", maxRanges) + "gzip": "",
	} {
		if got := Coding([]string{accept}); got != want {
			t.Errorf("%.40q: got %q, want %q", accept, got, want)
		}
	}
}

func TestCompress(t *testing.T) {
	var p Compressors
	body := []byte(strings.Repeat(`{"type":"T","S":"GGAL","N":1042},`, 1000))
	for _, want := range []string{codingGzip, codingZstd, codingGzip, codingZstd} { // the second ones are reused
		small, used := p.Compress(body, want)
		if used != want || len(small) > len(body)/10 {
			t.Fatalf("%s: %d bytes of %d", used, len(small), len(body))
		}
		var r io.Reader
		var err error
		if want == codingGzip {
			r, err = gzip.NewReader(bytes.NewReader(small))
		} else {
			r, err = zstd.NewReader(bytes.NewReader(small))
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: got %d bytes back: %v", want, len(got), err)
		}
	}
	if got, used := p.Compress(body[:100], codingGzip); used != CodingNone || len(got) != 100 {
		t.Errorf("a short body was packed: %q", used)
	}
}

func TestMatchesETag(t *testing.T) {
	for header, want := range map[string]string{
		`"abc"`: `"abc"`, `W/"abc"`: `"abc"`, `"x", "abc-gzip"`: `"abc-gzip"`, `"abc-zstd"`: `"abc-zstd"`, `*`: `"abc"`,
		`"abc-br"`: "", `abc`: "", `"ab"`: "", ``: "", `"-gzip"`: "",
	} {
		got, ok := matchesETag([]string{header}, `"abc"`)
		if got != want || ok != (want != "") {
			t.Errorf("%s: got %q %v, want %q", header, got, ok, want)
		}
	}
}
