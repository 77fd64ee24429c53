package jsonscan

import (
	"bytes"
	"fmt"
	"testing"
)

// TestPlain checks each byte at each place of a text, against the rule for one byte.
func TestPlain(t *testing.T) {
	for length := range 20 {
		for at := range length {
			for c := range 256 {
				in := bytes.Repeat([]byte{'a'}, length)
				in[at] = byte(c)
				if at+1 < length {
					in[at+1] = '!' // one above a quote's neighbours, for a borrow
				}
				want := length
				if c < ' ' || c == '"' || c == '\\' {
					want = at
				}
				if got := plain(in); got != want {
					t.Fatalf("%q: %d bytes, want %d", in, got, want)
				}
			}
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		`""`:                         "",
		`"T",`:                       "T",
		`"2026-11-20T14:30:00"}`:     "2026-11-20T14:30:00",
		`"ñandú, ñandú, ñandú"`:      "ñandú, ñandú, ñandú",
		`"sixteen bytes \u00f1"`:     "sixteen bytes ñ",
		`"1234567`:                   "unexpected end at offset 8",
		`"12345678`:                  "unexpected end at offset 9",
		"\"12345678\x1f\"":           "control character in a string at offset 9",
		"\"\x00\"":                   "control character in a string at offset 1",
		`"12345678\`:                 "unexpected end at offset 9",
		"\"\x7f\x80 is not a sign\"": "\x7f\x80 is not a sign",
	} {
		p := Scanner{In: []byte(in)}
		text, err := p.Text()
		got := string(text)
		if err != nil {
			got = fmt.Sprint(err)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}
