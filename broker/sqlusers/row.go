package sqlusers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// query is one of the configured SELECTs.
type query struct {
	name      string
	text      string
	parameter string
	required  []string // columns
	optional  []string
}

// QueryError is an error of a configured query.
type QueryError struct {
	Query string // login, user or accounts
	Err   error
}

func (e *QueryError) Error() string { return "query " + e.Query + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *QueryError) Unwrap() error { return e.Err }

// checkColumns checks the columns that a query returns.
func (q *query) checkColumns(columns []string) error {
	known := slices.Concat(q.required, q.optional)
	for i, c := range columns {
		if !slices.Contains(known, c) {
			return fmt.Errorf("column %q has no meaning here; those with one are %s", c, strings.Join(known, ", "))
		}
		if slices.Contains(columns[:i], c) {
			return fmt.Errorf("column %s is there twice", c)
		}
	}
	for _, c := range q.required {
		if !slices.Contains(columns, c) {
			if c == "version" {
				return errors.New("column version is missing: it rises with each change of the password; where nothing does, say 0 AS version")
			}
			return fmt.Errorf("column %s is missing", c)
		}
	}
	return nil
}

// row is the values of a row by column.
type row map[string]any

// person decodes a row of a user. Errors name the column and quote no values.
func (r row) person() (p person, err error) {
	r.into("id", textual(&p.ID), &err)
	r.into("username", textual(&p.Username), &err)
	r.into("password_hash", textual(&p.hash), &err)
	r.into("version", versioned(&p.Version), &err)
	if v, ok := r["disabled"]; ok && v == nil && err == nil { // the query does not know
		err = errors.New("column disabled is NULL")
	}
	r.into("disabled", boolean(&p.disabled), &err)
	r.into("scopes", words(&p.Scopes), &err)
	r.into("groups", words(&p.groups), &err)
	r.into("entitlements", object(&p.Entitlements), &err)
	r.into("limits", object(&p.Limits), &err)
	r.into("networks", networks(&p.Networks), &err)
	r.into("expires_at", timestamp(&p.Expires), &err)
	return p, err
}

// account decodes a row of an account.
func (r row) account() (a broker.Account, err error) {
	r.into("account_id", textual(&a.ID), &err)
	r.into("number", textual(&a.Number), &err)
	r.into("name", textual(&a.Name), &err)
	r.into("type", textual(&a.Type), &err)
	r.into("status", textual(&a.Status), &err)
	r.into("currency", textual(&a.Currency), &err)
	r.into("currencies", words(&a.Currencies), &err)
	r.into("roles", words(&a.Roles), &err)
	r.into("permissions", words(&a.Permissions), &err)
	r.into("is_default", boolean(&a.IsDefault), &err)
	r.into("created_at", timestamp(&a.CreatedAt), &err)
	if err == nil {
		err = a.Check()
	}
	return a, err
}

// into decodes a column, if it exists and is not NULL, unless *err is set.
func (r row) into(column string, read func(any) bool, err *error) {
	if v := r[column]; v != nil && *err == nil && !read(v) {
		*err = fmt.Errorf("column %s has a %T that cannot be read as what it means", column, v)
	}
}

func textual(to *string) func(any) bool {
	return func(v any) bool {
		switch v := v.(type) {
		case string:
			*to = v
		case []byte:
			*to = string(v)
		case int64:
			*to = strconv.FormatInt(v, 10)
		default:
			return false
		}
		return true
	}
}

func boolean(to *bool) func(any) bool {
	return func(v any) bool {
		var err error
		switch v := v.(type) {
		case bool:
			*to = v
		case int64:
			*to = v != 0
		case string:
			*to, err = strconv.ParseBool(v)
		default:
			return false
		}
		return err == nil
	}
}

// versioned accepts a whole number or a time, in microseconds.
func versioned(to *int64) func(any) bool {
	return func(v any) bool {
		if n, ok := v.(int64); ok {
			*to = n
			return true
		}
		if text, ok := v.(string); ok {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				*to = n
				return true
			}
		}
		var at time.Time
		if !timestamp(&at)(v) {
			return false
		}
		*to = at.UnixMicro()
		return true
	}
}

// timestamp accepts a time, also as the text that SQLite stores.
func timestamp(to *time.Time) func(any) bool {
	return func(v any) bool {
		switch v := v.(type) {
		case time.Time:
			*to = v.UTC()
			return true
		case string:
			for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02"} {
				if at, err := time.Parse(layout, v); err == nil {
					*to = at.UTC()
					return true
				}
			}
		}
		return false
	}
}

// words accepts words separated by spaces, or a JSON array of texts.
func words(to *[]string) func(any) bool {
	return func(v any) bool {
		var text string
		if !textual(&text)(v) {
			return false
		}
		if strings.HasPrefix(strings.TrimSpace(text), "[") {
			return decode([]byte(text), to)
		}
		*to = strings.Fields(text)
		return true
	}
}

// networks accepts networks as words does.
func networks(to *[]netip.Prefix) func(any) bool {
	return func(v any) bool {
		var list []string
		if !words(&list)(v) {
			return false
		}
		parsed, err := broker.ParseNetworks(list)
		*to = parsed
		return err == nil
	}
}

// object accepts JSON.
func object[T any](to *T) func(any) bool {
	return func(v any) bool {
		var text string
		return textual(&text)(v) && decode([]byte(text), to)
	}
}

// decode decodes exactly one JSON value of known keys.
func decode(text []byte, into any) bool {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(into) != nil {
		return false
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF)
}
