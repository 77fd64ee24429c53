package httpusers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/base/certificate"
)

// Config configures Users. URL is required, and so is a Secret or a Certificate.
type Config struct {
	URL    string // https://login.broker.example/rueda; paths are appended
	Secret []byte // signs requests, at least MinSecret bytes; empty: no signature

	Certificate string // client certificate and key files, read for each connection; "": none
	Key         string
	Authorities string // file of CA certificates; "": those of the system
}

// Users reads users and accounts from a web service.
type Users struct {
	url    string
	secret []byte
	dial   func(context.Context) (net.Conn, error) // connects to the service
	client *http.Client
}

// maxBody is the maximum size of a response, in bytes.
const maxBody = 64 << 10

// New returns Users. It reads the files but does not connect.
func New(cfg Config) (*Users, error) {
	at, err := checkURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	switch {
	case len(cfg.Secret) == 0 && cfg.Certificate == "":
		return nil, errors.New("requests are neither signed nor sent with a certificate: a secret or a certificate is needed")
	case len(cfg.Secret) != 0 && len(cfg.Secret) < MinSecret:
		return nil, fmt.Errorf("the secret has %d bytes, fewer than %d", len(cfg.Secret), MinSecret)
	case (cfg.Certificate == "") != (cfg.Key == ""):
		return nil, errors.New("certificate and key go together")
	case at.Scheme == "http" && cfg.Certificate != "":
		return nil, errors.New("a client certificate needs https")
	}
	security, err := certificate.ClientConfig(cfg.Certificate, cfg.Key, cfg.Authorities)
	if err != nil {
		return nil, err
	}
	dialer := &net.Dialer{Timeout: 2 * time.Second, KeepAlive: 15 * time.Second}
	return &Users{
		url:    strings.TrimSuffix(at.String(), "/"),
		secret: cfg.Secret,
		dial: func(ctx context.Context) (net.Conn, error) {
			address := net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), at.Scheme)) // the scheme is the name of its port
			if at.Scheme == "https" {
				return (&tls.Dialer{NetDialer: dialer, Config: security}).DialContext(ctx, "tcp", address)
			}
			return dialer.DialContext(ctx, "tcp", address)
		},
		client: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext:            dialer.DialContext,
				TLSClientConfig:        security,
				ForceAttemptHTTP2:      true,
				DisableCompression:     true,
				MaxIdleConnsPerHost:    64,
				IdleConnTimeout:        time.Minute,
				TLSHandshakeTimeout:    2 * time.Second,
				MaxResponseHeaderBytes: 16 << 10,
			},
		},
	}, nil
}

func checkURL(text string) (*url.URL, error) {
	at, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("the URL is none") // Parse's error quotes it
	}
	switch {
	case at.User != nil:
		return nil, errors.New("the URL holds a user or password")
	case at.RawQuery != "" || at.Fragment != "":
		return nil, errors.New("the URL holds a query or fragment")
	case at.Hostname() == "":
		return nil, errors.New("the URL names no host")
	case at.Scheme != "https" && at.Scheme != "http":
		return nil, fmt.Errorf("the URL begins with %q, not with https", at.Scheme)
	case at.Scheme == "http" && !isLoopback(at.Hostname()):
		return nil, errors.New("http would carry passwords in the open: the URL must be https")
	}
	return at, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Close closes idle connections. It returns nil.
func (u *Users) Close() error {
	u.client.CloseIdleConnections()
	return nil
}

// Check connects to the service once, without a request. The error wraps broker.ErrUnavailable.
func (u *Users) Check(ctx context.Context) error {
	conn, err := u.dial(ctx)
	if err != nil {
		return fmt.Errorf("%w: connect to the login service: %w", broker.ErrUnavailable, err)
	}
	_ = conn.Close()
	return nil
}

// Authenticate implements broker.Users.
func (u *Users) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	if login.Password == "" || login.Username == "" || len(login.Username) > maxUsername || len(login.Password) > maxPassword {
		return broker.User{}, broker.ErrInvalidCredentials
	}
	question := struct {
		Username string `json:"username"`
		Password string `json:"password"`
		OTP      string `json:"otp,omitempty"`
		Address  string `json:"address,omitempty"`
		Client   string `json:"client,omitempty"`
	}{Username: login.Username, Password: login.Password, OTP: login.OTP, Client: login.Client}
	if login.Address.IsValid() {
		question.Address = login.Address.Unmap().String()
	}
	// JSON cannot contain invalid UTF-8; the service would get other bytes.
	if !isText(login.Username, login.Password, login.OTP) {
		return broker.User{}, broker.ErrInvalidCredentials
	}
	user, err := u.user(ctx, "/authenticate", question)
	if errors.Is(err, broker.ErrDisabled) {
		return broker.User{}, broker.ErrInvalidCredentials
	}
	if errors.Is(err, broker.ErrNotFound) {
		return broker.User{}, unavailable("/authenticate", errors.New("404 is no answer to a login"))
	}
	if err == nil && !broker.SameName(user.Username, login.Username) { // the service treats different names as equal
		return broker.User{ID: user.ID}, broker.ErrInvalidCredentials
	}
	return user, err
}

// User implements broker.Users.
func (u *Users) User(ctx context.Context, id string) (broker.User, error) {
	if id == "" || len(id) > maxID || !isText(id) {
		return broker.User{}, broker.ErrNotFound
	}
	user, err := u.user(ctx, "/user", struct {
		ID string `json:"id"`
	}{id})
	switch {
	case errors.Is(err, broker.ErrInvalidCredentials), errors.Is(err, broker.ErrSecondFactor):
		return broker.User{}, unavailable("/user", errors.New("the answer is one to a login"))
	case err == nil && user.ID != id:
		return broker.User{}, badAnswer("/user", errors.New("the answer is about another user"))
	}
	return user, err
}

func (u *Users) user(ctx context.Context, path string, question any) (broker.User, error) {
	body, err := u.ask(ctx, path, question)
	if err != nil {
		return broker.User{}, err
	}
	var a struct {
		ID           string          `json:"id"`
		Username     string          `json:"username"`
		Version      *int64          `json:"version"`
		Scopes       []string        `json:"scopes"`
		Entitlements json.RawMessage `json:"entitlements"`
		Limits       json.RawMessage `json:"limits"`
		Networks     []string        `json:"networks"`
		Expires      time.Time       `json:"expires_at"`
	}
	if err := decode(body, &a); err != nil {
		return broker.User{}, badAnswer(path, err)
	}
	if a.Version == nil {
		return broker.User{}, badAnswer(path, errors.New("the user has no version"))
	}
	user := broker.User{ID: a.ID, Username: a.Username, Version: *a.Version, Scopes: a.Scopes, Expires: a.Expires.UTC()}
	user.Networks, err = broker.ParseNetworks(a.Networks)
	// An unknown member of a right may be a misspelled restriction.
	err = errors.Join(err, decodeStrict(a.Entitlements, &user.Entitlements), decodeStrict(a.Limits, &user.Limits))
	if err == nil {
		err = user.Check()
	}
	if err != nil {
		return broker.User{}, badAnswer(path, err)
	}
	if user.Ended(time.Now()) {
		return broker.User{}, broker.ErrDisabled
	}
	return user, nil
}

// ListAccounts implements broker.Accounts.
func (u *Users) ListAccounts(ctx context.Context, userID string) ([]broker.Account, error) {
	if userID == "" || len(userID) > maxID || !isText(userID) {
		return []broker.Account{}, nil
	}
	body, err := u.ask(ctx, "/accounts", struct {
		UserID string `json:"user_id"`
	}{userID})
	switch {
	case errors.Is(err, broker.ErrNotFound), errors.Is(err, broker.ErrDisabled):
		return []broker.Account{}, nil
	case errors.Is(err, broker.ErrInvalidCredentials), errors.Is(err, broker.ErrSecondFactor):
		return nil, unavailable("/accounts", errors.New("the answer is one to a login"))
	case err != nil:
		return nil, err
	}
	var a struct {
		Accounts []broker.Account `json:"accounts"`
	}
	if err := decode(body, &a); err != nil {
		return nil, badAnswer("/accounts", err)
	}
	if a.Accounts == nil {
		return nil, badAnswer("/accounts", errors.New("there is no list of accounts"))
	}
	seen := map[string]bool{}
	for i := range a.Accounts {
		if err := a.Accounts[i].Check(); err != nil {
			return nil, badAnswer("/accounts", err)
		}
		if id := a.Accounts[i].ID; seen[id] {
			return nil, badAnswer("/accounts", fmt.Errorf("two accounts have the id %q", id))
		}
		seen[a.Accounts[i].ID] = true
	}
	return a.Accounts, nil
}

// ask sends a request and returns the body of a 200, or the error that a refusal means.
func (u *Users) ask(ctx context.Context, path string, question any) ([]byte, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return nil, unavailable(path, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, unavailable(path, err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "rueda")
	if len(u.secret) > 0 {
		SignRequest(u.secret, request, body, time.Now())
	}
	answer, err := u.client.Do(request)
	if err != nil {
		return nil, unavailable(path, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, unavailable(path, err)
	case path == "/authenticate" && (answer.StatusCode == http.StatusBadRequest || answer.StatusCode == http.StatusUnprocessableEntity):
		return nil, broker.ErrInvalidCredentials // caused by the input, not an outage
	case !isJSON(answer.Header.Get("Content-Type")):
		return nil, unavailable(path, fmt.Errorf("%d with an answer that is not application/json", answer.StatusCode))
	case len(text) > maxBody && answer.StatusCode == http.StatusOK:
		return nil, badAnswer(path, fmt.Errorf("an answer of over %d bytes", maxBody))
	case len(text) > maxBody:
		return nil, unavailable(path, fmt.Errorf("an answer of over %d bytes", maxBody))
	case answer.StatusCode == http.StatusOK:
		return text, nil
	}
	return nil, refusal(path, answer.StatusCode, text)
}

// Refused is a response that is neither a result nor a known refusal. It is an outage, with the
// reason of the service if it gave one.
type Refused struct {
	Status int
	Reason string // at most 40 letters and underscores; "": none
	path   string
}

func (r *Refused) Error() string {
	said := "without a reason that goes with it"
	if r.Reason != "" {
		said = strconv.Quote(r.Reason)
	}
	return fmt.Sprintf("the login service answered %d %s to %s", r.Status, said, r.path)
}

// refusal returns the error of a status other than 200. Without a reason the response may come from
// a proxy.
func refusal(path string, status int, text []byte) error {
	var a struct {
		Reason string `json:"reason"`
	}
	if decodeObject(text, &a, true) == nil {
		switch {
		case status == http.StatusUnauthorized && a.Reason == "invalid_credentials":
			return broker.ErrInvalidCredentials
		case status == http.StatusUnauthorized && a.Reason == "wrong_otp":
			return broker.ErrWrongOTP
		case status == http.StatusForbidden && a.Reason == "mfa_required":
			return broker.ErrSecondFactor
		case status == http.StatusNotFound && a.Reason == "not_found":
			return broker.ErrNotFound
		case status == http.StatusLocked && a.Reason == "disabled":
			return broker.ErrDisabled
		}
	}
	r := &Refused{Status: status, path: path}
	if json.Unmarshal(text, &a) == nil && len(a.Reason) <= maxReason && strings.Trim(a.Reason, "abcdefghijklmnopqrstuvwxyz_") == "" {
		r.Reason = a.Reason // other text may contain user input
	}
	return fmt.Errorf("%w: %w", broker.ErrUnavailable, r)
}

// maxReason is the maximum length of a reported reason, in bytes.
const maxReason = 40

func isJSON(contentType string) bool {
	kind, params, err := mime.ParseMediaType(contentType)
	return err == nil && kind == "application/json" && (params["charset"] == "" || strings.EqualFold(params["charset"], "utf-8"))
}

func unavailable(path string, err error) error {
	return fmt.Errorf("%w: ask the login service for %s: %w", broker.ErrUnavailable, path, err)
}

// badAnswer is the error of an answer with status 200 that cannot be read. The service works: the
// record of one user is wrong.
func badAnswer(path string, err error) error {
	return fmt.Errorf("%w: the login service's answer to %s: %w", broker.ErrBadUser, path, err)
}
