package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/wire"
	"github.com/ruedahq/rueda/wire/stream"
)

// Error is an error that a gateway answered with, over REST or on the stream.
type Error struct {
	Code       int         // as in HTTP
	Reason     wire.Reason // the word to branch on; "": the answer is not from a gateway
	Msg        string      // for people
	Hint       string      // what to do, in the gateway's words; may be empty
	Details    []string    // about fields of a request: instrument GGLA|BYMA|24hs is not listed
	RetryAfter time.Duration
	RequestID  string // of REST
	Closed     bool   // the stream was closed with it
	Retry      bool   // the gateway says that the same request may succeed later
}

// Error implements error. The text includes the details and the hint.
func (e *Error) Error() string {
	text := string(e.Reason)
	switch {
	case e.Msg != "":
		text += ": " + e.Msg
	case e.Reason == "":
		text = fmt.Sprintf("the server answered %d", e.Code)
	}
	for _, detail := range e.Details {
		if !strings.Contains(text, detail) {
			text += ": " + detail
		}
	}
	if e.Hint != "" {
		text = strings.TrimRight(text, ".") + ". " + e.Hint
	}
	return text
}

// ReasonOf returns the reason of an Error in err, "" if there is none.
func ReasonOf(err error) wire.Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// Errors of this package.
var (
	// ErrInUse ends the events of a second call of Events.
	ErrInUse = errors.New("client: Events is in use")
	// ErrInvalidBook is returned for a book that is not known at present.
	ErrInvalidBook = errors.New("client: the book is not known at present")
	errSilent      = brokenError{errors.New("the connection is silent")}
	errStale       = brokenError{errors.New("the stream is silent")}
	errResume      = brokenError{errors.New("the gateway could not complete a resume")}
	errGap         = brokenError{errors.New("messages are missing")}
)

// brokenError is an error of a connection, or an invalid message or answer that came on it.
type brokenError struct{ error }

func (e brokenError) Unwrap() error { return e.error }

// mayHelp reports whether another attempt can help. It can after a brokenError, a failure of the
// gateway (408 and 5xx), a request to wait (429), and an error with Retry. It also can after a
// refused access token, with a new one. It cannot after a mistake of the program, such as an error
// of its TokenStore.
func mayHelp(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		var broken brokenError
		return errors.As(err, &broken)
	}
	again := e.Retry || e.Code == http.StatusRequestTimeout || e.Code == http.StatusTooManyRequests || e.Code >= http.StatusInternalServerError
	return again || e.Reason == wire.InvalidToken || e.Reason == wire.TokenExpired
}

// retryAfter returns how long the gateway asked to wait.
func retryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return min(e.RetryAfter, maxRequested)
	}
	return 0
}

// responseError reads an error answer of REST or of a refused handshake.
func responseError(resp *http.Response, body []byte) *Error {
	var answer struct {
		Error struct {
			Reason    wire.Reason `json:"reason"`
			Msg       string      `json:"msg"`
			Hint      string      `json:"hint"`
			RequestID string      `json:"request_id"`
			Details   []struct {
				Field string `json:"field"`
				Msg   string `json:"msg"`
			} `json:"details"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &answer) // without a body, the status says what there is
	seconds, _ := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 20)
	var details []string
	for _, d := range answer.Error.Details {
		details = append(details, printable(d.Field+" "+d.Msg))
	}
	return &Error{
		Code: resp.StatusCode, Reason: wire.Reason(printable(string(answer.Error.Reason))),
		Msg: printable(answer.Error.Msg), Hint: printable(answer.Error.Hint), Details: details,
		RequestID: printable(answer.Error.RequestID), RetryAfter: time.Duration(seconds) * time.Second,
	}
}

// streamError converts an Error message, whose texts are printable.
func streamError(c *stream.Control) *Error {
	return &Error{Code: c.Code, Reason: c.Reason, Msg: c.Msg, Hint: c.Hint, RetryAfter: c.RetryAfter, Retry: c.Retry}
}

// maxText is how many bytes of a text for people a client keeps.
const maxText = 1000

// printable returns a text of a gateway for people, of at most maxText bytes. What a terminal could
// act on is replaced.
func printable(s string) string {
	s = strings.ToValidUTF8(s[:min(len(s), maxText)], "")
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// makePrintable makes the texts for people of a control message printable.
func makePrintable(c *stream.Control) {
	c.Reason, c.Msg, c.Hint = wire.Reason(printable(string(c.Reason))), printable(c.Msg), printable(c.Hint)
	for _, list := range [][]stream.Rejection{c.Rejected, c.Removed} {
		for i := range list {
			r := &list[i]
			r.Channel, r.Instrument = printable(r.Channel), printable(r.Instrument)
			r.Reason, r.Msg, r.Hint = wire.Reason(printable(string(r.Reason))), printable(r.Msg), printable(r.Hint)
		}
	}
	for i := range c.Moved {
		c.Moved[i].Channel, c.Moved[i].Instrument = printable(c.Moved[i].Channel), printable(c.Moved[i].Instrument)
	}
}

// closeError returns what ended a connection: the Error that the gateway sent before the close, or
// its close code, or the error of the network.
func closeError(err error, last *Error) error {
	var closed websocket.CloseError
	if !errors.As(err, &closed) || closed.Code < 4000 {
		if last != nil && last.Reason.Socket().Closes {
			return last // its close frame was lost
		}
		return plain(err)
	}
	code := int(closed.Code) - 4000
	if last == nil || last.Code != code {
		last = &Error{Code: code, Reason: wire.Reason(printable(closed.Reason))}
	}
	last.Closed = true
	return last
}

// ownError is an error that a function of the program has returned, such as Options.Proxy.
type ownError struct{ error }

// broken returns the error of a request that got no whole answer, with advice if there is any. An
// ownError is returned as the program made it.
func broken(err error) error {
	var own ownError
	if errors.As(err, &own) {
		return own.error
	}
	adviseTLS(err)
	return brokenError{running(err)}
}

// adviseTLS replaces the cause of an error if the URL has https:// and the server does not use TLS.
func adviseTLS(err error) {
	var request *url.Error
	if !errors.As(err, &request) || !errors.Is(request.Err, http.ErrSchemeMismatch) {
		return
	}
	host, _, _ := strings.Cut(request.URL[strings.Index(request.URL, "://")+len("://"):], "/")
	request.Err = noTLSError(host)
}

// noTLSError is an http.ErrSchemeMismatch of a host, with the next step.
type noTLSError string

func (e noTLSError) Error() string {
	return "the server does not use TLS. For a gateway without TLS, write http://" + string(e)
}

func (e noTLSError) Is(err error) bool { return err == http.ErrSchemeMismatch }

// plain returns the cause of an error of the network, without the names of the library's functions.
func plain(err error) error {
	var own ownError
	if errors.As(err, &own) {
		return own.error
	}
	adviseTLS(err)
	cause := err
	for next := err; next != nil; next = errors.Unwrap(next) {
		cause = next
	}
	return brokenError{fmt.Errorf("connection broken: %w", running(cause))}
}

// running adds advice to the error of a port that nobody listens at.
func running(err error) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w. Is the gateway running there?", err)
	}
	return err
}
