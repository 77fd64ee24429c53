package docsite

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// luminance returns the relative luminance of WCAG 2 of a color such as #1f5fa8.
func luminance(t *testing.T, color string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(color, "#"), 16, 32)
	if err != nil || len(color) != 7 {
		t.Fatalf("%s is not a color: %v", color, err)
	}
	channel := func(shift uint) float64 {
		c := float64(n>>shift&255) / 255
		if c <= 0.03928 {
			return c / 12.92
		}
		return math.Pow((c+0.055)/1.055, 2.4)
	}
	return 0.2126*channel(16) + 0.7152*channel(8) + 0.0722*channel(0)
}

// TestContrast checks that text has the contrast of WCAG AA, 4.5, on all backgrounds of both
// themes.
func TestContrast(t *testing.T) {
	text, err := assets.ReadFile("static/docs.css")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile(`(?s)(:root[^{]*)\{(.*?)\}`).FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 3 {
		t.Fatalf("%d themes", len(blocks))
	}
	for _, b := range blocks {
		colors := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(b[2], -1) {
			colors[m[1]] = m[2]
		}
		pairs := [][2]string{{"on-accent", "accent"}, {"text", "mark"}}
		for _, front := range []string{"text", "muted", "accent", "good", "ask", "bad"} {
			for _, back := range []string{"bg", "panel", "raised"} {
				pairs = append(pairs, [2]string{front, back})
			}
		}
		for _, p := range pairs {
			x, y := luminance(t, colors[p[0]])+0.05, luminance(t, colors[p[1]])+0.05
			if ratio := max(x, y) / min(x, y); ratio < 4.5 {
				t.Errorf("%s: %s on %s has a contrast of %.2f", strings.TrimSpace(b[1]), p[0], p[1], ratio)
			}
		}
	}
	if dark, system := blocks[1][2], blocks[2][2]; strings.Join(strings.Fields(dark), "") != strings.Join(strings.Fields(system), "") {
		t.Error("the dark theme of the system differs from the chosen one")
	}
}
