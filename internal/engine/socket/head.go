package socket

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/engine/deflate"
)

// Limits of a request head. net/http handles larger ones with its own limits.
const (
	maxHead    = 8 << 10
	maxFields  = 64
	maxRepeats = 4 // of one field
)

// headKind classifies the first bytes of a connection.
type headKind uint8

const (
	headIncomplete headKind = iota // more bytes are needed
	headUpgrade                    // a complete request for the stream in the usual form
	headOther                      // for net/http: another path or an unusual form
)

// headReader parses usual handshakes without a net/http request and with one allocation. It accepts
// fewer requests than net/http, and interprets those in the same way. net/http handles all others.
// One goroutine uses it.
type headReader struct {
	path    string
	request upgradeRequest // valid until the next read
	id      string         // X-Request-Id
	fields  map[string]*[maxRepeats]string
}

// usedFields returns the fields that checkUpgrade needs, as net/http spells them.
var usedFields = [...]string{
	"Upgrade", "Connection", "Origin", "Authorization", "X-Request-Id", "Forwarded", "X-Forwarded-For",
	keyField, versionField, protocolField, extensionsField,
}

// unusualFields change the meaning of a request, so net/http handles it.
var unusualFields = [...]string{"Content-Length", "Transfer-Encoding", "Expect", "Trailer", "Te"}

func newHeadReader(path string) *headReader {
	h := &headReader{path: path, fields: make(map[string]*[maxRepeats]string)}
	h.request.header = make(http.Header)
	for _, name := range usedFields {
		h.fields[name] = new([maxRepeats]string)
	}
	return h
}

// read classifies the first bytes of a connection. For headUpgrade, size is the length of the head,
// and h.request holds it.
func (h *headReader) read(b []byte) (kind headKind, size int) {
	if !h.mayBeUpgrade(b) {
		return headOther, 0
	}
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		if len(b) > maxHead || hasBareLF(b) {
			return headOther, 0
		}
		return headIncomplete, 0
	}
	size = end + 4
	if size > maxHead || !h.parse(string(b[:end+2])) {
		return headOther, 0
	}
	return headUpgrade, size
}

// mayBeUpgrade reports whether b may be the beginning of a GET of the path.
func (h *headReader) mayBeUpgrade(b []byte) bool {
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

// hasBareLF reports whether a line of b ends without a carriage return. Such a head may end
// differently.
func hasBareLF(b []byte) bool {
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

// parse parses a head that begins with the expected request line; s ends with the line break of the
// last field.
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
		if count == maxFields || !ok || !deflate.IsToken(name) || strings.ContainsFunc(value, notText) || !h.field(name, value) {
			return false
		}
	}
	if ids := r.header["X-Request-Id"]; len(ids) > 0 {
		h.id = ids[0]
	}
	return r.host != "" // required by HTTP/1.1
}

// field stores a field that is used. It returns false if the field makes the request unusual.
func (h *headReader) field(name, value string) bool {
	if strings.EqualFold(name, "Host") {
		first := h.request.host == ""
		h.request.host = value
		return first && value != "" && !strings.ContainsFunc(value, notHost)
	}
	for _, f := range unusualFields {
		if strings.EqualFold(name, f) {
			return false
		}
	}
	for _, w := range usedFields {
		if len(name) != len(w) || !strings.EqualFold(name, w) {
			continue
		}
		values := h.fields[w]
		n := len(h.request.header[w])
		if n == maxRepeats {
			return false
		}
		values[n] = value
		h.request.header[w] = values[:n+1]
		return true
	}
	return true
}

// bearerOf returns the token in the first bytes of a request; "": none.
func bearerOf(b []byte) string {
	head, _, _ := bytes.Cut(b[:min(len(b), maxHead)], []byte("\r\n\r\n"))
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, _ := strings.Cut(string(line), ":")
		scheme, token, _ := strings.Cut(strings.TrimLeft(value, " \t"), " ")
		if strings.EqualFold(name, "Authorization") && strings.EqualFold(scheme, "Bearer") {
			return strings.Trim(token, " \t")
		}
	}
	return ""
}

// hasRequest reports whether b begins with a whole request, for which the gateway need not wait.
func hasRequest(b []byte) bool {
	head, body, whole := bytes.Cut(b, []byte("\r\n\r\n"))
	size := 0
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, _ := strings.Cut(string(line), ":")
		switch {
		case strings.EqualFold(name, "Transfer-Encoding"):
			return false
		case strings.EqualFold(name, "Content-Length"):
			var err error
			if size, err = strconv.Atoi(strings.Trim(value, " \t")); err != nil {
				return false
			}
		}
	}
	return whole && len(body) >= size
}

// notText reports whether r is unusual in a field value. net/http handles bytes above 0x7f.
func notText(r rune) bool { return r != '\t' && (r < ' ' || r > '~') }

// notPlain reports whether r may need an escape in a query.
func notPlain(r rune) bool { return !isAlphanumericOr(r, "-._~=&") }

// notHost reports whether r is unusual in a host and port.
func notHost(r rune) bool { return !isAlphanumericOr(r, "-._:[]") }

// isAlphanumericOr reports whether r is an ASCII letter, a digit, or in others.
func isAlphanumericOr(r rune, others string) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return true
	}
	return strings.ContainsRune(others, r)
}
