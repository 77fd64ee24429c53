package openapitest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/api/openapi"
)

// Transport validates what the clients of tests exchange with gateways: requests and answers with
// the OpenAPI documents, and the messages of WebSockets, in both directions, with the AsyncAPI
// document. Answers without X-Request-Id are not of a gateway, nor are handshakes with NoGateway.
// It is safe for concurrent use.
type Transport struct {
	next   http.RoundTripper
	found  *findings
	public *Checker
	admin  *Checker
}

// NoGateway is a header of the handshakes of servers that tests write.
const NoGateway = "X-No-Gateway"

// findings are what the documents do not describe.
type findings struct {
	mu      sync.Mutex
	checked int
	failed  []error
}

// add records the result of a check.
func (f *findings) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.checked++; err != nil {
		f.failed = append(f.failed, err)
	}
}

// NewTransport returns a Transport that sends requests with next.
func NewTransport(next http.RoundTripper) (*Transport, error) {
	public, err := openapi.PublicDocument()
	if err != nil {
		return nil, err
	}
	admin, err := openapi.AdminDocument()
	if err != nil {
		return nil, err
	}
	t := &Transport{next: next, found: &findings{}}
	if t.public, err = New(public); err != nil {
		return nil, err
	}
	t.admin, err = New(admin)
	return t, err
}

// Main runs the tests of a package, or a program that they start, with a Transport as
// http.DefaultTransport. It returns the exit status of run. What the documents do not describe is
// printed, and is a failure.
func Main(run func() int) int {
	t, err := NewTransport(http.DefaultTransport)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	http.DefaultTransport = t
	status := run()
	if err := t.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(status, 1)
	}
	return status
}

// Wrap returns a transport for tests of a package that uses Main. It sends requests with next, and
// Main reports what it finds.
func Wrap(next http.RoundTripper) http.RoundTripper {
	t := *http.DefaultTransport.(*Transport)
	t.next = next
	return &t
}

// Record validates an exchange that a test of a package that uses Main made without net/http.
func Record(x *Exchange) {
	if x.Header.Get("X-Request-Id") != "" {
		t := http.DefaultTransport.(*Transport)
		if x.RequestHeader.Get("X-Request-Id") == IgnoredMembers {
			x.RequestBody = nil
		}
		x.Body = decode(x.Header, x.Body)
		t.found.add(t.check(x))
	}
}

// Err returns what was found up to now.
func (t *Transport) Err() error {
	t.found.mu.Lock()
	defer t.found.mu.Unlock()
	if len(t.found.failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d exchanges are not as the documents describe them: %w",
		len(t.found.failed), t.found.checked, errors.Join(t.found.failed[:min(10, len(t.found.failed))]...))
}

// Checked returns the number of exchanges up to now.
func (t *Transport) Checked() int {
	t.found.mu.Lock()
	defer t.found.mu.Unlock()
	return t.found.checked
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := &Exchange{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, RequestHeader: r.Header.Clone()}
	sent := &keeper{}
	if r.Body != nil && r.Body != http.NoBody {
		clone := *r
		clone.Body = readCloser{io.TeeReader(r.Body, sent), r.Body}
		r = &clone
	}
	res, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	upgraded := res.StatusCode == http.StatusSwitchingProtocols
	if !upgraded && res.Header.Get("X-Request-Id") == "" || upgraded && res.Header.Get(NoGateway) != "" {
		return res, nil
	}
	x.Status, x.Header = res.StatusCode, res.Header.Clone()
	if upgraded {
		t.found.add(t.check(x))
		if conn, ok := res.Body.(io.ReadWriteCloser); ok {
			res.Body = asyncapitest.Watch(conn, t.found.add)
		}
		return res, nil
	}
	if r.Header.Get("X-Request-Id") != IgnoredMembers {
		x.RequestBody = sent.kept()
	}
	res.Body = &body{ReadCloser: res.Body, check: func(content []byte) {
		x.Body = decode(x.Header, content)
		t.found.add(t.check(x))
	}}
	return res, nil
}

// check checks an exchange with the document of its listener. Both listeners
// give the same answer for a path that neither has.
func (t *Transport) check(x *Exchange) error {
	c := t.public
	if c.find(x.Path) == "" && t.admin.find(x.Path) != "" {
		c = t.admin
	}
	err := c.Check(x)
	if err == nil || c.checkOutside(x) == nil && (x.Status == http.StatusNotFound || x.Status == http.StatusMethodNotAllowed) {
		return nil // the other listener, perhaps
	}
	return fmt.Errorf("%v: %w", x, err)
}

// body is the body of an answer, which is checked when it was read or is closed.
type body struct {
	io.ReadCloser
	got   keeper
	once  sync.Once
	check func(content []byte)
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_, _ = b.got.Write(p[:n])
	if errors.Is(err, io.EOF) {
		b.once.Do(func() { b.check(b.got.kept()) })
	}
	return n, err
}

// Close implements io.Closer. What was not read is not checked.
func (b *body) Close() error {
	b.once.Do(func() { b.check(nil) })
	return b.ReadCloser.Close()
}
