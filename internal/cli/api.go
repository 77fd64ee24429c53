package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// api is the REST side of a gateway, as far as logging in goes.
type api struct {
	base   *url.URL
	client *http.Client
}

// tokens are the answer of a login or a refresh.
type tokens struct {
	access  string
	refresh string
	renew   time.Time // a good time to refresh: most of the access token's life is over
}

// refusal is an error that the server answered with.
type refusal struct {
	Status int
	Reason wire.Reason
	Msg    string
	Wait   time.Duration // asked for by the server; 0: not told
}

func (r *refusal) Error() string {
	if r.Msg == "" {
		return fmt.Sprintf("the server answered %d", r.Status)
	}
	return fmt.Sprintf("%s: %s", r.Reason, r.Msg)
}

// newAPI checks the address of a gateway; that of its stream will do. A password goes in the
// open to this machine only.
func newAPI(address string) (*api, error) {
	const advice = "It looks like http://127.0.0.1:8080 or https://api.broker.example"
	u, err := url.Parse(address)
	if err == nil && u.Host != "" && (u.Scheme == "ws" || u.Scheme == "wss") {
		u.Scheme = "http" + strings.TrimPrefix(u.Scheme, "ws")
	}
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return nil, fail(exitUsage, fmt.Errorf("%q is not the address of a gateway", address), cmp.Or(withScheme(address), advice))
	}
	if u.Scheme == "http" && !isThisMachine(u.Hostname()) {
		return nil, fail(exitUsage, fmt.Errorf("%s would carry the password in the open", address), "Use https://"+u.Host)
	}
	u.Path = strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/stream"), "/")
	return &api{base: u, client: &http.Client{Timeout: 30 * time.Second}}, nil
}

// withScheme is the advice for an address that lacks http:// alone; "" for others.
func withScheme(address string) string {
	if strings.Contains(address, "://") {
		return ""
	}
	scheme := "https://"
	if u, err := url.Parse("http://" + address); err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return ""
	} else if isThisMachine(u.Hostname()) {
		scheme = "http://"
	}
	return "It lacks the scheme: " + scheme + address
}

// plain says of a connection that failed what happened, without the names of libraries and calls.
func plain(err error) error {
	var unknown *net.DNSError
	var slow net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, net.ErrClosed):
		return errors.New("connection broken")
	case errors.As(err, &unknown) && unknown.IsNotFound:
		return fmt.Errorf("there is no host %s", unknown.Name)
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &slow) && slow.Timeout():
		return errors.New("no answer in time")
	}
	return err
}

func isThisMachine(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// stream is the address of the WebSocket.
func (a *api) stream() string {
	u := *a.base
	u.Scheme = "ws" + strings.TrimPrefix(u.Scheme, "http")
	u.Path += "/stream"
	return u.String()
}

func (a *api) login(ctx context.Context, username, password string) (tokens, error) {
	return a.grant(ctx, map[string]string{"grant_type": wire.GrantPassword, "username": username, "password": password})
}

func (a *api) refresh(ctx context.Context, token string) (tokens, error) {
	return a.grant(ctx, map[string]string{"grant_type": wire.GrantRefresh, "refresh_token": token})
}

const maxAnswer = 1 << 20

// grant asks the token endpoint. The error is a *refusal where the server answered.
func (a *api) grant(ctx context.Context, body map[string]string) (tokens, error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return tokens{}, err
	}
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base.String()+"/auth/token", bytes.NewReader(payload))
	if err != nil {
		return tokens{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", userAgent())
	resp, err := a.client.Do(req)
	if err != nil {
		return tokens{}, plain(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return tokens{}, err
	}
	var answer struct {
		Data struct {
			Access    string `json:"access_token"`
			Refresh   string `json:"refresh_token"`
			ExpiresIn int64  `json:"expires_in"`
		} `json:"data"`
		Error struct {
			Reason wire.Reason `json:"reason"`
			Msg    string      `json:"msg"`
		} `json:"error"`
	}
	err = json.Unmarshal(text, &answer)
	if resp.StatusCode != http.StatusOK {
		wait, _ := time.ParseDuration(resp.Header.Get("Retry-After") + "s")
		return tokens{}, &refusal{Status: resp.StatusCode, Reason: answer.Error.Reason, Msg: answer.Error.Msg, Wait: wait}
	}
	if err != nil || answer.Data.Access == "" {
		return tokens{}, errors.New("the answer of " + a.base.String() + " is not that of a gateway")
	}
	life := time.Duration(answer.Data.ExpiresIn) * time.Second
	return tokens{access: answer.Data.Access, refresh: answer.Data.Refresh, renew: began.Add(life * 8 / 10)}, nil
}

func userAgent() string { return "rueda-watch/" + readBuild().Version }
