package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/internal/engine/session/testdata"
)

// more stands in arrays of a pattern for any further elements.
const more = "..."

// strict returns a pattern as JSON: "..." is removed from objects, where further members are always
// allowed, and is a string in arrays.
func strict(pattern string) string {
	var b strings.Builder
	var open []byte
	for i, quoted := 0, false; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case quoted:
			b.WriteByte(c)
			if c == '\\' && i+1 < len(pattern) {
				i++
				b.WriteByte(pattern[i])
			}
			quoted = c != '"'
		case strings.HasPrefix(pattern[i:], more):
			i += len(more) - 1
			if n := len(open); n > 0 && open[n-1] == '[' {
				b.WriteString(`"` + more + `"`)
			}
		default:
			quoted = c == '"'
			switch c {
			case '{', '[':
				open = append(open, c)
			case '}', ']':
				open = open[:max(len(open)-1, 0)]
			}
			b.WriteByte(c)
		}
	}
	text := b.String()
	if strings.HasSuffix(pattern, more) { // which stands for the end too
		for i := range open {
			text += map[byte]string{'{': "}", '[': "]"}[open[len(open)-1-i]]
		}
	}
	for _, dangling := range [][2]string{{",,", ","}, {"{,", "{"}, {",}", "}"}, {`:,`, `:null,`}, {`:}`, `:null}`}} {
		for strings.Contains(text, dangling[0]) {
			text = strings.ReplaceAll(text, dangling[0], dangling[1])
		}
	}
	return text
}

func parseJSON(text string) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.UseNumber()
	return v, d.Decode(&v)
}

// differs returns how a message differs from a pattern, "" if it matches. With limits, the limits
// of the user are compared too.
func differs(pattern, message string, limits bool) (string, error) {
	want, err := parseJSON(strict(pattern))
	if err != nil {
		return "", fmt.Errorf("pattern %s: %w", pattern, err)
	}
	got, err := parseJSON(message)
	if err != nil {
		return "it is not JSON", nil
	}
	if text := compare("", want, got); text != "" || !limits {
		return text, nil
	}
	w, _ := want.(map[string]any)["limits"]
	if g, ok := got.(map[string]any); ok && w != nil {
		return compareExactly("limits", w, g["limits"]), nil
	}
	return "", nil
}

// isFree reports whether a gateway chooses the value of a member.
func isFree(name string) bool {
	switch name {
	case "msg", "hint", "version", "session", "epoch", "position", "time", "T", "TD", "D", "expires_in", "heartbeat", "limits", "count", "behind_ms", "queued":
		return true
	}
	return false
}

func compare(at string, want, got any) string {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			return fmt.Sprintf("%s is not an object", place(at))
		}
		names := make([]string, 0, len(want))
		for name := range want {
			names = append(names, name)
		}
		slices.Sort(names)
		if i := slices.Index(names, "type"); i > 0 { // it says most
			names = slices.Insert(slices.Delete(names, i, i+1), 0, "type")
		}
		for _, name := range names {
			value, ok := object[name]
			if !ok {
				return fmt.Sprintf("%s has no member %s", place(at), name)
			}
			if isFree(name) {
				continue
			}
			if name == "last" || name == "resumed" || name == "lost" {
				if text := compareExactly(name, want[name], value); text != "" {
					return text
				}
				continue
			}
			if text := compare(strings.TrimPrefix(at+"."+name, "."), want[name], value); text != "" {
				return text
			}
		}
		return ""
	case []any:
		return compareArray(at, want, got)
	case string:
		if text, ok := got.(string); ok && testdata.Matches(want, text) {
			return ""
		}
	case nil: // any value
		return ""
	default:
		if want == got {
			return ""
		}
	}
	return fmt.Sprintf("%s is %s, not %s", place(at), asJSON(got), asJSON(want))
}

// compareExactly compares objects that list instruments: further members are not allowed.
func compareExactly(at string, want, got any) string {
	w, isObject := want.(map[string]any)
	g, ok := got.(map[string]any)
	if !isObject || !ok {
		return compare(at, want, got)
	}
	for name := range g {
		if _, ok := w[name]; !ok {
			return fmt.Sprintf("%s has the member %s", at, name)
		}
	}
	for name := range w {
		value, ok := g[name]
		if !ok {
			return fmt.Sprintf("%s has no member %s", at, name)
		}
		if text := compareExactly(at+"."+name, w[name], value); text != "" {
			return text
		}
	}
	return ""
}

func compareArray(at string, want []any, got any) string {
	list, ok := got.([]any)
	if !ok {
		return fmt.Sprintf("%s is not an array", place(at))
	}
	for i, w := range want {
		if w == more {
			return ""
		}
		if i >= len(list) {
			return fmt.Sprintf("%s has %d elements", place(at), len(list))
		}
		if text := compare(fmt.Sprintf("%s[%d]", at, i), w, list[i]); text != "" {
			return text
		}
	}
	if len(list) > len(want) {
		return fmt.Sprintf("%s has %d elements, not %d", place(at), len(list), len(want))
	}
	return ""
}

func place(at string) string {
	if at == "" {
		return "the message"
	}
	return at
}

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
