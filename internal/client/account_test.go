package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestAccess checks that Access returns the current token, then one from the refresh token, then
// one from the password.
func TestAccess(t *testing.T) {
	var asked []string // kinds of grants; requests are sequential
	refused := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Grant string `json:"grant_type"`
		}
		_ = json.NewDecoder(r.Body).Decode(&q)
		asked = append(asked, q.Grant)
		if refused[q.Grant] {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"reason":"invalid_credentials","msg":"Wrong username or password"}}`)
			return
		}
		fmt.Fprintf(w, `{"data":{"access_token":"access-%d","refresh_token":"refresh","expires_in":3600}}`, len(asked))
	}))
	defer server.Close()
	api, err := New(server.URL, "test/1")
	if err != nil {
		t.Fatal(err)
	}
	defer api.Client.CloseIdleConnections()
	a := &Account{API: api, Username: "ana", Password: "canary"}
	for i, step := range []struct {
		spent bool
		no    string // this grant is rejected from now on
		want  string // "": an error
		asked int
	}{
		{want: "access-1", asked: 1},
		{want: "access-1", asked: 1},
		{spent: true, want: "access-2", asked: 2},
		{spent: true, no: "refresh_token", want: "access-4", asked: 4},
		{spent: true, no: "password", asked: 6},
	} {
		if step.spent {
			a.Invalidate()
		}
		if step.no != "" {
			refused[step.no] = true
		}
		got, err := a.Access(t.Context())
		var r *ResponseError
		if got != step.want || len(asked) != step.asked || (err != nil) != (step.want == "") || err != nil && (!errors.As(err, &r) || r.Status != 401) {
			t.Errorf("step %d: %q, %v after %v", i, got, err, asked)
		}
	}
	server.Close()
	if _, err := a.Access(t.Context()); err == nil || err.Error() != "connection refused" {
		t.Errorf("without the server: %v", err)
	}
}

// TestResponseError checks how errors of the server are read, over REST and when the stream is
// opened.
func TestResponseError(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "12")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"success":false,"error":{"code":429,"reason":"rate_limited","msg":"Too many requests","hint":"Ask less often."}}`)
	}))
	defer server.Close()
	api, err := New(server.URL, "test/1")
	if err != nil {
		t.Fatal(err)
	}
	defer api.Client.CloseIdleConnections()
	_, login := api.Login(t.Context(), "ana", "canary", "")
	_, get := api.Get("token")(t.Context(), "/market/markets")
	_, dial := api.Dial(t.Context())
	for _, err := range []error{login, get, dial} {
		var r *ResponseError
		if !errors.As(err, &r) || r.Status != 429 || r.Error() != "rate_limited: Too many requests" || r.Hint != "Ask less often." || r.Advice() != "Try again in 12 s." {
			t.Errorf("%v: %+v", err, r)
		}
	}
}
