package command

import "testing"

func TestQuoteShell(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"rueda": "rueda", "GGAL|BYMA|24hs": "'GGAL|BYMA|24hs'", "it's": `'it'\''s'`, "": "''", "./a-b_c.1:2=3": "./a-b_c.1:2=3"} {
		if got := QuoteShell(word); got != want {
			t.Errorf("%q: got %s, want %s", word, got, want)
		}
	}
}
