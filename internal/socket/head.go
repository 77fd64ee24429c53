package socket

import (
	"bytes"
	"net/http"
	"strings"
)

// Bounds of a handshake's head. What passes them is left to net/http, which has its own.
const (
	maxHead    = 8 << 10
	maxFields  = 64
	maxRepeats = 4 // of one field; more are not usual
)

// headKind is what is known of the first bytes of a connection.
type headKind uint8

const (
	headPart    headKind = iota // more has to come
	headUpgrade                 // a whole request for the stream, in the usual form
	headOther                   // for net/http: another path, or anything unusual
)

// A headReader takes the head of a usual handshake apart, without a net/http
// request and with one allocation. It accepts less than net/http does and
// understands what it accepts alike: whatever is out of the ordinary, it
// leaves to net/http. One goroutine uses it.
type headReader struct {
	path    string
	request upgradeRequest // valid until the next read
	id      string         // X-Request-Id
	fields  map[string]*[maxRepeats]string
}

// wanted are the fields that the check of a handshake looks at, in net/http's spelling.
var wanted = [...]string{
	"Upgrade", "Connection", "Origin", "Authorization", "X-Request-Id", "Forwarded", "X-Forwarded-For",
	keyField, versionField, protocolField, extensionsField,
}

// fatal are fields that change what a request means.
var fatal = [...]string{"Content-Length", "Transfer-Encoding", "Expect", "Trailer", "Te"}

func newHeadReader(path string) *headReader {
	h := &headReader{path: path, fields: make(map[string]*[maxRepeats]string)}
	h.request.header = make(http.Header)
	for _, name := range wanted {
		h.fields[name] = new([maxRepeats]string)
	}
	return h
}

// read judges the bytes that a connection began with. Of headUpgrade, size is the
// length of the head, and h.request holds it.
func (h *headReader) read(b []byte) (kind headKind, size int) {
	if !h.begins(b) {
		return headOther, 0
	}
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		if len(b) > maxHead || bareLine(b) {
			return headOther, 0
		}
		return headPart, 0
	}
	size = end + 4
	if size > maxHead || !h.parse(string(b[:end+2])) {
		return headOther, 0
	}
	return headUpgrade, size
}

// begins says whether b may be the beginning of a GET of the path.
func (h *headReader) begins(b []byte) bool {
	const method = "GET "
	n := min(len(b), len(method))
	if string(b[:n]) != method[:n] {
		return false
	}
	b = b[n:]
	n = min(len(b), len(h.path))
	if string(b[:n]) != h.path[:n] {
		return false
	}
	b = b[n:]
	return len(b) == 0 || b[0] == ' ' || b[0] == '?'
}

// bareLine says whether a line ends without a carriage return, after which the end
// of a head may look otherwise.
func bareLine(b []byte) bool {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return false
		}
		if i == 0 || b[i-1] != '\r' {
			return true
		}
		b = b[i+1:]
	}
}

// parse takes a head apart that begins as it should; s ends with the last field's line end.
func (h *headReader) parse(s string) bool {
	line, s, _ := strings.Cut(s, "\r\n")
	target, version, _ := strings.Cut(line[len("GET "):], " ")
	_, query, _ := strings.Cut(target, "?")
	if version != "HTTP/1.1" || strings.ContainsFunc(query, notPlain) {
		return false
	}
	r := &h.request
	clear(r.header)
	*r = upgradeRequest{method: http.MethodGet, major: 1, minor: 1, query: query, header: r.header}
	h.id = ""
	for count := 0; s != ""; count++ {
		line, s, _ = strings.Cut(s, "\r\n")
		name, value, ok := strings.Cut(line, ":")
		value = strings.Trim(value, " \t")
		if count == maxFields || !ok || !fieldName(name) || strings.ContainsFunc(value, notText) || !h.field(name, value) {
			return false
		}
	}
	if ids := r.header["X-Request-Id"]; len(ids) > 0 {
		h.id = ids[0]
	}
	return r.host != "" // HTTP/1.1 asks for one
}

// field keeps a field that counts; false: it makes the request an unusual one.
func (h *headReader) field(name, value string) bool {
	if strings.EqualFold(name, "Host") {
		first := h.request.host == ""
		h.request.host = value
		return first && value != "" && !strings.ContainsFunc(value, notHost)
	}
	for _, f := range fatal {
		if strings.EqualFold(name, f) {
			return false
		}
	}
	for _, w := range wanted {
		if len(name) != len(w) || !strings.EqualFold(name, w) {
			continue
		}
		room := h.fields[w]
		n := len(h.request.header[w])
		if n == maxRepeats {
			return false
		}
		room[n] = value
		h.request.header[w] = room[:n+1]
		return true
	}
	return true
}

// fieldName says whether s is a token (RFC 9110, section 5.6.2).
func fieldName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0:
			return false
		}
	}
	return s != ""
}

// notText is for what a field's value does not have in the usual case; bytes over
// 0x7f are left to net/http.
func notText(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }

// notPlain is for what a query needs no escape for and nobody reads otherwise.
func notPlain(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("-._~=&", r)
}

// notHost is for what is not part of a host and port as they usually are.
func notHost(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("-._:[]", r)
}
