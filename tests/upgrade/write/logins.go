package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha1" // of one-time passwords, RFC 6238
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/tests/upgrade/fixture"
)

// tokens is the answer to a login.
type tokens struct {
	Data struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
}

// made has what logins has created.
type made struct {
	fixture.Logins
	access  map[string]string // access tokens by name
	refresh map[string]string // refresh tokens by name
	secret  string            // of one-time passwords of otto
	code    string            // a recovery code of otto
}

// logins adds users, logs them in, ends some of the logins, and rotates the keys.
func (in *installation) logins(ctx context.Context) (*made, error) {
	m := &made{access: map[string]string{}, refresh: map[string]string{}}
	now := in.now().Truncate(24 * time.Hour)
	m.Commit, m.RightEnds, m.UserEnds = in.commit, now.AddDate(0, 0, 10), now.AddDate(0, 0, 20)
	if err := in.users(ctx, m); err != nil {
		return nil, err
	}
	if err := in.start(ctx); err != nil {
		return nil, err
	}
	err := in.sessions(ctx, m)
	return m, errors.Join(err, in.stop())
}

// users adds the users and their rights.
func (in *installation) users(ctx context.Context, m *made) error {
	for _, args := range []string{
		"group add equity --scopes marketdata:read,marketdata:history --connections 5",
		"group grant equity --market TEST --quotes",
		"group add strict --scopes marketdata:read --second-factor required",
		"user add ana --rights all --password-stdin",
		"user add bot --rights quotes --password-stdin",
		"user add eva --rights none --group equity --password-stdin",
		"user add otto --rights all --password-stdin",
		"user add dora --rights all --password-stdin",
		"user add tom --rights all --password-stdin",
		"user add nina --rights all --password-stdin",
		"user add mila --rights none --group strict --password-stdin",
		"user add lena --rights all --password-stdin",
		"user account add ana 100001",
		"user set bot --connections 3 --requests 500",
		"user set nina --networks 192.0.2.0/24",
		"user grant eva --market TEST --trades --until " + m.RightEnds.Format(time.DateOnly),
		"user set tom --expires " + m.UserEnds.Format(time.DateOnly),
	} {
		if err := in.command(ctx, "correct horse\n", strings.Fields(args)...); err != nil {
			return err
		}
	}
	text, err := in.ask(ctx, "", "user", "otp", "otto", "--enable")
	for line := range strings.Lines(text) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), "\t"); name {
		case "secret":
			m.secret = value
		case "recovery":
			m.code = value
		}
	}
	return err
}

// sessions logs the users in. The numbers of a name count the refreshes of the login.
func (in *installation) sessions(ctx context.Context, m *made) error {
	first, err := in.signing(ctx)
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return in.login(ctx, m, "ana", "") },
		func() error { return in.refresh(ctx, m, "ana", "ana1", http.StatusOK) },
		func() error { return in.refresh(ctx, m, "ana1", "ana2", http.StatusOK) },
		func() error { return in.login(ctx, m, "bot", "") },
		func() error { return in.revoke(ctx, m.refresh["bot"]) },
		func() error {
			otp, err := in.oneTime(m)
			if err != nil {
				return err
			}
			return in.login(ctx, m, "otto", otp)
		},
		func() error { return in.login(ctx, m, "dora", "") },
		func() error { return in.rotate(ctx, false) },
		func() error { return in.login(ctx, m, "tom", "") },
		func() error { return in.login(ctx, m, "eva", "") },
		func() error { return in.refresh(ctx, m, "eva", "eva1", http.StatusOK) },
		func() error { return in.refresh(ctx, m, "eva1", "eva2", http.StatusOK) },
		func() error { time.Sleep(1500 * time.Millisecond); return nil }, // beyond grace_period
		func() error { return in.refresh(ctx, m, "eva", "", http.StatusUnauthorized) },
		func() error { return in.rotate(ctx, true) },
		func() error { return in.tokens(ctx, m, "eva-new", passwordBody("eva", ""), http.StatusOK) },
		func() error { return in.command(ctx, "", "keys", "rotate") }, // published, signs in ten minutes
		func() error { return in.command(ctx, "", "user", "disable", "dora") },
		func() error { return in.wrong(ctx, "ana", 1) },
		func() error { return in.wrong(ctx, "lena", 2) },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	last, err := in.signing(ctx)
	if err == nil && last == first {
		err = fmt.Errorf("the signing key is still %s", last)
	}
	return err
}

func (in *installation) login(ctx context.Context, m *made, user, otp string) error {
	return in.tokens(ctx, m, user, passwordBody(user, otp), http.StatusOK)
}

func (in *installation) refresh(ctx context.Context, m *made, with, name string, status int) error {
	return in.tokens(ctx, m, name, refreshBody(m.refresh[with]), status)
}

// tokens requests tokens and keeps them under a name.
func (in *installation) tokens(ctx context.Context, m *made, name, body string, status int) error {
	x := fixture.Exchange{Method: http.MethodPost, Path: "/auth/token", Body: body}
	text, err := in.do(ctx, &x)
	if err != nil {
		return fmt.Errorf("tokens of %q: %w", name, err)
	}
	if x.Status != status {
		return fmt.Errorf("tokens of %q: status %d: %s", name, x.Status, text)
	}
	var t tokens
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	m.access[name], m.refresh[name] = t.Data.Access, t.Data.Refresh
	return nil
}

func (in *installation) revoke(ctx context.Context, token string) error {
	_, err := in.do(ctx, &fixture.Exchange{Method: http.MethodPost, Path: "/auth/revoke", Body: fmt.Sprintf(`{"token":%q}`, token)})
	return err
}

func (in *installation) wrong(ctx context.Context, user string, times int) error {
	for range times {
		x := fixture.Exchange{Method: http.MethodPost, Path: "/auth/token", Body: fmt.Sprintf(`{"grant_type":"password","username":%q,"password":"wrong"}`, user)}
		text, err := in.do(ctx, &x)
		if err != nil {
			return fmt.Errorf("a wrong password: %w", err)
		}
		if x.Status != http.StatusUnauthorized {
			return fmt.Errorf("a wrong password: status %d: %s", x.Status, text)
		}
	}
	return nil
}

// rotate makes a new key sign at once. With revoke it revokes the one before.
func (in *installation) rotate(ctx context.Context, revoke bool) error {
	args := []string{"keys", "rotate", "--now"}
	if revoke {
		old, err := in.signing(ctx)
		if err != nil {
			return err
		}
		args = append(args, "--revoke", old)
	}
	if err := in.command(ctx, "", args...); err != nil {
		return err
	}
	time.Sleep(6 * time.Second) // until the gateway has the key
	return nil
}

// signing returns the id of the key that signs.
func (in *installation) signing(ctx context.Context) (string, error) {
	text, err := in.ask(ctx, "", "keys", "list")
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); err == nil && len(f) > 2 && f[2] == "signing" {
			return f[0], nil
		}
	}
	return "", errors.Join(err, errors.New("no key signs"))
}

// oneTime returns the one-time password of otto (RFC 6238).
func (in *installation) oneTime(m *made) (string, error) {
	key, err := base32.StdEncoding.DecodeString(m.secret)
	if err != nil {
		return "", fmt.Errorf("decode the secret of otto: %w", err)
	}
	sum := hmac.New(sha1.New, key)
	_, _ = sum.Write(binary.BigEndian.AppendUint64(nil, uint64(in.now().Unix()/30)))
	hash := sum.Sum(nil)
	at := hash[len(hash)-1] & 15
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(hash[at:])&0x7fffffff%1_000_000), nil
}

func passwordBody(user, otp string) string {
	if otp != "" {
		otp = fmt.Sprintf(`,"otp":%q`, otp)
	}
	return fmt.Sprintf(`{"grant_type":"password","username":%q,"password":"correct horse"%s}`, user, otp)
}

func refreshBody(token string) string {
	return fmt.Sprintf(`{"grant_type":"refresh_token","refresh_token":%q}`, token)
}

// expect verifies the audit log, and then asks a copy of the installation with every login.
func (in *installation) expect(ctx context.Context, m *made) error {
	text, err := in.ask(ctx, "", "audit", "verify")
	if err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		switch f := strings.Fields(line); f[0] {
		case "rows":
			m.AuditRows, err = strconv.ParseInt(f[1], 10, 64)
		case "head":
			m.AuditHead = f[1]
		}
	}
	if err != nil {
		return fmt.Errorf("audit verify: %w", err)
	}
	if m.AuditRows == 0 || m.AuditHead == "" {
		return fmt.Errorf("audit verify: %s", text)
	}
	if text, err = in.ask(ctx, "", "keys", "list"); err != nil {
		return err
	}
	m.Keys = strings.Split(strings.TrimSpace(text), "\n")
	asked := *in
	asked.folder += ".asked"
	if err := os.CopyFS(asked.folder, os.DirFS(in.folder)); err != nil {
		return err
	}
	if err := private(asked.folder); err != nil {
		return err
	}
	if err := asked.start(ctx); err != nil {
		return err
	}
	if err := asked.converse(ctx, m); err != nil {
		return errors.Join(err, asked.stop())
	}
	out, err := json.MarshalIndent(m.Logins, "", " ")
	return errors.Join(err, asked.stop(), os.WriteFile(filepath.Join(in.folder, "logins.json"), append(out, '\n'), 0o600))
}

// private gives a folder and its files the modes that the program requires.
func private(folder string) error {
	return filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o600)
		if d.IsDir() {
			mode = 0o700
		}
		return os.Chmod(name, mode)
	})
}

// converse makes the requests whose answers are expected.
func (in *installation) converse(ctx context.Context, m *made) error {
	var list []fixture.Exchange
	get := func(name, token, path string) {
		list = append(list, fixture.Exchange{Name: name, Method: http.MethodGet, Path: path, Token: m.access[token]})
	}
	post := func(name, body string) {
		list = append(list, fixture.Exchange{Name: name, Method: http.MethodPost, Path: "/auth/token", Body: body})
	}
	const trades, quotes = "/market/trades?limit=5&instrument=GGAL%7CTEST%7CCI", "/market/quotes?limit=5&instrument=GGAL%7CTEST%7CCI"
	get("public keys", "", "/.well-known/jwks.json")
	get("accounts, retired key", "ana", "/broker/accounts")
	get("sessions, retired key", "ana2", "/auth/sessions")
	get("trades, all rights", "ana", trades)
	get("a login that was ended", "bot", "/auth/sessions")
	get("a user that is disabled", "dora", "/auth/sessions")
	get("a key that is revoked", "tom", "/auth/sessions")
	get("a login that was used twice", "eva2", "/auth/sessions")
	get("sessions, signing key", "eva-new", "/auth/sessions")
	get("trades until a date", "eva-new", trades)
	get("quotes of a group", "eva-new", quotes)
	get("accounts without the scope", "eva-new", "/broker/accounts")
	for _, name := range []string{"ana2", "ana1", "ana2", "bot", "otto", "dora", "tom", "eva2", "eva1", "eva", "eva-new"} {
		post("refresh of "+name, refreshBody(m.refresh[name]))
	}
	for _, user := range []string{"ana", "bot", "eva", "otto", "dora", "tom", "nina", "mila", "lena", "nobody"} {
		post("login of "+user, passwordBody(user, ""))
	}
	post("login with a recovery code", passwordBody("otto", m.code))
	post("login with a used recovery code", passwordBody("otto", m.code))
	list = append(list, fixture.Exchange{Name: "login with a one-time password", Method: http.MethodPost, Path: "/auth/token"})
	for i := range list {
		if list[i].Method == http.MethodPost && list[i].Body == "" {
			otp, err := in.oneTime(m)
			if err != nil {
				return err
			}
			list[i].Body = passwordBody("otto", otp)
		}
		if _, err := in.do(ctx, &list[i]); err != nil {
			return fmt.Errorf("%s: %w", list[i].Name, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	m.Exchanges = list
	return nil
}
