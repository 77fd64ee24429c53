package certificate_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/base/certificate"
	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
)

func subject(t *testing.T, c *certificate.Certificate) string {
	t.Helper()
	pair, err := c.Config().GetCertificate(&tls.ClientHelloInfo{})
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf.Subject.CommonName
}

func TestCertificateReload(t *testing.T) {
	folder := t.TempDir()
	files := certtest.Write(t, folder, "first")
	c, err := certificate.Load(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	reload := func(wantChanged bool, wantErr, wantSubject string) {
		t.Helper()
		changed, err := c.Reload()
		if changed != wantChanged || (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) {
			t.Errorf("changed %v, error %v; want %v, %q", changed, err, wantChanged, wantErr)
		}
		if got := subject(t, c); got != wantSubject {
			t.Errorf("in use: %s, want %s", got, wantSubject)
		}
	}
	reload(false, "", "first")

	// Half of a renewal: the new key does not fit the old certificate.
	chain, err := os.ReadFile(files.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	certtest.Write(t, folder, "second")
	renewed, err := os.ReadFile(files.Certificate)
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
	write(files.Certificate, chain, 0o600)
	reload(false, "does not match", "first")
	write(files.Certificate, renewed, 0o600)
	reload(true, "", "second")

	certtest.WriteUntil(t, folder, "third", time.Now().Add(-time.Minute))
	reload(false, "expired", "second")

	write(files.Certificate, []byte("garbage"), 0o600)
	reload(false, "tls.crt", "second")
	if err := os.Chmod(files.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	reload(false, "chmod 640", "second")
}

func TestCertificateRefused(t *testing.T) {
	files := certtest.Write(t, t.TempDir(), "x")
	if err := os.Chmod(files.Key, 0o604); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		files certificate.Files
		want  string
	}{
		"key that all may read": {files, "lets every user"},
		"no key":                {certificate.Files{Certificate: files.Certificate}, "both"},
		"no such file":          {certificate.Files{Certificate: "nowhere.crt", Key: "nowhere.key"}, "nowhere.crt"},
	} {
		if _, err := certificate.Load(tc.files, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, tc.want)
		}
	}
}

func TestTLSIsModern(t *testing.T) {
	c, err := certificate.Load(certtest.Write(t, t.TempDir(), "x"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.Config())
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
			_ = conn.(*tls.Conn).Handshake() // the client checks the result
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

// TestCiphers offers each cipher suite of TLS 1.2 alone. Those with CBC, without forward secrecy or
// with a broken cipher are refused.
func TestCiphers(t *testing.T) {
	c, err := certificate.Load(certtest.Write(t, t.TempDir(), "x"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	agreed := 0
	for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if !slices.Contains(suite.SupportedVersions, tls.VersionTLS12) {
			continue
		}
		err := handshake(c.Config(), &tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID}})
		modern := strings.HasPrefix(suite.Name, "TLS_ECDHE_") && (strings.Contains(suite.Name, "GCM") || strings.Contains(suite.Name, "POLY1305_SHA256"))
		if err == nil && !modern {
			t.Errorf("%s is agreed", suite.Name)
		}
		if err == nil {
			agreed++
		}
	}
	if agreed == 0 {
		t.Error("no suite is agreed")
	}
}

// handshake returns the error of a client that does not verify the server.
func handshake(serverConfig, clientConfig *tls.Config) error {
	server, client := net.Pipe()
	ended := make(chan struct{})
	go func() {
		_ = tls.Server(server, serverConfig).Handshake() // the client checks the result
		server.Close()
		close(ended)
	}()
	clientConfig.InsecureSkipVerify = true
	err := tls.Client(client, clientConfig).Handshake()
	client.Close()
	<-ended
	return err
}

// TestMinVersion refuses TLS 1.2 with a higher oldest version, also after other files are used.
func TestMinVersion(t *testing.T) {
	files := certtest.Write(t, t.TempDir(), "x")
	old := files
	files.MinVersion = tls.VersionTLS13
	c, err := certificate.Load(files, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, most := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
			err := handshake(c.Config(), &tls.Config{MaxVersion: most})
			if (err == nil) != (most == tls.VersionTLS13) {
				t.Errorf("%s: %v", tls.VersionName(most), err)
			}
		}
		if err := c.SetFiles(t.Context(), old); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSetFiles names other files. Files that are wrong change nothing.
func TestSetFiles(t *testing.T) {
	folders := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	first, second := certtest.Write(t, folders[0], "first"), certtest.Write(t, folders[1], "second")
	certtest.WriteUntil(t, folders[2], "third", time.Now().Add(-time.Minute))
	c, err := certificate.Load(first, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	reloads := 0
	c.OnReload = func(context.Context, time.Time) { reloads++ }
	set := func(files certificate.Files, wrong, want string, calls int) {
		t.Helper()
		err := c.SetFiles(t.Context(), files)
		if (err == nil) != (wrong == "") || err != nil && !strings.Contains(err.Error(), wrong) {
			t.Errorf("%v: %v, want %q", files, err, wrong)
		}
		if _, err := c.Reload(); err != nil {
			t.Error(err)
		}
		if got := subject(t, c); got != want || reloads != calls {
			t.Errorf("in use: %s, %d calls; want %s, %d", got, reloads, want, calls)
		}
	}
	set(second, "", "second", 1)
	set(second, "", "second", 1)
	set(certificate.Files{Certificate: first.Certificate, Key: second.Key}, "does not match", "second", 1)
	set(certificate.Files{Certificate: first.Certificate}, "both", "second", 1)
	set(certificate.Files{Certificate: filepath.Join(folders[2], "tls.crt"), Key: filepath.Join(folders[2], "tls.key")}, "expired", "second", 1)
	set(first, "", "first", 2)
}
