package config

// maxDepth bounds how deep the keys of a TOML text nest. Ours take five levels at
// most; the TOML library's time and memory grow with the square of the depth.
const maxDepth = 8

// tooDeep is the first line of a TOML text that nests deeper than maxDepth. Every
// open bracket or brace and every dot of a key is a level; a table's header and what stands
// below it count apart. Of a text that is not TOML it sees at least what comes
// before the first mistake, and the library reads no further.
func tooDeep(text string) (line int, ok bool) {
	l := locator{text: text, line: 1}
	var around []int // levels outside of each open bracket or brace
	depth := 0
	for l.at < len(l.text) {
		switch l.text[l.at] {
		case '"', '\'':
			if !l.str() {
				return 0, false // the library reads no further
			}
			continue
		case '#':
			for l.at < len(l.text) && l.text[l.at] != '\n' {
				l.at++
			}
			continue
		case '[', '{':
			around = append(around, depth)
			depth++
		case ']', '}':
			if n := len(around); n > 0 {
				depth, around = around[n-1], around[:n-1]
			}
		case '.':
			depth++
		case ',', '\n': // another key or item begins
			depth = 0
			if n := len(around); n > 0 {
				depth = around[n-1] + 1
			}
		}
		if depth > maxDepth {
			return l.line, true
		}
		l.step()
	}
	return 0, false
}

// unclosed is the line of the first string of a TOML text whose quote is not closed.
func unclosed(text string) (line int, ok bool) {
	l := locator{text: text, line: 1}
	for l.at < len(l.text) {
		switch l.text[l.at] {
		case '"', '\'':
			if line := l.line; !l.str() {
				return line, true
			}
			continue
		case '#':
			for l.at < len(l.text) && l.text[l.at] != '\n' {
				l.at++
			}
			continue
		}
		l.step()
	}
	return 0, false
}
