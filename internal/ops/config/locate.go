package config

import (
	"strconv"
	"strings"
)

// locate maps every key of a TOML text to its line: "feed[1].name" is the key name of the second
// [[feed]]. The text must be valid, so locate reads only as much as it needs to count lines. For an
// invalid text the map is arbitrary. The TOML library has positions only in its own errors.
func locate(text string) map[string]int {
	l := locator{text: text, line: 1, lines: map[string]int{}, tables: map[string]int{}}
	l.run()
	return l.lines
}

type locator struct {
	text   string
	at     int
	line   int
	lines  map[string]int
	tables map[string]int // number of elements of each [[array of tables]] so far
}

func (l *locator) run() {
	table := ""
	for {
		l.space(true)
		if l.at >= len(l.text) {
			return
		}
		before := l.at
		if l.take('[') {
			array := l.take('[')
			l.space(false)
			table = l.header(l.keys(), array)
			l.take(']')
			l.take(']')
		} else {
			l.assignment(table)
		}
		if l.at == before {
			return // not TOML
		}
	}
}

// assignment reads key = value below a path.
func (l *locator) assignment(below string) {
	name := below
	for _, key := range l.keys() {
		name = joinKey(name, key)
		l.note(name)
	}
	l.space(false)
	l.take('=')
	l.value(name)
}

// header returns the path of a [table] or [[array of tables]].
func (l *locator) header(keys []string, array bool) string {
	name := ""
	for i, key := range keys {
		name = joinKey(name, key)
		if i == len(keys)-1 && array {
			l.tables[name]++
		}
		if n := l.tables[name]; n > 0 {
			name += "[" + strconv.Itoa(n-1) + "]"
		}
		l.note(name)
	}
	return name
}

func (l *locator) note(name string) {
	if _, ok := l.lines[name]; !ok {
		l.lines[name] = l.line
	}
}

// keys reads a dotted key.
func (l *locator) keys() []string {
	var keys []string
	for {
		l.space(false)
		start := l.at
		switch {
		case l.at >= len(l.text):
			return keys
		case l.text[l.at] == '"' || l.text[l.at] == '\'':
			l.str()
			keys = append(keys, unquote(l.text[start:l.at]))
		default:
			for l.at < len(l.text) && !strings.ContainsRune(" \t\r\n.=[]{},#\"'", rune(l.text[l.at])) {
				l.at++
			}
			keys = append(keys, l.text[start:l.at])
		}
		l.space(false)
		if !l.take('.') {
			return keys
		}
	}
}

func unquote(s string) string {
	if strings.HasPrefix(s, `"`) {
		if u, err := strconv.Unquote(s); err == nil {
			return u
		}
	}
	return strings.Trim(s, `"'`)
}

// value skips a value; keys inside it are recorded below name.
func (l *locator) value(name string) {
	l.space(false)
	switch {
	case l.at >= len(l.text):
	case l.text[l.at] == '"' || l.text[l.at] == '\'':
		l.str()
	case l.take('{'):
		for last := -1; l.at > last && l.more('}'); {
			last = l.at
			l.assignment(name)
		}
	case l.take('['):
		for i, last := 0, -1; l.at > last && l.more(']'); i++ {
			last = l.at
			item := name + "[" + strconv.Itoa(i) + "]"
			l.note(item)
			l.value(item)
		}
	default:
		for l.at < len(l.text) && !strings.ContainsRune(",]}#\r\n", rune(l.text[l.at])) {
			l.at++
		}
	}
}

// more skips the separator of items in an array or inline table and reports whether another item
// follows.
func (l *locator) more(end byte) bool {
	l.space(true)
	if l.take(',') {
		l.space(true)
	}
	return l.at < len(l.text) && !l.take(end)
}

// str skips a string of any of the four kinds. closed reports whether it ends, for a short one on
// its own line.
func (l *locator) str() (closed bool) {
	quote, line := l.text[l.at:l.at+1], l.line
	if long := strings.Repeat(quote, 3); strings.HasPrefix(l.text[l.at:], long) {
		quote = long
	}
	l.at += len(quote)
	for l.at < len(l.text) {
		switch {
		case strings.HasPrefix(l.text[l.at:], quote):
			l.at += len(quote)
			for len(quote) == 3 && l.take(quote[0]) { // up to two more belong to the string
			}
			return len(quote) == 3 || l.line == line
		case l.text[l.at] == '\\' && quote[0] == '"' && l.at+1 < len(l.text):
			l.at++
		}
		l.step()
	}
	return false
}

// space skips blanks, and line ends and comments if lines is set.
func (l *locator) space(lines bool) {
	for l.at < len(l.text) {
		switch c := l.text[l.at]; {
		case c == ' ' || c == '\t':
		case lines && (c == '\n' || c == '\r'):
		case lines && c == '#':
			for l.at+1 < len(l.text) && l.text[l.at+1] != '\n' {
				l.at++
			}
		default:
			return
		}
		l.step()
	}
}

func (l *locator) step() {
	if l.text[l.at] == '\n' {
		l.line++
	}
	l.at++
}

func (l *locator) take(c byte) bool {
	if l.at < len(l.text) && l.text[l.at] == c {
		l.at++
		return true
	}
	return false
}

// joinKey returns a key below a path in TOML syntax.
func joinKey(path, key string) string {
	bare := key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
	if !bare {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
