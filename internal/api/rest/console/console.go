// Package console has the routes of the console, the web page of the gateway for users: a login
// whose refresh token only the browser has, and what the page needs to know before one.
//
// # The session
//
// POST /console/session logs in as POST /auth/token does, with the same limits and audit rows, and
// puts the refresh token into a cookie instead of the answer. The cookie is HttpOnly, so that no
// script reads it, SameSite=Strict, and ends with the browser. Over HTTPS its name has the prefix
// __Host-, so that no other host can set it. POST /console/session/refresh answers with a new
// access token and replaces the cookie. The presented token stays valid until a successor is used,
// so that several tabs may refresh at the same time. DELETE /console/session ends the login.
//
// Tokens of the console live for Page.Idle at most. A page renews them while somebody uses it.
//
// # Requests of other pages
//
// A browser attaches the cookie by itself, so every request must come from a page of the gateway's
// own origin (fromOwnPage). A refresh must name its login, which the page keeps in the storage of
// its origin. Without HTTPS, a page of a sibling domain can set cookies of the name, but it cannot
// write that storage. The console therefore never continues a login that it has not begun (session
// fixation). A logout names its login too, and succeeds only if it has ended that one.
package console

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/api/rest/api"
	"github.com/ruedahq/rueda/internal/engine/web"
	"github.com/ruedahq/rueda/internal/identity/auth"
	"github.com/ruedahq/rueda/wire"
)

// Header is a request header that every request for a session must have, with the value 1. Browsers
// send it for a page of another origin only after a preflight, which the gateway refuses.
const Header = "X-Rueda-Console"

// Path is the path of the routes for sessions. Without HTTPS it is also the path of the cookie.
const Path = "/console/session"

// Names of the cookie. Browsers accept hostCookieName only over HTTPS, from this host, and for all
// paths. Version 0.1.0 and development builds of 0.2.0 used oldCookieName, with the path Path.
const (
	cookieName     = "rueda_console"
	hostCookieName = "__Host-rueda_console"
	oldCookieName  = "__Secure-rueda_console"
)

const (
	maxBody   = 8 << 10
	maxTokens = 4 // refresh tokens that one request may use
)

// Config configures Routes. Auth is required.
type Config struct {
	Auth   *auth.Service
	Hosts  []string    // names of the gateway; see rest.Config
	Scheme string      // of pages of the gateway; see rest.Config
	Secure func() bool // whether browsers reach the gateway by HTTPS
	Page   Page        // for GET /console/config
}

// Page is what GET /console/config reports, before a login.
type Page struct {
	Dev  bool          `json:"dev"` // a development gateway, with faults on request
	Hint *Hint         `json:"hint,omitempty"`
	Idle time.Duration `json:"-"` // how long tokens of the console live at most
}

// Hint is a login that the page suggests to every visitor. Set it only if others cannot reach the
// gateway.
type Hint struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// Routes serves the routes of the console. Its methods are safe for concurrent use.
type Routes struct{ cfg Config }

// New returns Routes. It does not check cfg.
func New(cfg Config) *Routes { return &Routes{cfg} }

// session is the answer to POST /console/session and to a refresh.
type session struct {
	Access           string `json:"access_token"`
	Type             string `json:"token_type"`
	ExpiresIn        int64  `json:"expires_in"`         // seconds
	RefreshExpiresIn int64  `json:"refresh_expires_in"` // seconds
	Scope            string `json:"scope"`
	Session          string `json:"session"`      // id of the login
	Idle             int64  `json:"idle_timeout"` // seconds after which the page logs out without input
}

// Config serves GET /console/config.
func (c *Routes) Config(*api.Request) (api.Result, error) {
	b, err := json.Marshal(c.cfg.Page)
	return api.Result{Object: b}, err
}

// Begin serves POST /console/session, which begins a login. It ignores the cookies of the request,
// and so never continues another login.
func (c *Routes) Begin(q *api.Request) (api.Result, error) {
	if f := c.fromOwnPage(q); f != nil {
		return api.Result{}, f
	}
	body, err := q.ReadBody(api.MediaJSON, maxBody)
	if err != nil {
		return api.Result{}, err
	}
	login, f := wire.ReadLogin(body)
	if f != nil {
		return api.Result{}, f
	}
	tokens, err := c.cfg.Auth.Password(q.Context(), login.Username, login.Password, login.OTP, c.origin(q))
	return c.answer(q, &tokens, err)
}

// Refresh serves POST /console/session/refresh, which returns a new access token. The body contains
// the id of the login, and a cookie its refresh token.
func (c *Routes) Refresh(q *api.Request) (api.Result, error) {
	if f := c.fromOwnPage(q); f != nil {
		return api.Result{}, f
	}
	body, err := q.ReadBody(api.MediaJSON, maxBody)
	if err != nil {
		return api.Result{}, err
	}
	id, f := wire.ReadMember(body, "session")
	if f != nil {
		return api.Result{}, f
	}
	tokens := c.tokensOf(q, id)
	if id == "" || len(tokens) == 0 {
		return api.Result{}, &wire.Fault{Reason: wire.InvalidRefreshToken, Msg: "The browser has no token of this session"}
	}
	granted, err := auth.RefreshOf(q.Context(), c.cfg.Auth, auth.NewSecret(tokens[0]), id, c.origin(q))
	return c.answer(q, &granted, err)
}

// End serves DELETE /console/session, which ends the login whose id is in the body. Its token is in
// a cookie, or is the access token of the request. Without a body, End ends the logins of all
// cookies, because pages of earlier versions send none. The answer is conflict if no login has
// ended.
func (c *Routes) End(q *api.Request) (api.Result, error) {
	if f := c.fromOwnPage(q); f != nil {
		return api.Result{}, f
	}
	id := ""
	if q.ContentLength != 0 {
		body, err := q.ReadBody(api.MediaJSON, maxBody)
		if err != nil {
			return api.Result{}, err
		}
		var f *wire.Failure
		if id, f = wire.ReadMember(body, "session"); f != nil {
			return api.Result{}, f
		}
	}
	tokens := c.tokensOf(q, id)
	if access := accessOf(q); access != "" && id != "" {
		tokens = append(tokens, access)
	}
	ended := false
	for _, token := range tokens {
		switch err := auth.RevokeOf(q.Context(), c.cfg.Auth, auth.NewSecret(token), id, c.origin(q)); {
		case err == nil:
			ended = true
		case !auth.IsReason(err, auth.NotFound):
			return api.Result{}, err
		}
	}
	if !ended {
		return api.Result{}, &wire.Fault{Reason: wire.Conflict, Msg: "The browser has no token of this session, which has not ended",
			Hint: "End it with DELETE /auth/sessions/{sid}, or change the password"}
	}
	c.setCookie(q, "", -1)
	return api.Result{Object: []byte("{}")}, nil
}

// LimitKey returns the key by which the limit of logouts counts a request: the login of the first
// token in it that the gateway has minted, or the client's address.
func (c *Routes) LimitKey(q *api.Request) string {
	address := c.cfg.Auth.LimitKey(auth.Secret{}, c.origin(q))
	for _, token := range append(c.tokensOf(q, ""), accessOf(q)) {
		if key := c.cfg.Auth.LimitKey(auth.NewSecret(token), c.origin(q)); key != address {
			return key
		}
	}
	return address
}

// accessOf returns the access token in the Authorization header, or "" without one.
func accessOf(q *api.Request) string {
	if token, ok := strings.CutPrefix(q.Header.Get("Authorization"), "Bearer "); ok {
		return token
	}
	return ""
}

// answer returns the answer to a login or a refresh with the tokens t, and sets the cookie. If err
// is not nil, it returns err, with the headers of the rate limit.
func (c *Routes) answer(q *api.Request, t *auth.Tokens, err error) (api.Result, error) {
	var left web.Quota
	left.Limit, left.Remaining, left.Reset, left.Window = c.cfg.Auth.Limit(c.origin(q))
	left.SetHeader(q.Out, "address")
	if err != nil {
		return api.Result{}, err
	}
	s := session{
		Access: t.Access.Reveal(), Type: "bearer", ExpiresIn: int64(t.ExpiresIn / time.Second),
		RefreshExpiresIn: int64(t.RefreshExpiresIn / time.Second), Scope: t.Scope, Session: t.Session, Idle: int64(c.cfg.Page.Idle / time.Second),
	}
	b, err := json.Marshal(&s)
	if err != nil {
		return api.Result{}, err
	}
	c.setCookie(q, t.Session+"."+t.Refresh.Reveal(), 0)
	return api.Result{Object: b}, nil
}

// setCookie sets the cookie, which lasts until the browser ends. If age is negative, it removes the
// cookie. It also removes a cookie with oldCookieName.
func (c *Routes) setCookie(q *api.Request, value string, age int) {
	cookie := http.Cookie{Name: cookieName, Value: value, Path: Path, MaxAge: age, HttpOnly: true, SameSite: http.SameSiteStrictMode}
	if c.cfg.Secure() {
		cookie.Name, cookie.Path, cookie.Secure = hostCookieName, "/", true
	}
	q.Out.Set("Set-Cookie", cookie.String())
	if c.cfg.Secure() && len(q.CookiesNamed(oldCookieName)) > 0 {
		old := http.Cookie{Name: oldCookieName, Path: Path, MaxAge: -1, HttpOnly: true, Secure: true, SameSite: http.SameSiteStrictMode}
		q.Out.Add("Set-Cookie", old.String())
	}
}

// tokensOf returns the refresh tokens in the cookies of a request: those of the login with this id,
// or all if id is empty, at most maxTokens. The value of a cookie is the id of a login, a dot and a
// refresh token.
func (c *Routes) tokensOf(q *api.Request, id string) (tokens []string) {
	cookies := q.CookiesNamed(cookieName)
	if c.cfg.Secure() {
		cookies = append(q.CookiesNamed(hostCookieName), q.CookiesNamed(oldCookieName)...)
	}
	for _, cookie := range cookies {
		session, token, _ := strings.Cut(cookie.Value, ".")
		if token != "" && (id == "" || session == id) && len(tokens) < maxTokens {
			tokens = append(tokens, token)
		}
	}
	return tokens
}

// fromOwnPage returns a fault unless the request comes from a page of the gateway's own origin. The
// request must have Header, which forms cannot send, and no Sec-Fetch-Site of another site. Its
// only Origin must be the scheme and host of the request. The origins that rest.Config allows are
// refused too, because their pages must not use a cookie.
func (c *Routes) fromOwnPage(q *api.Request) *wire.Fault {
	if v := q.Header.Values(Header); len(v) != 1 || v[0] != "1" {
		return &wire.Fault{Reason: wire.Forbidden, Msg: "Only the console sends this request", Hint: "Programs use POST /auth/token"}
	}
	given := q.Header.Values("Origin")
	own := web.OriginAllowed(given, nil, q.Host, c.cfg.Scheme)
	if own && c.cfg.Secure() {
		own = strings.HasPrefix(strings.ToLower(given[0]), "https://")
	}
	for _, site := range q.Header.Values("Sec-Fetch-Site") {
		own = own && site == "same-origin"
	}
	if !own || !web.HostAllowed(given, q.Host, c.cfg.Hosts) {
		return &wire.Fault{Reason: wire.Forbidden, Msg: "Only pages of the gateway's own origin may use the session of the console"}
	}
	return nil
}

// origin returns the address and the User-Agent of the client, and the life of its tokens, as
// package auth expects them.
func (c *Routes) origin(q *api.Request) auth.Origin {
	return auth.Origin{Address: q.Address, Client: q.UserAgent(), Idle: c.cfg.Page.Idle}
}
