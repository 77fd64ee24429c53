package auditexport

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// encoder encodes rows as messages of RFC 5424.
type encoder struct {
	facility int
	host     string
	process  string
	sdid     string
	json     bool
}

// Severities of RFC 5424.
const (
	severityAlert    = 1
	severityCritical = 2
	severityWarning  = 4
	severityNotice   = 5
	severityInfo     = 6
)

// severity returns the severity of rows of a kind: rows that need attention are warnings or more
// severe.
func severity(kind audit.Kind) int {
	switch kind {
	case audit.ChainBroken:
		return severityAlert
	case audit.Reuse:
		return severityCritical
	case audit.LoginRefused, audit.LoginThrottled, audit.RefreshRefused, audit.AdminRefused, audit.AccessDenied,
		audit.AddressRefused, audit.PasswordExposed, audit.FeedRefused:
		return severityWarning
	case audit.Login, audit.Refresh, audit.Logout, audit.SessionEnded, audit.AdminRead:
		return severityInfo
	}
	return severityNotice
}

// facilities are the names of the facilities that fit an audit log, with their numbers.
func facilities() map[string]int {
	list := map[string]int{"user": 1, "daemon": 3, "auth": 4, "authpriv": 10, "audit": 13}
	for i := range 8 {
		list["local"+strconv.Itoa(i)] = 16 + i
	}
	return list
}

// Limits of the texts of a message, in bytes. Receivers must accept 2048 bytes of a message.
const (
	maxHost = 255
	maxText = 512
)

// utf8Mark begins a text that is not ASCII.
const utf8Mark = "\xEF\xBB\xBF"

func newEncoder(cfg Syslog, host string, process int) (e encoder, err error) {
	e = encoder{host: header(host, maxHost), process: strconv.Itoa(process), sdid: cfg.SDID, json: cfg.Format == "json"}
	if cfg.Format != "" && cfg.Format != "json" && cfg.Format != "structured" {
		return e, fmt.Errorf("format %q is neither structured nor json", cfg.Format)
	}
	if cfg.Facility == "" {
		cfg.Facility = "authpriv"
	}
	number, ok := facilities()[cfg.Facility]
	if e.facility = number; !ok {
		names := make([]string, 0, len(facilities()))
		for name := range facilities() {
			names = append(names, name)
		}
		slices.Sort(names)
		return e, fmt.Errorf("facility %q is none of %s", cfg.Facility, strings.Join(names, ", "))
	}
	if e.sdid == "" {
		e.sdid = DefaultSDID
	}
	if len(e.sdid) > 32 || !regexp.MustCompile(`^[A-Za-z0-9_.-]+@[0-9]+(\.[0-9]+)*$`).MatchString(e.sdid) {
		return e, fmt.Errorf("sd_id %q is not a name, @ and an enterprise number, such as %s", e.sdid, DefaultSDID)
	}
	return e, nil
}

// header returns a text as a field of the header: printable ASCII without spaces, or "-".
func header(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' {
			return -1
		}
		return r
	}, text)
	if text == "" {
		return "-"
	}
	return text[:min(len(text), most)]
}

// appendFrame appends the message of a row with its length in front.
func (e *encoder) appendFrame(b []byte, r *audit.Row) []byte {
	message := e.appendMessage(nil, r)
	b = strconv.AppendInt(b, int64(len(message)), 10)
	b = append(b, ' ')
	return append(b, message...)
}

// appendMessage appends the message of a row.
func (e *encoder) appendMessage(b []byte, r *audit.Row) []byte {
	b = append(b, '<')
	b = strconv.AppendInt(b, int64(8*e.facility+severity(r.Kind)), 10)
	b = append(b, ">1 "...)
	b = r.Time.UTC().Truncate(time.Microsecond).AppendFormat(b, "2006-01-02T15:04:05.000000Z07:00")
	b = append(b, ' ')
	b = append(b, e.host...)
	b = append(b, " rueda "...)
	b = append(b, e.process...)
	b = append(b, ' ')
	b = append(b, header(string(r.Kind), 32)...)
	b = append(b, " ["...)
	b = append(b, e.sdid...)
	b = appendParam(b, "seq", strconv.FormatInt(r.Seq, 10))
	b = appendParam(b, "hash", hex.EncodeToString(r.Hash[:]))
	if e.json {
		b = append(b, "] "...)
		return appendJSON(b, r)
	}
	for _, p := range [...]struct{ name, value string }{
		{"actor", r.Actor}, {"user", r.User}, {"family", r.Family}, {"address", r.Address}, {"client", r.Client}, {"detail", r.Detail},
	} {
		if p.value != "" {
			b = appendParam(b, p.name, p.value)
		}
	}
	b = append(b, "] "...)
	text := string(r.Kind) + " by " + plain(r.Actor)
	if r.Detail != "" {
		text += ": " + plain(r.Detail)
	}
	if !isASCII(text) {
		b = append(b, utf8Mark...)
	}
	return append(b, text...)
}

// appendParam appends a parameter of the structured data.
func appendParam(b []byte, name, value string) []byte {
	b = append(b, ' ')
	b = append(b, name...)
	b = append(b, '=', '"')
	for _, r := range plain(value) {
		if r == '"' || r == '\\' || r == ']' {
			b = append(b, '\\')
		}
		b = utf8.AppendRune(b, r)
	}
	return append(b, '"')
}

// plain returns a text as valid UTF-8 of at most maxText bytes. Control characters and separators
// of lines, which could look like another message, become U+FFFD.
func plain(text string) string {
	if len(text) > maxText {
		end := maxText
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, string(utf8.RuneError)))
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// appendJSON appends a row as JSON in ASCII, because a text in UTF-8 would need a byte order mark,
// which is not JSON.
func appendJSON(b []byte, r *audit.Row) []byte {
	short := *r
	for _, text := range []*string{&short.Actor, &short.User, &short.Family, &short.Address, &short.Client, &short.Detail} {
		*text = plain(*text)
	}
	var line bytes.Buffer
	_ = short.WriteJSON(&line) // a row of texts and numbers always has a JSON form
	for _, r := range strings.TrimSuffix(line.String(), "\n") {
		if r < utf8.RuneSelf {
			b = append(b, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			b = fmt.Appendf(b, `\u%04x`, unit)
		}
	}
	return b
}
