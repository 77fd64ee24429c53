package spell

import (
	"strings"
	"testing"
)

func TestWord(t *testing.T) {
	known := []string{"listen", "insecure", "data", "drain"}
	for word, want := range map[string]string{"lisen": "listen", "Listen": "listen", "dta": "data", "drian": "drain", "colour": "", "dt": "", "dat": "data", "fata": "data", "fate": "", strings.Repeat("x", 100): ""} {
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

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"gap", "", 3}, {"", "gap", 3}, {"gap", "gap", 0}, {"gap", "gasp", 1}, {"gap", "ap", 1}, {"gap", "cap", 1}, {"kitten", "sitting", 3}, {"gap", "gpa", 1},
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("from %q to %q it is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
