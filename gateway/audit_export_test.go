package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker/httpusers"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/base/audit"
)

// collector is a web service that receives the audit log. Until it is up, it answers nothing.
type collector struct {
	*testing.T
	secret []byte
	up     chan struct{}
	mu     sync.Mutex
	heads  map[int64]string
	kinds  map[string]int
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	select {
	case <-c.up:
	case <-r.Context().Done():
		return
	}
	if err == nil {
		_, err = httpusers.Verify(c.secret, r, body, time.Now())
	}
	if err != nil {
		c.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for lines := bufio.NewScanner(strings.NewReader(string(body))); lines.Scan(); {
		var row struct {
			Seq        int64
			Kind, Hash string
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			c.Error(err)
		}
		if old := c.heads[row.Seq]; old != "" && old != row.Hash {
			c.Errorf("row %d has two hashes", row.Seq)
		} else if old == "" {
			c.kinds[row.Kind]++
		}
		c.heads[row.Seq] = row.Hash
	}
}

// await waits until all rows up to the newest one are there, and compares it with the log.
func (c *collector) await(data *Data) {
	c.Helper()
	rows, err := data.db.Store.AuditLast(c.Context(), 1, "", "")
	if err != nil || len(rows) != 1 {
		c.Fatal(rows, err)
	}
	last := rows[0]
	for range 6000 {
		c.mu.Lock()
		hash, n := c.heads[last.Seq], int64(len(c.heads))
		c.mu.Unlock()
		if hash != "" {
			if n < last.Seq || hash != fmt.Sprintf("%x", last.Hash[:]) {
				c.Errorf("%d rows, hash of row %d %s; want %x", n, last.Seq, hash, last.Hash)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.Fatalf("row %d was not received", last.Seq)
}

// TestThreat34Export sends the audit log to a web service that is dead at first: logins are
// answered meanwhile. When it works, it gets all rows, those after a restart too.
func TestThreat34Export(t *testing.T) {
	t.Parallel()
	data, err := OpenData(t.Context(), DataConfig{Folder: t.TempDir(), PasswordWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	if _, err := data.Users.Add(t.Context(), local.NewUser{Username: "maria", Password: "a long password of hers"}); err != nil {
		t.Fatal(err)
	}
	c := &collector{T: t, secret: []byte(strings.Repeat("s", 32)), up: make(chan struct{}), heads: map[int64]string{}, kinds: map[string]int{}}
	server := httptest.NewServer(c)
	defer server.Close()
	cfg := Config{
		Data: data, Listen: "127.0.0.1:0", Drain: time.Millisecond, Logger: slog.New(slog.DiscardHandler),
		Audit: Audit{Webhook: AuditWebhook{URL: server.URL + "/audit", Secret: c.secret}},
	}
	const logins = 5
	for run := range 2 {
		ready, ended := make(chan Bound, 1), make(chan error, 1)
		cfg.OnReady = func(b Bound) { ready <- b }
		g, err := New(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- g.Run(ctx) }()
		b := <-ready
		for range logins {
			answer, err := http.Post(b.REST+"/auth/token", "application/json", strings.NewReader(`{"grant_type":"password","username":"maria","password":"a long password of hers"}`))
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Errorf("a login answered %s", answer.Status)
			}
		}
		if run == 0 {
			c.mu.Lock()
			if len(c.heads) > 0 {
				t.Error("the service was not dead")
			}
			c.mu.Unlock()
			close(c.up)
		}
		c.await(data)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if c.kinds[string(audit.Login)] != 2*logins || c.kinds[string(audit.UserAdded)] != 1 || c.kinds[string(audit.Started)] != 2 {
		t.Errorf("%v", c.kinds)
	}
}

// TestAuditReceivers checks that a receiver that cannot work is an error of New.
func TestAuditReceivers(t *testing.T) {
	for _, bad := range []Audit{
		{Syslog: AuditSyslog{Format: "json"}}, {Syslog: AuditSyslog{Address: "smtp://h"}}, {Webhook: AuditWebhook{URL: "https://h/"}},
		{Webhook: AuditWebhook{Secret: make([]byte, 32)}},
	} {
		if _, err := New(t.Context(), Config{Listen: "127.0.0.1:0", Audit: bad}); err == nil || !strings.Contains(err.Error(), "send the audit log to") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}
