package certificate_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/internal/base/certificate"
	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
)

// lockedBuffer is a log that several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// clientGate is a server that requires client certificates, in a bubble of synctest.
type clientGate struct {
	*testing.T
	authority *certtest.Authority
	list      string // file of revoked certificates
	log       lockedBuffer
	clients   *certificate.Clients
	config    *tls.Config
}

// newClientGate returns a gate whose first list revokes nothing.
func newClientGate(t *testing.T) *clientGate {
	t.Helper()
	g := &clientGate{T: t, authority: certtest.NewAuthority(t, "operators"), list: filepath.Join(t.TempDir(), "revoked.crl")}
	g.write(g.authority.Revoke(nil))
	logger := slog.New(slog.NewTextHandler(&g.log, nil))
	own, err := certificate.Load(certtest.WriteUntil(t, t.TempDir(), "server", time.Now().AddDate(1, 0, 0)), logger)
	if err != nil {
		t.Fatal(err)
	}
	if g.clients, err = certificate.LoadClients(certificate.ClientFiles{Authorities: g.authority.File, Revoked: g.list}, logger); err != nil {
		t.Fatal(err)
	}
	g.config = own.Config()
	g.clients.Require(g.config)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { _ = g.clients.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		done.Wait()
	})
	return g
}

// write replaces the file of revoked certificates.
func (g *clientGate) write(text []byte) {
	g.Helper()
	replace(g.T, g.list, text)
}

// replace replaces a file in one step.
func replace(t *testing.T, name string, text []byte) {
	t.Helper()
	err := os.WriteFile(name+".new", text, 0o600)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// queuedConn is a connection whose writes do not wait for its reader, as those of the system.
type queuedConn struct {
	net.Conn
	queue chan []byte
	done  chan struct{}
	once  sync.Once
}

func newQueuedConn(c net.Conn) *queuedConn {
	q := &queuedConn{Conn: c, queue: make(chan []byte, 100), done: make(chan struct{})}
	go func() {
		for {
			select {
			case <-q.done:
				return
			case b := <-q.queue:
				if _, err := c.Write(b); err != nil {
					return
				}
			}
		}
	}()
	return q
}

func (c *queuedConn) Write(b []byte) (int, error) {
	select {
	case <-c.done:
		return 0, net.ErrClosed
	case c.queue <- bytes.Clone(b):
		return len(b), nil
	}
}

func (c *queuedConn) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.Conn.Close()
}

// connect returns a connection on which the server has sent a byte, or the error.
func (g *clientGate) connect(with tls.Certificate, cache tls.ClientSessionCache) (*clientConn, error) {
	near, far := net.Pipe()
	here, there := newQueuedConn(near), newQueuedConn(far)
	go func() {
		defer there.Close()
		server := tls.Server(there, g.config)
		if _, err := server.Write([]byte{1}); err == nil {
			_, _ = io.Copy(io.Discard, server)
		}
	}()
	client := tls.Client(here, &tls.Config{
		InsecureSkipVerify: true, ClientSessionCache: cache, ServerName: "gate",
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &with, nil },
	})
	g.Cleanup(func() { _ = here.Close() })
	if _, err := client.Read(make([]byte, 1)); err != nil {
		return nil, err
	}
	c := &clientConn{client, make(chan struct{})}
	go func() {
		_, _ = io.Copy(io.Discard, client)
		close(c.ended)
	}()
	return c, nil
}

// clientConn is an open connection of a client.
type clientConn struct {
	*tls.Conn
	ended chan struct{} // closed at its end
}

// isOpen reports whether a connection has not ended.
func isOpen(c *clientConn) bool {
	synctest.Wait()
	select {
	case <-c.ended:
		return false
	default:
		return true
	}
}

// TestThreat35RevokedCertificate checks that a revoked certificate is refused in the handshake,
// also that of a resumed session, and that its open connections end within two seconds. Others
// stay.
func TestThreat35RevokedCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newClientGate(t)
		year := time.Now().AddDate(1, 0, 0)
		ana, otto := g.authority.Issue("ana", year), g.authority.Issue("otto", year)
		cache := tls.NewLRUClientSessionCache(4)
		hers, err := g.connect(ana, cache)
		if err != nil {
			t.Fatal(err)
		}
		his, err := g.connect(otto, nil)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := g.connect(ana, cache); err != nil || !again.ConnectionState().DidResume {
			t.Fatalf("a resumed session: %v", err)
		}
		g.write(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: g.authority.Revoke([]tls.Certificate{ana})}))
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if isOpen(hers) {
			t.Error("her connection is open two seconds after her certificate was revoked")
		}
		for what, cache := range map[string]tls.ClientSessionCache{"a new session": nil, "a resumed session": cache} {
			if _, err := g.connect(ana, cache); err == nil {
				t.Errorf("%s with a revoked certificate", what)
			}
		}
		if !isOpen(his) || !strings.Contains(g.log.String(), `certificate 2 of \"operators\" is revoked`) {
			t.Errorf("his connection has ended, or the log says nothing:\n%s", g.log.String())
		}
		if _, err := g.connect(otto, nil); err != nil {
			t.Errorf("another certificate: %v", err)
		}
		g.write(g.authority.Revoke(nil))
		time.Sleep(2 * time.Second)
		if _, err := g.connect(ana, nil); err != nil {
			t.Errorf("not revoked any more: %v", err)
		}
	})
}

// TestThreat35UnreadableList checks that a list which cannot be used leaves the last good one in
// use, and that this is logged once.
func TestThreat35UnreadableList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newClientGate(t)
		ana := g.authority.Issue("ana", time.Now().AddDate(1, 0, 0))
		good := g.authority.Revoke([]tls.Certificate{ana})
		g.write(good)
		time.Sleep(2 * time.Second)
		part, err := asn1.Marshal(1)
		if err != nil {
			t.Fatal(err)
		}
		delta := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 27}, Critical: true, Value: part}
		for what, list := range map[string][]byte{
			"empty": {}, "half": good[:len(good)/2], "text": []byte("none"),
			"of another authority": certtest.NewAuthority(t, "strangers").Revoke(nil),
			"of a namesake":        certtest.NewAuthority(t, "operators").Revoke(nil),
			"a delta list":         g.authority.Revoke(nil, delta),
			"with a bad one":       append(pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: good}), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"...),
		} {
			g.write(good)
			time.Sleep(2 * time.Second)
			before := strings.Count(g.log.String(), "keeping its last content")
			g.write(list)
			time.Sleep(10 * time.Second)
			if _, err := g.connect(ana, nil); err == nil {
				t.Errorf("%s: a revoked certificate is accepted", what)
			}
			if n := strings.Count(g.log.String(), "keeping its last content") - before; n != 1 {
				t.Errorf("%s: logged %d times", what, n)
			}
			if _, err := certificate.LoadClients(certificate.ClientFiles{Authorities: g.authority.File, Revoked: g.list}, slog.New(slog.DiscardHandler)); err == nil {
				t.Errorf("%s: a start accepts it", what)
			}
		}
		if err := os.Remove(g.list); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if _, err := g.connect(ana, nil); err == nil {
			t.Error("without the file, a revoked certificate is accepted")
		}
	})
}

// TestCertificateEnds checks that a connection ends with its certificate, or when the authority of
// the certificate is removed. A list past its next update stays in use.
func TestCertificateEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newClientGate(t)
		ana := g.authority.Issue("ana", time.Now().AddDate(1, 0, 0))
		g.write(g.authority.Revoke([]tls.Certificate{ana}))
		brief, long := g.authority.Issue("brief", time.Now().Add(time.Hour)), g.authority.Issue("long", time.Now().AddDate(1, 0, 0))
		until, err := g.connect(brief, nil)
		if err != nil {
			t.Fatal(err)
		}
		stays, err := g.connect(long, nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - 10*time.Second)
		if !isOpen(until) {
			t.Error("closed before the certificate has expired")
		}
		time.Sleep(12 * time.Second)
		if isOpen(until) || !isOpen(stays) {
			t.Error("the certificate has expired")
		}
		// The list is outdated now, and the next one is damaged.
		g.write(append(g.authority.Revoke([]tls.Certificate{ana}), 0))
		time.Sleep(2 * time.Second)
		if _, err := g.connect(ana, nil); err == nil {
			t.Error("an outdated list does not count")
		}
		text, err := os.ReadFile(certtest.NewAuthority(t, "others").File)
		if err != nil {
			t.Fatal(err)
		}
		replace(t, g.authority.File, text)
		time.Sleep(2 * time.Second)
		if isOpen(stays) {
			t.Error("its authority was removed")
		}
	})
}
