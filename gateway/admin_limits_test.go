package gateway

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
)

// secureAdmin is a gateway whose administrator's listener requires client certificates.
type secureAdmin struct {
	*testing.T
	address   string
	authority *certtest.Authority
	ana, otto tls.Certificate // otto's is revoked
}

func newSecureAdmin(t *testing.T) *secureAdmin {
	t.Helper()
	folder, year := t.TempDir(), time.Now().AddDate(1, 0, 0)
	a := &secureAdmin{T: t, authority: certtest.NewAuthority(t, "operators")}
	a.ana, a.otto = a.authority.Issue("ana", year), a.authority.Issue("otto", year)
	list := filepath.Join(folder, "revoked.crl")
	if err := os.WriteFile(list, a.authority.Revoke([]tls.Certificate{a.otto}), 0o600); err != nil {
		t.Fatal(err)
	}
	a.address = serveAdmin(t, Config{Admin: Admin{
		Listen: "127.0.0.1:0", TokenFile: writeToken(t, folder, testAdminToken, 0o600),
		TLS: TLS(certtest.Write(t, folder, "server")), ClientCA: a.authority.File, ClientCRL: list,
	}}).Admin
	return a
}

// dial returns a connection from an address of this machine.
func (a *secureAdmin) dial(from string) net.Conn {
	a.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(a.Context(), "tcp", a.address)
	if err != nil {
		a.Fatal(err)
	}
	a.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// secure returns the connection of a client with a certificate.
func (a *secureAdmin) secure(from string, with tls.Certificate) *tls.Conn {
	return tls.Client(a.dial(from), &tls.Config{
		InsecureSkipVerify:   true, //nolint:gosec // a certificate of the test
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &with, nil },
	})
}

// ask returns the status of a request, or the error of the connection.
func (a *secureAdmin) ask(c net.Conn, header string) (int, error) {
	if _, err := io.WriteString(c, "GET /livez HTTP/1.1\r\nHost: x\r\n"+header+"\r\n"); err != nil {
		return 0, err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// TestThreat35RevokedOperator checks that a client with a revoked certificate is refused, and
// others are not.
func TestThreat35RevokedOperator(t *testing.T) {
	a := newSecureAdmin(t)
	if status, err := a.ask(a.secure("127.0.0.2", a.ana), ""); err != nil || status != 200 {
		t.Errorf("a good certificate: %d, %v", status, err)
	}
	if status, err := a.ask(a.secure("127.0.0.2", a.otto), ""); err == nil || !strings.Contains(err.Error(), "bad certificate") {
		t.Errorf("a revoked certificate: %d, %v", status, err)
	}
}

// TestThreat17AdminHandshakes checks that the administrator's listener limits unfinished TLS
// handshakes by address, the bytes of a handshake, and those of a header section.
func TestThreat17AdminHandshakes(t *testing.T) {
	a := newSecureAdmin(t)
	var silent []net.Conn
	for range adminHandshakes {
		silent = append(silent, a.dial("127.0.0.3"))
	}
	if status, err := a.ask(a.secure("127.0.0.3", a.ana), ""); err != nil || status != 200 {
		t.Errorf("one more of the address: %d, %v", status, err)
	}
	if n, err := silent[0].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest of the address: read %d bytes, %v, want the end", n, err)
	}
	if status, err := a.ask(a.secure("127.0.0.4", a.ana), ""); err != nil || status != 200 {
		t.Errorf("another address: %d, %v", status, err)
	}
	for _, c := range silent {
		_ = c.Close()
	}
	large := a.dial("127.0.0.5")
	record := append([]byte{22, 3, 1, 16, 0, 1, 0, 250, 0}, make([]byte, 4096-4)...)
	for range 8 {
		_, _ = large.Write(record) // the server may have closed the connection
		record = append(record[:5], make([]byte, 4096)...)
	}
	if answer, err := io.ReadAll(large); len(answer) > 100 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a large hello: %d bytes, %v", len(answer), err)
	}
	if status, err := a.ask(a.secure("127.0.0.6", a.ana), "X: "+strings.Repeat("x", 32<<10)+"\r\n"); status != 431 {
		t.Errorf("a large header section: %d, %v", status, err)
	}
}
