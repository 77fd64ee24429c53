package openapitest

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxBody bounds the bodies that are kept for validation. Longer ones, which are streams or have
// thousands of rows, are checked without their body.
const maxBody = 256 << 10

// IgnoredMembers is the X-Request-Id of requests whose body deliberately has members that the
// server ignores. Their body is not validated.
const IgnoredMembers = "ignored-members"

// Handler returns a handler that validates the requests and answers of h, and reports what the
// document does not describe as an error of the test.
func Handler(t testing.TB, c *Checker, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &Exchange{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, RequestHeader: r.Header.Clone()}
		sent := &keeper{}
		if r.Body != nil {
			r.Body = readCloser{io.TeeReader(r.Body, sent), r.Body}
		}
		out := &recorder{ResponseWriter: w}
		defer func() {
			// The stream of a test may be a stub, which has its own status.
			if out.status == 0 || out.status == http.StatusTeapot || out.failed {
				return
			}
			x.Status, x.Header, x.Body = out.status, out.header, decode(out.header, out.body.kept())
			if r.Header.Get("X-Request-Id") != IgnoredMembers {
				x.RequestBody = sent.kept()
			}
			if err := c.Check(x); err != nil {
				t.Errorf("%v: %v", x, err)
			}
		}()
		h.ServeHTTP(out, r)
	})
}

// readCloser reads and closes different things.
type readCloser struct {
	io.Reader
	io.Closer
}

// keeper keeps the data that is written to it, unless it is too long.
type keeper struct {
	buf     bytes.Buffer
	tooLong bool
}

// Write implements io.Writer.
func (k *keeper) Write(b []byte) (int, error) {
	if k.tooLong = k.tooLong || k.buf.Len()+len(b) > maxBody; !k.tooLong {
		k.buf.Write(b)
	}
	return len(b), nil
}

// kept returns what was written, or nil if it was too long.
func (k *keeper) kept() []byte {
	if k.tooLong {
		return nil
	}
	return k.buf.Bytes()
}

// recorder records an answer.
type recorder struct {
	http.ResponseWriter
	status int
	header http.Header
	body   keeper
	failed bool // a write has failed, so that the body is not complete
}

// Unwrap implements the interface of http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status, r.header = status, r.Header().Clone()
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	n, err := r.ResponseWriter.Write(b)
	r.failed = r.failed || err != nil
	_, _ = r.body.Write(b[:n])
	return n, err
}

// decode returns a body without its content coding, or nil if it is not complete.
func decode(header http.Header, body []byte) []byte {
	if body == nil {
		return nil
	}
	switch header.Get("Content-Encoding") {
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil
		}
		plain, err := io.ReadAll(z)
		if err != nil {
			return nil
		}
		return plain
	case "zstd":
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil
		}
		defer z.Close()
		plain, err := z.DecodeAll(body, nil)
		if err != nil {
			return nil
		}
		return plain
	}
	return body
}
