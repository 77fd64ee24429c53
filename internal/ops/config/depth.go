package config

// maxDepth bounds the nesting of keys. Ours have at most five levels; time and memory of the TOML
// library grow with the square of the depth.
const maxDepth = 8

// tooDeep returns the first line that nests deeper than maxDepth. Every open bracket or brace and
// every dot of a key is a level; the header of a table and its content count separately. In a text
// that is not TOML it finds at least what comes before the first mistake, where the library stops.
func tooDeep(text string) (line int, ok bool) {
	l := locator{text: text, line: 1}
	var around []int // levels outside each open bracket or brace
	depth := 0
	for l.at < len(l.text) {
		switch l.text[l.at] {
		case '"', '\'':
			if !l.str() {
				return 0, false // the library stops here
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

// unclosed returns the line of the first unclosed string.
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
