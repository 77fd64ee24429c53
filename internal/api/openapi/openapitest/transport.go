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

// Transport sends the requests of tests and checks each exchange with a gateway against the OpenAPI
// documents. It also checks the messages of WebSockets, in both directions, against the AsyncAPI
// document. It does not check answers without X-Request-Id and handshakes with NoGateway, because
// they are not from a gateway. It is safe for concurrent use.
type Transport struct {
	next   http.RoundTripper
	found  *findings
	public *Checker
	admin  *Checker
}

// NoGateway is a header of handshake answers. Servers that tests write set it, so that a Transport
// does not check their messages.
const NoGateway = "X-No-Gateway"

// findings counts the checks and collects their errors.
type findings struct {
	mu      sync.Mutex
	checked int
	failed  []error
}

// add counts a check, and records its error if err is not nil.
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

// Main calls run, which runs the tests of a package, with a Transport as http.DefaultTransport. It
// returns the exit status of run. If an exchange does not match the documents, Main prints it and
// returns at least 1.
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

// Wrap returns a Transport that sends requests with next and reports to Main. The tests of the
// package must run in Main.
func Wrap(next http.RoundTripper) http.RoundTripper {
	t := *http.DefaultTransport.(*Transport)
	t.next = next
	return &t
}

// Record checks an exchange that a test made without net/http, and reports to Main. It ignores
// answers without X-Request-Id. The tests of the package must run in Main.
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

// Err returns an error with the first 10 failed checks so far, or nil if none has failed.
func (t *Transport) Err() error {
	t.found.mu.Lock()
	defer t.found.mu.Unlock()
	if len(t.found.failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d exchanges are not as the documents describe them: %w",
		len(t.found.failed), t.found.checked, errors.Join(t.found.failed[:min(10, len(t.found.failed))]...))
}

// Checked returns how many checks were made so far.
func (t *Transport) Checked() int {
	t.found.mu.Lock()
	defer t.found.mu.Unlock()
	return t.found.checked
}

// CloseIdleConnections closes the idle connections of the underlying transport.
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

// check checks an exchange against the document of the listener that has the path. It accepts 404
// and 405 for any path, because the test may have used the other listener.
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

// body is the body of an answer. It is checked at its end, or when it is closed.
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

// Close implements io.Closer. If the body was not read to its end, only the rest of the exchange is
// checked.
func (b *body) Close() error {
	b.once.Do(func() { b.check(nil) })
	return b.ReadCloser.Close()
}
