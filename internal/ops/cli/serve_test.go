package cli

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/ruedahq/rueda/internal/api/asyncapi/asyncapitest"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// writeCertificate writes tls.crt and tls.key for 127.0.0.1 and returns a pool that trusts them.
func writeCertificate(t *testing.T, folder string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, filepath.Join(folder, "tls.crt"), string(certificate))
	write(t, filepath.Join(folder, "tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return pool
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestServe runs the example configuration with TLS. Other processes add and disable a user
// meanwhile.
func TestServe(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := filepath.Join(folder, "rueda.toml")
	execute := func(input string, args ...string) {
		t.Helper()
		var talk transcript
		if status := run(t.Context(), args, command.Streams{In: strings.NewReader(input), Out: io.Discard, Err: &talk}); status != command.ExitOK {
			t.Fatalf("rueda %s: status %d: %s", strings.Join(args, " "), status, &talk)
		}
	}
	execute("", "serve", "--init", folder)
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	pool := writeCertificate(t, folder)
	edited := strings.NewReplacer(
		`listen = "127.0.0.1:8080"`, `listen = "127.0.0.1:0"`, `listen = "127.0.0.1:8081"`, `listen = "127.0.0.1:0"`,
		`# certificate = "tls`, `certificate = "tls`, `# key = "tls`, `key = "tls`,
		`# drain = "10s"`, `drain = "100ms"`, `# format = "text"`, `format = "json"`,
	).Replace(string(text))
	write(t, config, edited)

	server := start(t, "serve", "--config", config)
	server.said(`Nobody can log in yet: .* user add NAME --config`)
	address := server.said(`"msg":"ready","address":"([^"]+)"`)[1]
	execute("correct horse battery staple\n", "user", "add", "ana", "--rights", "all", "--config", config, "--password-stdin")

	https := &http.Client{Transport: openapitest.Wrap(&http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}})}
	defer https.CloseIdleConnections()
	token, err := grant(t.Context(), https, "https://"+address, "ana", "correct horse battery staple")
	if err != nil {
		t.Fatal(err)
	}
	conn := open(t, https, "wss://"+address+"/stream", token)
	expect(t, conn, `{"type":"Success","code":200,"msg":"Connected"`)

	// Another process disables the user. Within half a second the socket gets an error and is
	// closed.
	began := time.Now()
	execute("", "user", "disable", "ana", "--config", config)
	expect(t, conn, `{"type":"Error","code":401,"reason":"token_revoked"`)
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != 4401 {
		t.Errorf("read after the end: %v", err)
	}
	t.Logf("figure: closed %v after the command began", time.Since(began).Round(time.Millisecond))
	if _, err := grant(t.Context(), https, "https://"+address, "ana", "correct horse battery staple"); err == nil {
		t.Error("a disabled user logged in")
	}

	server.stop()
	if status := server.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
	for _, secret := range []string{token, "correct horse"} {
		if strings.Contains(server.talk.String(), secret) {
			t.Error("a secret is in the log")
		}
	}
}

// open connects and authenticates.
func open(t *testing.T, client *http.Client, url, token string) *websocket.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	if err := conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"action":"auth_token","token":%q}`, token)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// expect checks the beginning of the next message.
func expect(t *testing.T, conn *websocket.Conn, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, msg, err := conn.Read(ctx)
	if err != nil || !strings.HasPrefix(string(msg), want) {
		t.Fatalf("got %s, %v; want %s", msg, err, want)
	}
	asyncapitest.Received(t, msg)
}

// TestInterruptWhileReading interrupts a read that does not check a context.
func TestInterruptWhileReading(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	status := make(chan int, 1)
	std := command.Streams{Exit: func(s int) { status <- s }}
	stop := std.ExitOnInterrupt(ctx)
	cancel()
	if got := <-status; got != command.ExitInterrupted {
		t.Errorf("status %d", got)
	}
	if stop() {
		t.Error("it had not begun to end")
	}

	ctx, cancel = context.WithCancel(t.Context())
	std.ExitOnInterrupt(ctx)()
	cancel()
	select {
	case got := <-status:
		t.Errorf("ended with %d after the configuration was read", got)
	default:
	}
}

// TestServeTwice checks that a second gateway on one folder names the folder and the setting.
func TestServeTwice(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	config := filepath.Join(folder, "rueda.toml")
	write(t, config, "listen = \"127.0.0.1:0\"\ndata = \"data\"\n")
	server := start(t, "serve", "--config", config)
	server.said(`msg=ready .* data=\S+rueda\.db users=local feeds=none admin=none`)
	var talk transcript
	if status := run(t.Context(), []string{"serve", "--config", config}, command.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &talk}); status != command.ExitError {
		t.Errorf("status %d", status)
	}
	for _, want := range []string{"another gateway uses the journal " + filepath.Join(folder, "data", "journal"), "Stop that gateway, or choose another folder (folder of [journal] in " + config + ")."} {
		if !strings.Contains(talk.String(), want) {
			t.Errorf("printed %q, want %q in it", talk.String(), want)
		}
	}
	server.stop()
	if status := server.exit(); status != command.ExitOK {
		t.Errorf("ended with %d", status)
	}
}
