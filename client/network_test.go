package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ruedahq/rueda/client"
	rueda "github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
	"github.com/ruedahq/rueda/ruedatest"
)

// tunnel is a proxy for CONNECT.
type tunnel struct {
	opened atomic.Int64
	group  sync.WaitGroup
}

// ServeHTTP implements http.Handler.
func (p *tunnel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect {
		http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
		return
	}
	target, err := net.Dial("tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = target.Close()
		return
	}
	p.opened.Add(1)
	_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
	for _, pair := range [][2]net.Conn{{conn, target}, {target, conn}} {
		p.group.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_, _ = pair[0].Close(), pair[1].Close()
		})
	}
}

// TestProxyAndTLS checks REST and the stream of a gateway whose certificate is of an authority of
// its own, through a proxy. Without the authority, the client refuses the gateway.
func TestProxyAndTLS(t *testing.T) {
	t.Parallel()
	files := certtest.Write(t, t.TempDir(), "gateway")
	s := ruedatest.Start(t, ruedatest.Config{Change: func(c *rueda.Config) {
		c.TLS = rueda.TLS{Certificate: files.Certificate, Key: files.Key}
	}})
	text, err := os.ReadFile(files.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(text)
	var p tunnel
	proxy := httptest.NewServer(&p)
	defer p.group.Wait()
	defer proxy.Close()
	address, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := client.Options{
		Username: s.Username, Password: client.Secret(s.Password), Compress: true,
		TLS: &tls.Config{RootCAs: authorities}, Proxy: http.ProxyURL(address),
	}
	c, err := client.New([]string{s.URL}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, err := range c.Accounts(t.Context()) {
		if err != nil {
			t.Error(err)
		}
	}
	for ev := range c.Events(within(t)) {
		change, ok := ev.(client.StateChange)
		if ok && change.Err != nil {
			t.Error(change.Err)
		}
		if ok && change.State == client.Live {
			break
		}
	}
	if n := p.opened.Load(); n != 2 {
		t.Errorf("%d connections through the proxy", n)
	}
	o.TLS, o.Proxy = nil, nil
	other, err := client.New([]string{s.URL}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	var unknown *tls.CertificateVerificationError
	if _, err := other.Login(t.Context()); !errors.As(err, &unknown) {
		t.Errorf("without the authority: %v", err)
	}
}

// TestBrokenRequest checks that a request that only reads is sent again when its connection breaks.
func TestBrokenRequest(t *testing.T) {
	t.Parallel()
	s := ruedatest.Start(t, ruedatest.Config{})
	proxy := newBreaker(t, strings.TrimPrefix(s.URL, "http://"))
	c, err := client.New([]string{"http://" + proxy.listener.Addr().String()}, client.Options{Username: s.Username, Password: client.Secret(s.Password)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Login(t.Context()); err != nil {
		t.Fatal(err)
	}
	proxy.kill("cut") // the next answer on the open connection is cut in half
	n := 0
	for _, err := range c.Accounts(t.Context()) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d accounts", n)
	}
}
