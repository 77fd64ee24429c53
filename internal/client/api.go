package client

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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/wire"
)

// API is a gateway at an address.
type API struct {
	Base   *url.URL
	Client *http.Client // for REST
	Agent  string       // name and version of the program
}

// Tokens is the result of a login or a refresh.
type Tokens struct {
	Access  string
	Refresh string
	Renew   time.Time // when to refresh: after most of the access token's lifetime
}

// ResponseError is an error that the server answered with.
type ResponseError struct {
	Status int
	Reason wire.Reason
	Msg    string
	Hint   string        // what to do, in the server's words; may be empty
	Wait   time.Duration // requested by the server; 0: none
}

// responseError reads an error answer. If it is not from a gateway, only the status is known.
func responseError(resp *http.Response, text []byte) *ResponseError {
	var answer struct {
		Error struct {
			Reason wire.Reason `json:"reason"`
			Msg    string      `json:"msg"`
			Hint   string      `json:"hint"`
		} `json:"error"`
	}
	_ = json.Unmarshal(text, &answer)
	wait, _ := time.ParseDuration(resp.Header.Get("Retry-After") + "s") // a date is ignored
	return &ResponseError{Status: resp.StatusCode, Reason: answer.Error.Reason, Msg: answer.Error.Msg, Hint: answer.Error.Hint, Wait: wait}
}

// ParseError reads an Error message of the stream.
func ParseError(v *wire.Value) *ResponseError {
	member := func(name string) string { return v.Get(name).Text }
	code, _ := strconv.Atoi(member("code"))
	wait, _ := strconv.Atoi(member("retry_after"))
	return &ResponseError{
		Status: code, Reason: wire.Reason(member("reason")), Msg: member("msg"), Hint: member("hint"), Wait: time.Duration(wait) * time.Second,
	}
}

// Advice returns what the user can do about the error, "" if unknown.
func (r *ResponseError) Advice() string {
	switch {
	case r.Wait > 0:
		return fmt.Sprintf("Try again in %d s.", int(r.Wait.Seconds()))
	case r.Reason == "":
		return "The server at this address is not a gateway. Check the address, and any proxy in front of the gateway."
	}
	return r.Hint
}

func (r *ResponseError) Error() string {
	if r.Msg == "" {
		return fmt.Sprintf("the server answered %d", r.Status)
	}
	return fmt.Sprintf("%s: %s", r.Reason, r.Msg)
}

// AddressError is returned for an invalid address, with advice what to write instead.
type AddressError struct {
	Problem string
	Advice  string
}

func (e *AddressError) Error() string { return e.Problem }

// New returns an API for the address of a gateway or of its stream. It rejects addresses that would
// send a password unencrypted, except to this machine. agent is the name and version of the
// program. New returns an *AddressError.
func New(address, agent string) (*API, error) {
	const advice = "Use an address like http://127.0.0.1:8080 or https://api.broker.example"
	u, err := url.Parse(address)
	if err == nil && u.Host != "" && (u.Scheme == "ws" || u.Scheme == "wss") {
		u.Scheme = "http" + strings.TrimPrefix(u.Scheme, "ws")
	}
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" {
		return nil, &AddressError{fmt.Sprintf("%q is not the address of a gateway", address), cmp.Or(withScheme(address), advice)}
	}
	if u.Scheme == "http" && !isThisMachine(u.Hostname()) {
		return nil, &AddressError{fmt.Sprintf("%s would send the password unencrypted", address), "Use https://" + u.Host}
	}
	u.Path = strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/stream"), "/")
	return &API{Base: u, Client: &http.Client{Timeout: 30 * time.Second, CheckRedirect: stay}, Agent: agent}, nil
}

// stay follows no redirect, which would send passwords and tokens to another address, perhaps
// unencrypted.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// withScheme returns the advice for an address that only lacks its scheme, "" for others.
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
	return "The scheme is missing: " + scheme + address
}

// PlainError describes a failed connection without the names of libraries and system calls.
func PlainError(err error) error {
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

// IsLocal reports whether the gateway is on this machine.
func (a *API) IsLocal() bool { return isThisMachine(a.Base.Hostname()) }

func isThisMachine(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.Unmap().IsLoopback()
}

// Stream returns the address of the WebSocket.
func (a *API) Stream() string {
	u := *a.Base
	u.Scheme = "ws" + strings.TrimPrefix(u.Scheme, "http")
	u.Path += "/stream"
	return u.String()
}

// Login requests tokens with a password and, if otp is not empty, a one-time password. It returns a
// *ResponseError if the server rejects the request.
func (a *API) Login(ctx context.Context, username, password, otp string) (Tokens, error) {
	body := map[string]string{"grant_type": wire.GrantPassword, "username": username, "password": password}
	if otp != "" {
		body["otp"] = otp
	}
	return a.grant(ctx, body)
}

// Refresh requests tokens with a refresh token, which cannot be used again.
func (a *API) Refresh(ctx context.Context, token string) (Tokens, error) {
	return a.grant(ctx, map[string]string{"grant_type": wire.GrantRefresh, "refresh_token": token})
}

const maxAnswer = 1 << 20

// grant requests tokens. It returns a *ResponseError if the server rejects the request.
func (a *API) grant(ctx context.Context, body map[string]string) (Tokens, error) {
	payload, err := json.Marshal(body)
	if err != nil {
		return Tokens{}, err
	}
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.Base.String()+"/auth/token", bytes.NewReader(payload))
	if err != nil {
		return Tokens{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", a.Agent)
	resp, err := a.Client.Do(req)
	if err != nil {
		return Tokens{}, PlainError(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return Tokens{}, err
	}
	var answer struct {
		Data struct {
			Access    string `json:"access_token"`
			Refresh   string `json:"refresh_token"`
			ExpiresIn int64  `json:"expires_in"`
		} `json:"data"`
	}
	if resp.StatusCode != http.StatusOK {
		return Tokens{}, responseError(resp, text)
	}
	err = json.Unmarshal(text, &answer)
	if err != nil || answer.Data.Access == "" {
		return Tokens{}, errors.New("the answer of " + a.Base.String() + " is not from a gateway")
	}
	life := time.Duration(answer.Data.ExpiresIn) * time.Second
	return Tokens{Access: answer.Data.Access, Refresh: answer.Data.Refresh, Renew: began.Add(life * 8 / 10)}, nil
}
