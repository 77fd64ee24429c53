package gateway

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writePair writes a new certificate for 127.0.0.1 with its key, and returns both as TLS names them.
func writePair(t *testing.T, folder, name string) TLS {
	t.Helper()
	return writePairUntil(t, folder, name, time.Now().Add(time.Hour))
}

func writePairUntil(t *testing.T, folder, name string, end time.Time) TLS {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: end.Add(-2 * time.Hour), NotAfter: end,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := TLS{Certificate: filepath.Join(folder, "tls.crt"), Key: filepath.Join(folder, "tls.key")}
	for path, block := range map[string]*pem.Block{
		files.Certificate: {Type: "CERTIFICATE", Bytes: der},
		files.Key:         {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

func (c *certificate) subject(t *testing.T) string {
	t.Helper()
	pair, err := c.config().GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.Subject.CommonName
}

func TestCertificateReload(t *testing.T) {
	folder := t.TempDir()
	c, err := newCertificate(writePair(t, folder, "first"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	reload := func(wantChanged bool, wantErr, wantSubject string) {
		t.Helper()
		changed, err := c.load()
		if changed != wantChanged || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("changed %v, error %v; want %v, %q", changed, err, wantChanged, wantErr)
		}
		if got := c.subject(t); got != wantSubject {
			t.Errorf("in use: %s, want %s", got, wantSubject)
		}
	}
	reload(false, "", "first")

	// Half of a renewal: the new key does not fit the old certificate.
	chain, err := os.ReadFile(c.cfg.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	writePair(t, folder, "second")
	renewed, err := os.ReadFile(c.cfg.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, text []byte, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(name, text, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	write(c.cfg.Certificate, chain, 0o600)
	reload(false, "does not match", "first")
	write(c.cfg.Certificate, renewed, 0o600)
	reload(true, "", "second")

	writePairUntil(t, folder, "third", time.Now().Add(-time.Minute))
	reload(false, "expired", "second")

	write(c.cfg.Certificate, []byte("garbage"), 0o600)
	reload(false, "tls.crt", "second")
	if err := os.Chmod(c.cfg.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	reload(false, "chmod 640", "second")
}

func TestCertificateRefused(t *testing.T) {
	files := writePair(t, t.TempDir(), "x")
	if err := os.Chmod(files.Key, 0o604); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		files TLS
		want  string
	}{
		"key that all may read": {files, "lets every user"},
		"no key":                {TLS{Certificate: files.Certificate}, "both"},
		"no such file":          {TLS{Certificate: "nowhere.crt", Key: "nowhere.key"}, "nowhere.crt"},
	} {
		if _, err := newCertificate(tc.files, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, tc.want)
		}
	}
}

func TestTLSIsModern(t *testing.T) {
	c, err := newCertificate(writePair(t, t.TempDir(), "x"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.config())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake() // the client tells how it went
			conn.Close()
		}
	}()
	for name, tc := range map[string]struct {
		max   uint16
		offer []string
		ok    bool
	}{
		"TLS 1.1":      {tls.VersionTLS11, nil, false},
		"TLS 1.2":      {tls.VersionTLS12, nil, true},
		"HTTP/2 alone": {tls.VersionTLS13, []string{"h2"}, false},
		"both":         {tls.VersionTLS13, []string{"h2", "http/1.1"}, true},
	} {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{
			InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: tc.max, NextProtos: tc.offer,
		})
		if (err == nil) != tc.ok {
			t.Errorf("%s: error %v", name, err)
		}
		if err != nil {
			continue
		}
		if p := conn.ConnectionState().NegotiatedProtocol; p == "h2" {
			t.Errorf("%s: chose %s", name, p)
		}
		conn.Close()
	}
}
