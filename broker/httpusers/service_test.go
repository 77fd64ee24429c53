package httpusers_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/brokertest"
	"github.com/ruedahq/rueda/broker/httpusers"
)

// service is a login service as a broker would write it: it checks signatures and has a few users.
type service struct {
	secret []byte // nil: no signatures

	mu       sync.Mutex
	people   map[string]*person // by username
	accounts map[string][]broker.Account
	nonces   map[string]time.Time

	connections atomic.Int64
	refused     atomic.Int64 // requests without access
}

type person struct {
	ID           string               `json:"id"`
	Username     string               `json:"username"`
	Version      int64                `json:"version"`
	Scopes       []string             `json:"scopes"`
	Entitlements []broker.Entitlement `json:"entitlements"`
	Limits       broker.Limits        `json:"limits"`
	Networks     []netip.Prefix       `json:"networks"`
	Expires      *time.Time           `json:"expires_at"`

	password, otp string
	used          bool // the one-time password was used
	disabled      bool
}

func newService(secret []byte) *service {
	account := func(id, number string) broker.Account {
		return broker.Account{ID: id, Number: number, Name: "Ana", Type: "cash", Status: "active", Currency: "ARS", Currencies: []string{"ARS"}}
	}
	return &service{
		secret: secret,
		nonces: map[string]time.Time{},
		people: map[string]*person{
			"ana": {
				ID: "u-1", Username: "ana", Version: 1, password: "correct horse", Scopes: []string{broker.ScopeRead, broker.ScopeAccounts},
				Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Depth: 10}}, Limits: broker.Limits{Connections: 3},
			},
			"bea":  {ID: "u-2", Username: "bea", Version: 1, password: "battery staple"},
			"carl": {ID: "u-3", Username: "carl", Version: 1, password: "out of order", disabled: true},
			"dora": {ID: "u-4", Username: "dora", Version: 1, password: "two things", otp: "123456"},
		},
		accounts: map[string][]broker.Account{"u-1": {account("a-1", "100001"), account("a-2", "100002")}},
	}
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<10))
	if err != nil || r.Method != http.MethodPost || !s.admitted(r, body) {
		s.refused.Add(1)
		reply(w, http.StatusForbidden, map[string]string{"reason": "bad_signature"})
		return
	}
	var question struct {
		Username, Password, OTP, Address, Client, ID string
		UserID                                       string `json:"user_id"`
	}
	if err := json.Unmarshal(body, &question); err != nil {
		reply(w, http.StatusBadRequest, map[string]string{"reason": "bad_json"})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/login/authenticate":
		p := s.people[question.Username]
		switch {
		case p == nil || p.password != question.Password:
			reply(w, http.StatusUnauthorized, map[string]string{"reason": "invalid_credentials"})
		case p.disabled:
			reply(w, http.StatusLocked, map[string]string{"reason": "disabled"})
		case p.otp != "" && question.OTP == "":
			reply(w, http.StatusForbidden, map[string]string{"reason": "mfa_required"})
		case p.otp != question.OTP || p.otp != "" && p.used:
			reply(w, http.StatusUnauthorized, map[string]string{"reason": "invalid_credentials"})
		default:
			p.used = true
			reply(w, http.StatusOK, p)
		}
	case "/login/user":
		for _, p := range s.people {
			switch {
			case p.ID != question.ID:
			case p.disabled:
				reply(w, http.StatusLocked, map[string]string{"reason": "disabled"})
				return
			default:
				reply(w, http.StatusOK, p)
				return
			}
		}
		reply(w, http.StatusNotFound, map[string]string{"reason": "not_found"})
	case "/login/accounts":
		list := s.accounts[question.UserID]
		if list == nil {
			list = []broker.Account{}
		}
		reply(w, http.StatusOK, map[string]any{"accounts": list})
	default:
		http.NotFound(w, r)
	}
}

// admitted checks the signature, and that the nonce is new.
func (s *service) admitted(r *http.Request, body []byte) bool {
	if s.secret == nil {
		return true
	}
	now := time.Now()
	nonce, err := httpusers.Verify(s.secret, r, body, now)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, at := range s.nonces {
		if now.Sub(at) > 2*httpusers.Window {
			delete(s.nonces, n)
		}
	}
	if _, again := s.nonces[nonce]; again {
		return false
	}
	s.nonces[nonce] = now
	return true
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (s *service) setPassword(_ context.Context, username, password string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.people[username].password = password
	s.people[username].Version++
	return nil
}

func (s *service) disable(_ context.Context, username string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.people[username].disabled = true
	return nil
}

// seed returns the users for brokertest.
func (s *service) seed(t *testing.T, users *httpusers.Users) brokertest.Base {
	t.Helper()
	t.Cleanup(func() { _ = users.Close() })
	return brokertest.Base{
		Users: users, Accounts: users,
		Trader:       brokertest.Login{ID: "u-1", Username: "ana", Password: "correct horse"},
		Other:        brokertest.Login{ID: "u-2", Username: "bea", Password: "battery staple"},
		Disabled:     brokertest.Login{ID: "u-3", Username: "carl", Password: "out of order"},
		SecondFactor: brokertest.Login{ID: "u-4", Username: "dora", Password: "two things"},
		OTP:          func() string { return "123456" },
		SetPassword:  s.setPassword,
		Disable:      s.disable,
		SetNetworks: func(_ context.Context, username string, networks []netip.Prefix) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.people[username].Networks = networks
			return nil
		},
		SetExpiry: func(_ context.Context, username string, at time.Time) error {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.people[username].Expires = &at
			if at.IsZero() {
				s.people[username].Expires = nil
			}
			return nil
		},
	}
}

// quiet discards the log of handshakes that must fail.
func quiet() *log.Logger { return log.New(io.Discard, "", 0) }
