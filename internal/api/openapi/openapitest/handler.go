package openapitest

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxBody bounds a body that is kept for validation, in bytes. The Checker does not see a longer
// body, such as a stream or a page of thousands of rows.
const maxBody = 256 << 10

// IgnoredMembers is a value of X-Request-Id. A test sends it if the request body has members that
// the server ignores; the body is then not validated.
const IgnoredMembers = "ignored-members"

// Handler returns a handler that passes requests to h and checks each exchange with c. The test
// fails for an exchange that the document does not describe.
func Handler(t testing.TB, c *Checker, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &Exchange{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, RequestHeader: r.Header.Clone()}
		sent := &keeper{}
		if r.Body != nil {
			r.Body = readCloser{io.TeeReader(r.Body, sent), r.Body}
		}
		out := &recorder{ResponseWriter: w}
		defer func() {
			// A test may replace the stream with a stub that answers with a status of its own.
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

// readCloser combines a Reader with the Closer of another value.
type readCloser struct {
	io.Reader
	io.Closer
}

// keeper stores what is written to it, up to maxBody bytes in total.
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

// kept returns everything that was written, or nil if that was more than maxBody bytes.
func (k *keeper) kept() []byte {
	if k.tooLong {
		return nil
	}
	return k.buf.Bytes()
}

// recorder passes an answer on and stores its status, header and body.
type recorder struct {
	http.ResponseWriter
	status int
	header http.Header
	body   keeper
	failed bool // a write has failed, so that the body is not complete
}

// Unwrap returns the underlying writer, for http.ResponseController.
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

// decode decompresses a body according to its Content-Encoding. It returns nil if body is nil or
// cannot be decompressed.
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
