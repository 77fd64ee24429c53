package config

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/ruedahq/rueda/internal/base/fileowner"
	"github.com/ruedahq/rueda/internal/base/spell"
	"github.com/ruedahq/rueda/internal/identity/database"
)

// mistake is an error in a configuration file, or in the environment variable of a setting.
type mistake struct {
	file     string
	line     int
	key      string
	variable string // "": the file
	text     string
}

func (m *mistake) Error() string {
	if m.variable != "" {
		return "environment variable " + m.variable + ": " + m.text
	}
	place := m.file + ":" + strconv.Itoa(m.line) + ": "
	if m.key != "" {
		place += m.key + ": "
	}
	return place + m.text
}

// document is a decoded TOML file that knows the lines of its keys, and which keys come from the
// environment.
type document struct {
	file      string
	lines     map[string]int
	variables map[string]string // names of environment variables, by key
	mistakes  []error
	warnings  []string
}

// decode decodes a TOML text into the struct that into points to: tables are structs, and keys are
// the toml tags of fields. Unknown keys and values of another type are mistakes, which document.err
// returns. The error is for a text that is not TOML.
func decode(file string, text []byte, into any) (*document, error) {
	doc := &document{file: file, variables: map[string]string{}}
	if line, deep := tooDeep(string(text)); deep {
		return doc, &mistake{file: file, line: line, text: "nests deeper than " + strconv.Itoa(maxDepth) + " levels"}
	}
	var tree map[string]any
	if _, err := toml.Decode(string(text), &tree); err != nil {
		var syntax toml.ParseError
		if errors.As(err, &syntax) {
			if line, open := unclosed(string(text)); open && line <= syntax.Position.Line {
				return doc, &mistake{file: file, line: line, key: syntax.LastKey, text: "the quote of this string is not closed"}
			}
			return doc, &mistake{file: file, line: syntax.Position.Line, key: syntax.LastKey, text: explainSyntax(string(text), &syntax)}
		}
		return doc, fmt.Errorf("%s: %w", file, err)
	}
	doc.lines = locate(string(text))
	doc.table("", tree, reflect.ValueOf(into).Elem())
	return doc, nil
}

// bareValue matches a line with a key, whose value is neither in quotes nor a list or table.
var bareValue = regexp.MustCompile(`^\s*[\w."-]+\s*=\s*([^\s"'\[{#][^#]*?)\s*(#.*)?$`)

// explainSyntax returns what is wrong in a text that is not TOML, with the next step. It does not
// repeat values, which may be secrets.
func explainSyntax(text string, syntax *toml.ParseError) string {
	line := ""
	if lines := strings.Split(text, "\n"); syntax.Position.Line <= len(lines) {
		line = strings.TrimSuffix(lines[max(syntax.Position.Line, 1)-1], "\r")
	}
	message := cmp.Or(syntax.Message, syntax.Error())
	switch {
	case bareValue.MatchString(line):
		return `a value that is not a number, true or false must be in quotes, such as "30s"`
	case strings.Contains(message, "invalid escape"):
		return message + `: write / in paths, or use single quotes, in which \ has no meaning`
	}
	if key, ok := strings.CutSuffix(message, " has already been defined."); ok {
		if first := locate(text)[strings.Trim(strings.TrimPrefix(key, "Key "), "'")]; first > 0 && first < syntax.Position.Line {
			return fmt.Sprintf("%s is already on line %d: put both together", key, first)
		}
	}
	return message
}

// again returns the document without its mistakes. For nil it returns an empty document.
func (d *document) again() *document {
	if d == nil {
		return &document{}
	}
	return &document{file: d.file, lines: d.lines, variables: d.variables}
}

// wrong reports a mistake at a key.
func (d *document) wrong(key, format string, args ...any) {
	m := d.at(key, fmt.Sprintf(format, args...))
	d.mistakes = append(d.mistakes, &m)
}

// notOneOf reports a value that is not in a closed set.
func (d *document) notOneOf(key, value string, good []string) {
	d.wrong(key, "%q is not one of %s", value, strings.Join(good, ", "))
}

// warn reports a weakness at a key. The configuration stays valid.
func (d *document) warn(key, format string, args ...any) {
	m := d.at(key, fmt.Sprintf(format, args...))
	d.warnings = append(d.warnings, m.Error())
}

// at returns a mistake at a key. For a table that only the environment has, it names a variable.
func (d *document) at(key, text string) mistake {
	m := mistake{file: d.file, line: d.line(key), key: key, variable: d.variables[key], text: text}
	for _, k := range slices.Sorted(maps.Keys(d.variables)) {
		if m.variable == "" && d.lines[key] == 0 && strings.HasPrefix(k, key+".") {
			m.variable = d.variables[k]
		}
	}
	return m
}

// verified warns of a connection to PostgreSQL that does not verify the certificate of the server.
func (d *document) verified(key, dsn string) {
	if host := database.UnverifiedHost(dsn); host != "" {
		d.warn(key, "the certificate of %s is not verified, so another server could pose as it: set sslmode=verify-full, or sslrootcert", host)
	}
}

// line returns the line of a key, or of the nearest table around it.
func (d *document) line(key string) int {
	for key != "" {
		if n := d.lines[key]; n > 0 {
			return n
		}
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
	}
	return 1
}

// clean reports whether there is no mistake at a key or below it.
func (d *document) clean(key string) bool {
	for _, err := range d.mistakes {
		var m *mistake
		if errors.As(err, &m) && strings.HasPrefix(m.key, key) {
			return false
		}
	}
	return true
}

// err returns all mistakes in the order of the file.
func (d *document) err() error {
	slices.SortStableFunc(d.mistakes, func(a, b error) int {
		var x, y *mistake
		if errors.As(a, &x) && errors.As(b, &y) {
			return cmp.Or(cmp.Compare(x.line, y.line), cmp.Compare(x.key, y.key))
		}
		return 0
	})
	return errors.Join(d.mistakes...)
}

// exists reports a mistake if the file that a key names cannot be found. It ignores an empty name.
func (d *document) exists(key, name string) {
	if _, err := os.Stat(d.relative(name)); name != "" && err != nil {
		d.wrong(key, "%v", fileowner.Unreadable(err))
	}
}

// relative resolves a path relative to the folder of the file.
func (d *document) relative(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(d.file), name)
}

// removedKeys returns keys of earlier versions with what is the case instead. They are warnings in
// this version, and unknown keys in the next one.
func removedKeys() map[string]string {
	const queries = "a user base gets 64 queries at a time"
	return map[string]string{
		"tls.reload":             "certificates are read again every 10 s",
		"auth.password_queue":    "64 logins may wait for each of password_slots",
		"users.in_flight":        queries,
		"accounts.in_flight":     queries,
		"stream.send_buffer":     "the send buffer of a socket has 64 KiB",
		"throttle.network_burst": "it is 10 times limits.login_burst",
		"throttle.global_burst":  "it is 60 times limits.login_burst",
	}
}

func (d *document) table(path string, tree map[string]any, into reflect.Value) {
	fields := map[string]reflect.Value{}
	var names []string
	for i := range into.NumField() {
		name := into.Type().Field(i).Tag.Get("toml")
		fields[name] = into.Field(i)
		names = append(names, name)
	}
	for name, value := range tree {
		key := joinKey(path, name)
		field, ok := fields[name]
		if why := removedKeys()[key]; why != "" {
			d.warn(key, "has no effect any more: %s", why)
			continue
		}
		if !ok {
			d.wrong(key, "unknown key; %s", spell.Suggest(name, names, "the keys here are "))
			continue
		}
		d.value(key, value, field)
	}
}

func (d *document) value(key string, value any, into reflect.Value) {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	if u, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(key, value, into, u)
		return
	}
	good := false
	switch into.Kind() {
	case reflect.String:
		var s string
		if s, good = value.(string); good {
			into.SetString(s)
		}
	case reflect.Bool:
		var b bool
		if b, good = value.(bool); good {
			into.SetBool(b)
		}
	case reflect.Int, reflect.Int64:
		var n int64
		if n, good = value.(int64); good && into.OverflowInt(n) {
			d.wrong(key, "is out of range")
			return
		}
		into.SetInt(n)
	case reflect.Float64:
		var f float64
		var n int64
		if f, good = value.(float64); !good {
			n, good = value.(int64)
			f = float64(n)
		}
		into.SetFloat(f)
	case reflect.Struct:
		var t map[string]any
		if t, good = value.(map[string]any); good {
			d.table(key, t, into)
		}
	case reflect.Slice:
		good = d.list(key, value, into)
	}
	if !good {
		d.wrong(key, "must be %s, not %s", wanted(into.Type()), found(value))
	}
}

// list decodes an array or an array of tables.
func (d *document) list(key string, value any, into reflect.Value) bool {
	v := reflect.ValueOf(value)
	if v.Kind() != reflect.Slice {
		return false
	}
	list := reflect.MakeSlice(into.Type(), v.Len(), v.Len())
	for i := range v.Len() {
		d.value(key+"["+strconv.Itoa(i)+"]", v.Index(i).Interface(), list.Index(i))
	}
	into.Set(list)
	return true
}

// text decodes a value with its own text form. A decimal may be a TOML number: the shortest text of
// a float with up to 15 digits is the original text.
func (d *document) text(key string, value any, into reflect.Value, u encoding.TextUnmarshaler) {
	s, ok := value.(string)
	if _, number := into.Addr().Interface().(numeric); number && !ok {
		switch v := value.(type) {
		case int64:
			s, ok = strconv.FormatInt(v, 10), true
		case float64:
			s, ok = strconv.FormatFloat(v, 'f', -1, 64), true
		}
	}
	if !ok {
		d.wrong(key, "must be %s, not %s", wanted(into.Type()), found(value))
		return
	}
	if err := u.UnmarshalText([]byte(s)); err != nil {
		d.wrong(key, "%q is not %s", s, wanted(into.Type()))
	}
}

// described is a type with its own text form, described by an example.
type described interface{ wanted() string }

// numeric is a type that may be written as a number.
type numeric interface{ numeric() }

func wanted(t reflect.Type) string {
	if d, ok := reflect.Zero(t).Interface().(described); ok {
		return d.wanted()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string in quotes"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "an array"
	default:
		return "a table"
	}
}

func found(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case bool:
		return "true or false"
	case int64, float64:
		return "a number"
	case time.Time:
		return "a date without quotes"
	case map[string]any:
		return "a table"
	default:
		return "an array"
	}
}
