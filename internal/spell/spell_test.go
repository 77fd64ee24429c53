package spell

import (
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
	known := []string{"listen", "insecure", "data", "drain"}
	for word, want := range map[string]string{"lisen": "listen", "Listen": "listen", "dta": "data", "drian": "drain", "colour": "", strings.Repeat("x", 100): ""} {
		if got, _ := Nearest(word, known); got != want {
			t.Errorf("nearest to %q is %q, want %q", word, got, want)
		}
	}
}

func TestSuggest(t *testing.T) {
	known := []string{"listen", "data"}
	for word, want := range map[string]string{"lisen": "did you mean listen?", "colour": "there are listen, data"} {
		if got := Suggest(word, known, "there are "); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}
