//go:build unix

// Package hostile tests a gateway, which runs in a separate process, with inputs that no
// well-behaved client sends.
//
// Each numbered input is a row of a table with its expected result: a clear refusal. A panic is a
// failure, and so is a 5xx that no dependency has caused. Every group runs over three transports:
// the event loop, the event loop with TLS, and goroutines with TLS. After each group the process
// has as many goroutines and descriptors as before, and no more memory.
package hostile

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/api/openapi/openapitest"
)

// serverVariable is the environment variable that makes the test program the gateway. Its value is
// the settings as JSON.
const serverVariable = "RUEDA_TEST_HOSTILE_SERVER"

func TestMain(m *testing.M) {
	if text := os.Getenv(serverVariable); text != "" {
		if err := serve(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(openapitest.Main(m.Run))
}

// full reports whether long tests run in full (make soak). Otherwise their counts are a twentieth.
func full() bool { return os.Getenv("RUEDA_SOAK") != "" }

func count(n int) int {
	if full() {
		return n
	}
	return max(1, n/20)
}

// bound returns the time limit of a test: the promised time if it runs in full, and three times
// that on a machine that also does other work.
func bound(most time.Duration) time.Duration {
	if full() {
		return most
	}
	return 3 * most
}

// settings are the settings of the gateway process.
type settings struct {
	Folder         string
	TLS            bool
	TLSGoroutines  bool // TLS by goroutines
	NetListener    bool // a listener of package net, so that each connection has goroutines
	Uring          bool // the event loop writes by io_uring
	Debug          bool // the log at its finest level
	ShortDeadlines bool // short deadlines, for the inputs that test them

	LongAuth    bool    // five minutes to authenticate
	ShortTokens bool    // access tokens live for 5 s
	Sockets     int     // in total; 0: the default
	Refreshes   int     // of one login; 0: the default
	Speed       float64 // of the market; 0: real time
	Extra       bool    // a feed for producers, and a directory that locks accounts
}

// usernames returns the users of the gateway. Those with a number are for inputs that change a user
// or end its logins.
func usernames() []string {
	names := []string{"ana", "eve", "shallow", "slow", "mute", "crowd", "target"}
	for i := range 24 {
		names = append(names, fmt.Sprintf("user%d", i))
	}
	names = append(names, (&attacker{}).user()) // for inputs without a number
	for n := 96; n <= 120; n++ {
		names = append(names, (&attacker{n: n}).user())
	}
	return names
}

// hashOf returns the SHA-256 of a text in hexadecimal.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func passwordOf(name string) string {
	if name == "mute" {
		return " spaces around "
	}
	return "password of " + name
}

// serve runs the gateway. It takes commands from its standard input and ends at the end of it.
func serve(text string) error {
	var s settings
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// On a busy machine the default wait for a password check is too short.
	data, err := gateway.OpenData(ctx, gateway.DataConfig{Folder: s.Folder, PasswordWait: 30 * time.Second})
	if err != nil {
		return err
	}
	source, err := sim.New(sim.Config{Seed: 1, Instruments: 12, Speed: s.Speed})
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if s.Debug {
		level = slog.LevelDebug
	}
	cfg := gateway.Config{
		Listen: "127.0.0.1:0", Data: data, Hosts: []string{"gateway.test"},
		Feeds:   []gateway.Feed{{Name: "sim", Source: source}},
		Drain:   time.Second,
		Journal: gateway.Journal{Folder: filepath.Join(s.Folder, "journal")},
		Stream:  gateway.Stream{TLSByGoroutines: s.TLSGoroutines, IOUring: s.Uring},
		Limits: gateway.Limits{
			RequestsPerMinute: 100_000, Sockets: s.Sockets,
			Logins: gateway.Logins{
				RefreshesPerMinute: s.Refreshes, RefreshBurst: s.Refreshes,
				UserRefreshesPerMinute: s.Refreshes, UserRefreshBurst: s.Refreshes,
			},
		},
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
		Admin:  gateway.Admin{Listen: "127.0.0.1:0", Tokens: operators()},
	}
	var admin atomic.Value // address of the administrator's listener
	cfg.OnReady = func(b gateway.Bound) {
		admin.Store(b.Admin)
		fmt.Println(b.Address)
	}
	if s.ShortDeadlines {
		// A busy machine delays a client that answers by seconds.
		cfg.Stream.AuthTimeout, cfg.Stream.PingInterval, cfg.Stream.PongTimeout = 3*time.Second, time.Second, 8*time.Second
	}
	if s.ShortTokens {
		cfg.Auth.AccessTTL = 5 * time.Second
	}
	if s.LongAuth {
		cfg.Stream.AuthTimeout = 5 * time.Minute
	}
	if s.TLS {
		cfg.TLS = gateway.TLS{Certificate: filepath.Join(s.Folder, "cert.pem"), Key: filepath.Join(s.Folder, "key.pem")}
	}
	var more extra
	if s.Extra {
		if more, err = newExtra(&cfg, data); err != nil {
			return err
		}
	}
	if s.NetListener {
		if cfg.Listener, err = net.Listen("tcp", cfg.Listen); err != nil {
			return err
		}
	}
	g, err := gateway.New(context.Background(), cfg)
	if err != nil {
		return err
	}
	go func() {
		defer cancel()
		answer(ctx, s.Folder, data, g, more, &admin, cancel)
	}()
	return errors.Join(g.Run(ctx), data.Close())
}

// userFiles returns the files of a data folder with all users, by name. All servers share them,
// because each password costs a hash.
var userFiles = sync.OnceValues(func() (map[string][]byte, error) {
	folder, err := os.MkdirTemp("", "rueda-hostile-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	data, err := gateway.OpenData(context.Background(), gateway.DataConfig{Folder: folder})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(addUsers(context.Background(), data.Users), data.Close()); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(folder)
	files := map[string][]byte{}
	for _, e := range entries {
		text, readErr := os.ReadFile(filepath.Join(folder, e.Name()))
		files[e.Name()], err = text, errors.Join(err, readErr)
	}
	return files, err
})

// writeUsers writes all users into a folder, unless a server has already used it.
func writeUsers(t testing.TB, folder string) {
	t.Helper()
	files, err := userFiles()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "rueda.db")); err == nil {
		return
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func addUsers(ctx context.Context, users *local.Base) error {
	all := []string{broker.ScopeAccounts, broker.ScopeRead, broker.ScopeDepth, broker.ScopeWildcard, broker.ScopeHistory}
	for i, name := range usernames() {
		rights := []broker.Entitlement{{Market: "*", Trades: true, Quotes: true, Depth: -1}}
		scopes := all
		if name == "shallow" {
			rights[0].Depth, scopes = 1, []string{broker.ScopeRead, broker.ScopeDepth}
		}
		_, err := users.Add(ctx, local.NewUser{
			Username: name, Password: passwordOf(name), WeakPassword: true, Scopes: scopes, Entitlements: rights,
			Limits: broker.Limits{Connections: 2_000},
		})
		if err == nil && i < 2 {
			_, err = users.AddAccount(ctx, name, broker.Account{ID: "ac_" + name, Number: fmt.Sprint(1000 + i)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// figures are the resources that a process uses.
type figures struct {
	Goroutines int
	Files      int
	Heap       uint64 // bytes in use after a collection
	Open       int    // connections of the stream
	Waiting    int    // unauthenticated ones among them
}

// answer executes the commands of the test, one a line.
func answer(ctx context.Context, folder string, data *gateway.Data, g *gateway.Gateway, more extra, admin *atomic.Value, stop func()) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		word, name, _ := strings.Cut(in.Text(), " ")
		var err error
		switch word {
		case "figures":
			runtime.GC()
			debug.FreeOSMemory()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			_ = json.NewEncoder(os.Stdout).Encode(figures{runtime.NumGoroutine(), len(openFiles()), m.HeapAlloc, g.Stats().Open, g.Stats().Unauthenticated})
			continue
		case "files":
			fmt.Println(strings.Join(openFiles(), " "))
			continue
		case "admin":
			fmt.Println(admin.Load())
			continue
		case "feed":
			fmt.Println(more.lines.Addr())
			continue
		case "failures":
			fmt.Println(more.directory.failures(name))
			continue
		case "disable":
			err = data.Users.Disable(ctx, name)
		case "ungrant":
			err = ungrant(ctx, folder, name)
		case "password":
			err = data.Users.SetPassword(ctx, name, passwordOf(name)+" new")
		case "full", "space":
			err = setDiskLimit(word == "space")
		case "end":
			stop()
		default:
			err = fmt.Errorf("unknown word %q", word)
		}
		fmt.Println("done", err)
	}
}

// openFiles returns the names of open files, except for those of the database. Its connection pool
// opens files when they are first needed and keeps them.
func openFiles() []string {
	entries, _ := os.ReadDir("/proc/self/fd")
	var names []string
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.Contains(to, "rueda.db") {
			names = append(names, to)
		}
	}
	slices.Sort(names)
	return names
}

// server is a gateway process.
type server struct {
	settings
	address string
	cmd     *exec.Cmd
	out     *bufio.Reader
	in      io.WriteCloser
	log     *logBuffer

	mu     sync.Mutex // guards in, out and what follows
	logins map[string]tokens
}

type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start starts a gateway that ends with the test.
func start(t testing.TB, set settings) *server {
	t.Helper()
	if set.Folder == "" {
		set.Folder = t.TempDir()
	}
	writeUsers(t, set.Folder)
	if set.TLS {
		writeCertificate(t, set.Folder)
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{settings: set, log: &logBuffer{}, logins: map[string]tokens{}}
	s.cmd = exec.Command(os.Args[0])
	s.cmd.Env = append(os.Environ(), serverVariable+"="+string(text))
	s.cmd.Stderr = s.log
	out, err1 := s.cmd.StdoutPipe()
	in, err2 := s.cmd.StdinPipe()
	if err := errors.Join(err1, err2, s.cmd.Start()); err != nil {
		t.Fatal(err)
	}
	s.out, s.in = bufio.NewReader(out), in
	t.Cleanup(func() { s.stop(t) })
	line, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatalf("the gateway did not start: %v\n%s", err, s.log)
	}
	s.address = strings.TrimSpace(line)
	return s
}

// stop ends the process in order and fails the test if it has logged a panic.
func (s *server) stop(t testing.TB) {
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the gateway ended with %v\n%s", err, s.log)
	}
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, "panic") {
			t.Errorf("panic in the log: %s", line)
		}
	}
}

// ask sends a command to the process and returns its answer.
func (s *server) ask(t testing.TB, what string) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := fmt.Fprintln(s.in, what); err != nil {
		t.Fatal(err)
	}
	line, err := s.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v\n%s", what, err, s.log)
	}
	return line
}

func (s *server) figures(t testing.TB) (f figures) {
	t.Helper()
	if err := json.Unmarshal([]byte(s.ask(t, "figures")), &f); err != nil {
		t.Fatal(err)
	}
	return f
}

func writeCertificate(t testing.TB, folder string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, &x509.Certificate{Subject: pkix.Name{CommonName: "localhost"}}, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// dial connects from a given address, because limits count addresses.
func (s *server) dial(from string) (net.Conn, error) {
	d := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	nc, err := d.Dial("tcp", s.address)
	if err != nil || !s.TLS {
		return nc, err
	}
	c := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err := c.Handshake(); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return c, nil
}

// plain connects without TLS, even to a server with TLS.
func (a *attacker) plain() (net.Conn, error) {
	d := net.Dialer{Timeout: 30 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(a.from())}}
	return d.Dial("tcp", a.address)
}

// ungrant removes a user's rights to market data, as another process with the same database would.
func ungrant(ctx context.Context, folder, name string) error {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(folder, "rueda.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, `UPDATE users SET entitlements = '[]' WHERE username = ?`, name)
	return errors.Join(err, db.Close())
}
