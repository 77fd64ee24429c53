package config

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/feedtest"
	"github.com/ruedahq/rueda/internal/base/certificate/certtest"
)

// tokenFeed is a running feed with a token file and client certificates.
type tokenFeed struct {
	*testing.T
	address string
}

func startTokenFeed(t *testing.T, c *feedConfig, folder string) *tokenFeed {
	t.Helper()
	doc := &document{file: filepath.Join(folder, "rueda.toml")}
	source, err := c.lines(doc, "feed[0]", nil, slog.New(slog.DiscardHandler))
	if err != nil || doc.err() != nil {
		t.Fatal(err, doc.err())
	}
	lines := source.(interface {
		feed.Source
		Listen(context.Context) error
		Addr() net.Addr
	})
	if err := lines.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- lines.Run(ctx, &feedtest.Recorder{}) }()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return &tokenFeed{t, lines.Addr().String()}
}

// accepts reports whether a Hello with a token is accepted: the next line is answered as the second
// one.
func (f *tokenFeed) accepts(token string, with *tls.Config) bool {
	f.Helper()
	nc, err := net.Dial("tcp", f.address)
	if err != nil {
		f.Fatal(err)
	}
	defer nc.Close()
	if with != nil {
		nc = tls.Client(nc, with)
	}
	_ = nc.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(nc, `{"type":"Hello","token":"`+token+"\"}\nx\n") // the feed may have refused the certificate
	answer, err := bufio.NewReader(nc).ReadString('\n')
	return err == nil && strings.Contains(answer, "bad_json")
}

// within waits until a file was read again.
func (f *tokenFeed) within(what string, holds func() bool) {
	f.Helper()
	for range 1000 {
		if holds() {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	f.Errorf("%s: the files were not read again", what)
}

// TestFeedTokenIsReadAgain replaces the token of a feed while it runs. A file that cannot be used
// leaves the token as it is.
func TestFeedTokenIsReadAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	first, second, third := strings.Repeat("1", 32), strings.Repeat("2", 32), strings.Repeat("3", 33)
	name := filepath.Join(folder, "token")
	write(t, name, first+"\n")
	f := startTokenFeed(t, &feedConfig{Listen: "127.0.0.1:0", TokenFile: "token"}, folder)
	if !f.accepts(first, nil) || f.accepts(second, nil) || f.accepts("", nil) {
		t.Error("the first token")
	}
	write(t, name, second+"\n\n")
	f.within("the second token", func() bool { return f.accepts(second, nil) })
	if f.accepts(first, nil) {
		t.Error("the first token is accepted after it was replaced")
	}
	write(t, name, "short")
	write(t, name, third)
	f.within("the third token", func() bool { return f.accepts(third, nil) })
	if f.accepts("short", nil) || f.accepts(second, nil) {
		t.Error("another token than the third is accepted")
	}
}

// TestFeedAuthoritiesAreReadAgain replaces the authorities of the producers while a feed runs.
func TestFeedAuthoritiesAreReadAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	server := certtest.Write(t, folder, "feed")
	with := func(name string) (*tls.Config, string) {
		files := certtest.Write(t, t.TempDir(), name)
		pair, err := tls.LoadX509KeyPair(files.Certificate, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(files.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}}, string(text) //nolint:gosec // a certificate of the test
	}
	old, oldText := with("old")
	now, nowText := with("new")
	name := filepath.Join(folder, "producers.crt")
	write(t, name, oldText)
	f := startTokenFeed(t, &feedConfig{
		Listen: "127.0.0.1:0", Certificate: server.Certificate, Key: server.Key, ClientCA: "producers.crt",
	}, folder)
	if !f.accepts("", old) || f.accepts("", now) {
		t.Error("the first authority")
	}
	write(t, name, nowText+"\n")
	f.within("the second authority", func() bool { return f.accepts("", now) })
	if f.accepts("", old) {
		t.Error("a producer of the first authority is accepted")
	}
}

// TestThreat40RevokedProducer checks that a producer with a revoked certificate is refused, and
// that its connection ends when the certificate is revoked.
func TestThreat40RevokedProducer(t *testing.T) {
	t.Parallel()
	folder, year := t.TempDir(), time.Now().AddDate(1, 0, 0)
	server, authority := certtest.Write(t, folder, "feed"), certtest.NewAuthority(t, "producers")
	first, second := authority.Issue("first", year), authority.Issue("second", year)
	list := filepath.Join(folder, "producers.crl")
	revoke := func(revoked ...tls.Certificate) {
		write(t, list+".new", string(authority.Revoke(revoked)))
		if err := os.Rename(list+".new", list); err != nil {
			t.Fatal(err)
		}
	}
	with := func(pair tls.Certificate) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}} //nolint:gosec // a certificate of the test
	}
	revoke(first)
	f := startTokenFeed(t, &feedConfig{
		Listen: "127.0.0.1:0", Certificate: server.Certificate, Key: server.Key, ClientCA: authority.File, ClientCRL: "producers.crl",
	}, folder)
	if f.accepts("", with(first)) || !f.accepts("", with(second)) {
		t.Error("the first list")
	}
	producer, err := tls.Dial("tcp", f.address, with(second))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	_ = producer.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(producer, "{\"type\":\"Hello\"}\n"); err != nil {
		t.Fatal(err)
	}
	revoke(first, second)
	if _, err := io.Copy(io.Discard, producer); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection of a producer whose certificate was revoked does not end")
	}
	if f.accepts("", with(second)) {
		t.Error("the second list")
	}
}
