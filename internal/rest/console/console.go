// Package console has the routes of the console, the web page of the gateway for users: a login
// whose refresh token only the browser has, and what the page needs to know before one.
//
// # The session
//
// POST /console/session logs in as POST /auth/token does, with the same limits and audit rows, and
// puts the refresh token into a cookie instead of the answer. The cookie is HttpOnly, so that no
// script reads it, SameSite=Strict, and sent only to /console/session. POST
// /console/session/refresh answers with a new access token and replaces the cookie. The presented
// token stays valid until a successor is used, so that several tabs may refresh at the same time.
// DELETE /console/session ends the login.
//
// # Requests of other pages
//
// A browser attaches the cookie by itself, so every request must come from a page of the gateway's
// own origin (fromOwnPage). A refresh must name its login, which the page keeps in the storage of
// its origin. A page of a sibling domain can set a cookie for this path, but it cannot write that
// storage. The console therefore never continues a login that it has not begun (session fixation).
package console

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/rest/api"
	"github.com/ruedahq/rueda/internal/web"
	"github.com/ruedahq/rueda/wire"
)

// Header is the header that every request for a session must have, with the value 1. A page of
// another origin cannot send it without a preflight, which is refused.
const Header = "X-Rueda-Console"

// Path is the path of the routes of sessions, and of the cookie.
const Path = "/console/session"

// Names of the cookie. Browsers accept the second one only with Secure, over HTTPS.
const (
	cookieName       = "rueda_console"
	secureCookieName = "__Secure-rueda_console"
)

const (
	maxBody    = 8 << 10
	maxCookies = 4 // of that name in a request; a sibling domain may have set others
)

// Config configures Routes. Auth is required.
type Config struct {
	Auth   *auth.Service
	Hosts  []string    // names of the gateway; see rest.Config
	Secure func() bool // whether browsers reach the gateway by HTTPS
	Page   Page        // for GET /console/config
}

// Page is what the page needs to know before a login.
type Page struct {
	Dev     bool   `json:"dev"`     // a development gateway, with faults on request
	Version string `json:"version"` // of the gateway
	Hint    *Hint  `json:"hint,omitempty"`
}

// Hint is a login that the page suggests. Only a gateway that others cannot reach has one.
type Hint struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

// Routes serve the console. Its functions are safe for concurrent use.
type Routes struct{ cfg Config }

// New returns Routes.
func New(cfg Config) *Routes { return &Routes{cfg} }

// session is the answer to a login and to a refresh.
type session struct {
	Access           string `json:"access_token"`
	Type             string `json:"token_type"`
	ExpiresIn        int64  `json:"expires_in"`         // seconds
	RefreshExpiresIn int64  `json:"refresh_expires_in"` // seconds
	Scope            string `json:"scope"`
	Session          string `json:"session"` // id of the login
}

// Config serves GET /console/config.
func (c *Routes) Config(*api.Request) (api.Result, error) {
	b, err := json.Marshal(c.cfg.Page)
	return api.Result{Object: b}, err
}

// Begin serves POST /console/session: a login. It never continues a login of the request's cookie.
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
	tokens, err := c.cfg.Auth.Password(q.Context(), login.Username, login.Password, login.OTP, origin(q))
	return c.answer(q, &tokens, err)
}

// Refresh serves POST /console/session/refresh. Its body names the login whose token is used.
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
	token := ""
	for _, t := range c.cookies(q) {
		if t.session == id && id != "" {
			token = t.token
			break
		}
	}
	if token == "" {
		return api.Result{}, &wire.Fault{Reason: wire.InvalidRefreshToken, Msg: "The browser has no token of this session"}
	}
	tokens, err := auth.RefreshOf(q.Context(), c.cfg.Auth, auth.NewSecret(token), id, origin(q))
	return c.answer(q, &tokens, err)
}

// End serves DELETE /console/session: a logout, with or without a cookie.
func (c *Routes) End(q *api.Request) (api.Result, error) {
	if f := c.fromOwnPage(q); f != nil {
		return api.Result{}, f
	}
	for _, t := range c.cookies(q) {
		if err := c.cfg.Auth.Revoke(q.Context(), auth.NewSecret(t.token), origin(q)); err != nil {
			return api.Result{}, err
		}
	}
	c.setCookie(q, "", -1)
	return api.Result{Object: []byte("{}")}, nil
}

// answer returns the answer to a grant, and sets the cookie.
func (c *Routes) answer(q *api.Request, t *auth.Tokens, err error) (api.Result, error) {
	var left web.Quota
	left.Limit, left.Remaining, left.Reset, left.Window = c.cfg.Auth.Limit(origin(q))
	left.SetHeader(q.Out, "address")
	if err != nil {
		return api.Result{}, err
	}
	s := session{
		Access: t.Access.Reveal(), Type: "bearer", ExpiresIn: int64(t.ExpiresIn / time.Second),
		RefreshExpiresIn: int64(t.RefreshExpiresIn / time.Second), Scope: t.Scope, Session: t.Session,
	}
	b, err := json.Marshal(&s)
	if err != nil {
		return api.Result{}, err
	}
	c.setCookie(q, t.Session+"."+t.Refresh.Reveal(), int(s.RefreshExpiresIn))
	return api.Result{Object: b}, nil
}

// setCookie sets the cookie for some seconds, or removes it if age is negative.
func (c *Routes) setCookie(q *api.Request, value string, age int) {
	cookie := http.Cookie{Name: c.name(), Value: value, Path: Path, MaxAge: age, HttpOnly: true, Secure: c.cfg.Secure(), SameSite: http.SameSiteStrictMode}
	q.Out.Set("Set-Cookie", cookie.String())
}

func (c *Routes) name() string {
	if c.cfg.Secure() {
		return secureCookieName
	}
	return cookieName
}

// kept is a cookie: the id of a login with its refresh token.
type kept struct{ session, token string }

// cookies returns the cookies of sessions of a request.
func (c *Routes) cookies(q *api.Request) (list []kept) {
	for _, cookie := range q.CookiesNamed(c.name()) {
		id, token, ok := strings.Cut(cookie.Value, ".")
		if ok && len(list) < maxCookies {
			list = append(list, kept{id, token})
		}
	}
	return list
}

// fromOwnPage refuses a request that does not come from a page of the gateway's own origin. It must
// have the header that forms cannot send, and no Sec-Fetch-Site that names another site. It must
// have one Origin, with the scheme and host of the request. Origins of rest.Config do not count,
// because their pages must not use a cookie.
func (c *Routes) fromOwnPage(q *api.Request) *wire.Fault {
	if v := q.Header.Values(Header); len(v) != 1 || v[0] != "1" {
		return &wire.Fault{Reason: wire.Forbidden, Msg: "Only the console sends this request", Hint: "Programs use POST /auth/token"}
	}
	given := q.Header.Values("Origin")
	own := web.OriginAllowed(given, nil, q.Host)
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

// origin returns the client of a request, for package auth.
func origin(q *api.Request) auth.Origin {
	return auth.Origin{Address: q.Address, Client: q.UserAgent()}
}
