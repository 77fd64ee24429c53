package ruedatest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/wire"
)

// users is a user base with one user, who sees all market data and has one account.
type users struct {
	username, password string
	scopes             []string // nil: all
}

// Authenticate implements broker.Users.
func (u users) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	if login.Username != u.username || login.Password != u.password {
		return broker.User{}, broker.ErrInvalidCredentials
	}
	return u.User(ctx, "1")
}

// User implements broker.Users.
func (u users) User(_ context.Context, id string) (broker.User, error) {
	if id != "1" {
		return broker.User{}, broker.ErrNotFound
	}
	scopes := u.scopes
	if scopes == nil {
		scopes = []string{
			broker.ScopeAccounts, broker.ScopeRead, broker.ScopeDepth, broker.ScopeWildcard, broker.ScopeHistory, broker.ScopeAdmin,
		}
	}
	return broker.User{
		ID: "1", Username: u.username, Version: 1, Scopes: scopes,
		Entitlements: []broker.Entitlement{{Market: "*", Trades: true, Quotes: true, Depth: -1}},
	}, nil
}

// ListAccounts implements broker.Accounts.
func (users) ListAccounts(context.Context, string) ([]broker.Account, error) {
	return []broker.Account{{ID: "ac_1", Number: "123456", Type: "cash", Status: "active", Currency: "ARS", IsDefault: true}}, nil
}

// token logs in as the user and returns an access token.
func (s *Server) token(ctx context.Context) (string, error) {
	form := url.Values{"grant_type": {wire.GrantPassword}, "username": {s.Username}, "password": {s.Password}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct {
		Access string `json:"access_token"`
	}
	err = json.NewDecoder(resp.Body).Decode(&answer)
	if err == nil && answer.Access == "" {
		err = fmt.Errorf("log in: %s", resp.Status)
	}
	return answer.Access, err
}
