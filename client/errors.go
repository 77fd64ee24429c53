package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
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
	RetryAfter time.Duration
	RequestID  string // of REST
	Closed     bool   // the stream was closed with it
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.Msg != "":
		return fmt.Sprintf("%s: %s", e.Reason, e.Msg)
	case e.Reason != "":
		return string(e.Reason)
	}
	return fmt.Sprintf("the server answered %d", e.Code)
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
	errSilent      = errors.New("the connection is silent")
	errStale       = errors.New("the stream is silent")
	errResume      = errors.New("the gateway could not complete a resume")
	errGap         = errors.New("messages are missing")
)

// isFinal reports whether trying again cannot help.
func isFinal(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Reason {
	case wire.InvalidCredentials, wire.InvalidRefreshToken, wire.InvalidRequest, wire.BadField, wire.MFARequired, wire.EnrolmentRequired,
		wire.PasswordChangeRequired, wire.SecondFactorLocked,
		wire.TokenRevoked, wire.AddressNotAllowed, wire.Replaced, wire.MessageTooBig:
		return true
	}
	return e.Closed && (e.Code == http.StatusBadRequest || e.Code == http.StatusForbidden)
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
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &answer) // without a body, the status says what there is
	seconds, _ := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 20)
	return &Error{
		Code: resp.StatusCode, Reason: wire.Reason(printable(string(answer.Error.Reason))),
		Msg: printable(answer.Error.Msg), Hint: printable(answer.Error.Hint),
		RequestID: printable(answer.Error.RequestID), RetryAfter: time.Duration(seconds) * time.Second,
	}
}

// streamError converts an Error message, whose texts are printable.
func streamError(c *stream.Control) *Error {
	return &Error{Code: c.Code, Reason: c.Reason, Msg: c.Msg, Hint: c.Hint, RetryAfter: c.RetryAfter}
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

// plain returns the cause of an error of the network, without the names of the library's functions.
func plain(err error) error {
	cause := err
	for next := err; next != nil; next = errors.Unwrap(next) {
		cause = next
	}
	return fmt.Errorf("connection broken: %w", cause)
}
