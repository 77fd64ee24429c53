package api

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"

	"github.com/ruedahq/rueda/wire"
)

// ReadBody returns the body of the request, which must have the given media type and at most limit
// bytes. The error is a *wire.Fault.
func (q *Request) ReadBody(media string, limit int64) ([]byte, error) {
	if f := checkBodyType(q.Header, media); f != nil {
		return nil, f
	}
	if q.ContentLength > limit {
		return nil, &wire.Fault{Reason: wire.BodyTooBig}
	}
	q.SetWaiting(q.User.ID == "")
	body, err := io.ReadAll(io.LimitReader(q.Body, limit+1))
	q.SetWaiting(false)
	switch {
	case int64(len(body)) > limit:
		return nil, &wire.Fault{Reason: wire.BodyTooBig}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &wire.Fault{Reason: wire.Timeout}
	case err != nil:
		q.Out.Set("Connection", "close")
		return nil, wire.NewFault(wire.InvalidRequest, "Body not understood")
	}
	return body, nil
}

// checkBodyType returns a fault unless the body has the media type want, is in UTF-8, and is not
// compressed.
func checkBodyType(h http.Header, want string) *wire.Fault {
	bad := wire.NewFault(wire.UnsupportedMedia, "The body must be "+want+" in UTF-8, without a content encoding")
	if types := h.Values("Content-Type"); len(types) != 1 {
		return bad
	}
	media, param, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || media != want {
		return bad
	}
	if charset, ok := param["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return bad
	}
	for _, encoding := range h.Values("Content-Encoding") {
		if !strings.EqualFold(encoding, "identity") {
			return bad
		}
	}
	return nil
}
