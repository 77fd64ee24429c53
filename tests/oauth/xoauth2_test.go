package oauth

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

func TestXOAuth2(t *testing.T) {
	rest := start(t)
	for name, style := range map[string]oauth2.AuthStyle{"detected": oauth2.AuthStyleAutoDetect, "in the header": oauth2.AuthStyleInHeader, "in the form": oauth2.AuthStyleInParams} {
		t.Run(name, func(t *testing.T) {
			config := oauth2.Config{ClientID: "any", ClientSecret: "any", Endpoint: oauth2.Endpoint{TokenURL: rest + "/oauth/token", AuthStyle: style}}
			login, err := config.PasswordCredentialsToken(t.Context(), username, password)
			if err != nil {
				t.Fatal(err)
			}
			if left := time.Until(login.Expiry); !login.Valid() || login.Type() != "Bearer" || left < 23*time.Hour || left > 24*time.Hour {
				t.Errorf("token of type %s, for %v", login.Type(), left)
			}
			if scope := login.Extra("scope"); scope != "accounts:read marketdata:read" {
				t.Errorf("scope %v", scope)
			}
			if status := accounts(t, config.Client(t.Context(), login), rest); status != http.StatusOK {
				t.Errorf("accounts: %d", status)
			}

			// An expired token is refreshed automatically.
			old := *login
			old.Expiry = time.Now().Add(-time.Minute)
			source := config.TokenSource(t.Context(), &old)
			renewed, err := source.Token()
			if err != nil {
				t.Fatal(err)
			}
			if renewed.AccessToken == login.AccessToken || renewed.RefreshToken == login.RefreshToken || !renewed.Valid() {
				t.Error("the token was not renewed")
			}
			if status := accounts(t, oauth2.NewClient(t.Context(), source), rest); status != http.StatusOK {
				t.Errorf("accounts by the renewed token: %d", status)
			}
		})
	}
}

// TestXOAuth2Errors checks that failures become errors of the library.
func TestXOAuth2Errors(t *testing.T) {
	rest := start(t)
	config := oauth2.Config{ClientID: "any", Endpoint: oauth2.Endpoint{TokenURL: rest + "/oauth/token", AuthStyle: oauth2.AuthStyleInParams}}
	refused := func(err error, status int, code, reason string) {
		t.Helper()
		var e *oauth2.RetrieveError
		if !errors.As(err, &e) {
			t.Fatalf("got %v", err)
		}
		if e.Response.StatusCode != status || e.ErrorCode != code || e.ErrorDescription == "" || !strings.Contains(string(e.Body), `"reason":"`+reason+`"`) {
			t.Errorf("got %d %s (%s): %s", e.Response.StatusCode, e.ErrorCode, e.ErrorDescription, e.Body)
		}
		if status == http.StatusTooManyRequests && e.Response.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
	}
	_, err := config.TokenSource(t.Context(), &oauth2.Token{RefreshToken: "nobodys"}).Token()
	refused(err, http.StatusBadRequest, "invalid_grant", "invalid_refresh_token")
	_, err = config.PasswordCredentialsToken(t.Context(), "", password)
	refused(err, http.StatusBadRequest, "invalid_request", "invalid_request")
	for range 5 {
		_, err = config.PasswordCredentialsToken(t.Context(), username, "wrong")
		refused(err, http.StatusBadRequest, "invalid_grant", "invalid_credentials")
	}
	// The account waits 1 s now, and twice as long after each further failure. A slow machine may
	// have some more failures before it is refused.
	for range 10 {
		var e *oauth2.RetrieveError
		if _, err = config.PasswordCredentialsToken(t.Context(), username, "wrong"); errors.As(err, &e) && e.Response.StatusCode == http.StatusTooManyRequests {
			break
		}
	}
	refused(err, http.StatusTooManyRequests, "slow_down", "too_many_failures")
}

// accounts requests the accounts and returns the status.
func accounts(t *testing.T, client *http.Client, rest string) int {
	t.Helper()
	answer, err := client.Get(rest + "/broker/accounts")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode
}
