package gateway_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/identity/store"
)

// TestThreat15DatabaseDumpE2E checks that an attacker who has the whole database, but not the key
// file, cannot log in. It tries every value of every column, in each form in which it could be
// written, as password, refresh token, access token and one-time password.
func TestThreat15DatabaseDumpE2E(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	data, err := gateway.OpenData(t.Context(), gateway.DataConfig{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	addDemo(t, data.Users)
	careful := local.NewUser{Username: "careful", Password: "a password and more", Scopes: []string{broker.ScopeAccounts}}
	if _, err := data.Users.Add(t.Context(), careful); err != nil {
		t.Fatal(err)
	}
	if _, err := data.Users.EnableSecondFactor(t.Context(), "careful", "rueda"); err != nil {
		t.Fatal(err)
	}
	const many = 1_000_000
	c, stop, done := launch(t, gateway.Config{Data: data, Limits: gateway.Limits{
		LoginsPerMinute: many, LoginBurst: many, Logins: gateway.Logins{AccountFree: many}, RequestsPerMinute: many, Handshakes: many,
	}})
	secrets := []string{"demo-password", careful.Password}
	for range 2 {
		if err := c.login(); err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, c.access, c.refresh)
		if err := c.renew(); err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, c.access)
	}
	values := dump(t, folder)
	forms := make(map[string]bool)
	for _, v := range values {
		for _, form := range writings(v) {
			forms[form] = true
		}
	}
	t.Logf("figure: dump: %d values, %d credentials tried", len(values), len(forms))
	for form := range forms {
		for _, attempt := range []map[string]string{
			{"grant_type": "refresh_token", "refresh_token": form},
			{"grant_type": "password", "username": "demo", "password": form},
			{"grant_type": "password", "username": "careful", "password": careful.Password, "otp": form},
		} {
			if attempt["otp"] != "" && len(form) > 32 {
				continue // too long for a one-time password or recovery code, and refused without a check
			}
			if status := c.try(t, attempt); status < 400 || status >= 500 {
				t.Errorf("status %d of %v", status, attempt)
			}
		}
		if strings.TrimSpace(form) == form && !strings.ContainsFunc(form, func(r rune) bool { return r < ' ' || r == 127 }) {
			c.access = form
			if err := c.accounts(); err == nil {
				t.Errorf("an access token: %q", form)
			}
		}
	}
	if status := c.try(t, map[string]string{"grant_type": "password", "username": "demo", "password": "demo-password"}); status != 200 {
		t.Errorf("status %d of what is right", status)
	}
	if err := c.renew(); err != nil {
		t.Errorf("the login did not survive it: %v", err)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, name := range []string{"rueda.db", "rueda.db-wal"} {
		file, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range secrets {
			if bytes.Contains(file, []byte(s)) {
				t.Errorf("%s holds %q", name, s)
			}
		}
	}
}

// try posts a grant and returns the status.
func (c *literalClient) try(t *testing.T, grant map[string]string) int {
	t.Helper()
	body, err := json.Marshal(grant)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.http.Post(c.rest+"/auth/token", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

// dump reads every value of every table.
func dump(t *testing.T, folder string) (values [][]byte) {
	t.Helper()
	s, err := store.Open(t.Context(), filepath.Join(folder, "rueda.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	read := func(query string) (list [][]byte) {
		t.Helper()
		rows, err := s.Reader().QueryContext(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			row, into := make([]any, len(columns)), make([]any, len(columns))
			for i := range row {
				into[i] = &row[i]
			}
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			for _, v := range row {
				switch v := v.(type) {
				case nil:
				case []byte:
					list = append(list, v)
				default:
					list = append(list, fmt.Append(nil, v))
				}
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return list
	}
	tables := read(`SELECT name FROM sqlite_master WHERE type = 'table'`)
	if len(tables) < 8 {
		t.Errorf("only %d tables: %s", len(tables), tables)
	}
	for _, table := range tables {
		values = append(values, read(`SELECT * FROM "`+string(table)+`"`)...)
	}
	return values
}

// writings returns the forms in which a value could be a credential. A value of 32 bytes is also
// written as a refresh token.
func writings(v []byte) (forms []string) {
	if len(v) == 0 || len(v) > 1024 {
		return nil
	}
	if utf8.Valid(v) {
		forms = append(forms, string(v))
	} else {
		forms = append(forms, hex.EncodeToString(v), base64.StdEncoding.EncodeToString(v), base64.RawURLEncoding.EncodeToString(v))
	}
	if len(v) == 32 {
		sum := binary.BigEndian.AppendUint32(v[:32:32], crc32.ChecksumIEEE(v))
		forms = append(forms, "rt1_"+base64.RawURLEncoding.EncodeToString(sum))
	}
	return forms
}
