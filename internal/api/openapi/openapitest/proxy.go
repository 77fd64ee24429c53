package openapitest

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
)

// Proxy is a server that forwards requests to a gateway and checks each exchange against the
// documents. The test fails for an exchange that they do not describe. Through a proxy, clients in
// any language can be checked.
type Proxy struct {
	URL string // of the proxy

	t       testing.TB
	gateway atomic.Pointer[url.URL]
}

// NewProxy starts a proxy that runs until the test ends. Call Pass before the first request.
func NewProxy(t testing.TB) *Proxy {
	t.Helper()
	next := &http.Transport{DisableCompression: true}
	checks, err := NewTransport(next)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Transport: checks,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(p.gateway.Load())
			r.Out.Host = r.In.Host
		},
	})
	p.URL = server.URL
	t.Cleanup(func() {
		server.Close()
		next.CloseIdleConnections()
		if err := checks.Err(); err != nil {
			t.Error(err)
		}
		if checks.Checked() == 0 {
			t.Error("no exchange was validated")
		}
	})
	return p
}

// Pass sets the address of the gateway that requests are forwarded to, and returns the address of
// the proxy.
func (p *Proxy) Pass(gateway string) string {
	p.t.Helper()
	u, err := url.Parse(gateway)
	if err != nil {
		p.t.Fatal(err)
	}
	p.gateway.Store(u)
	return p.URL
}
