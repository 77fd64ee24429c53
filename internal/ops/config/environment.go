package config

import (
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/base/spell"
)

// Names of environment variables that are settings begin with variablePrefix. variableSeparator is
// between the table and the key: RUEDA__LIMITS__SOCKETS is sockets of [limits].
const (
	variablePrefix    = "RUEDA__"
	variableSeparator = "__"
)

// environment sets keys of a configuration to the values of variables, which have the form
// NAME=value. They take precedence over the file. An empty variable has no effect.
func (d *document) environment(variables []string, c *mainFile) {
	for _, v := range slices.Sorted(slices.Values(variables)) {
		name, text, _ := strings.Cut(v, "=")
		switch {
		case text == "":
		case strings.HasPrefix(name, variablePrefix):
			d.variable(name, text, reflect.ValueOf(c).Elem())
		case strings.HasPrefix(name, "RUEDA_"):
			if meant := misspelled(name); meant != "" {
				d.warnings = append(d.warnings, "environment variable "+name+" has no effect; did you mean "+meant+"?")
			}
		}
	}
}

const onlyInFile = "%s is a list, which only the file can set"

// variable sets the key that a variable names.
func (d *document) variable(name, text string, into reflect.Value) {
	wrong := func(format string, args ...any) {
		d.mistakes = append(d.mistakes, &mistake{variable: name, text: fmt.Sprintf(format, args...)})
	}
	key, prefix := "", strings.TrimSuffix(variablePrefix, variableSeparator)
	for word := range strings.SplitSeq(strings.TrimPrefix(name, variablePrefix), variableSeparator) {
		switch {
		case isTable(into.Type()):
		case isScalar(into.Type()):
			wrong("%s is not a table", key)
			return
		default:
			wrong(onlyInFile, key)
			return
		}
		known := variableWords(into.Type())
		i, ok := known[word]
		if why := removedKeys()[joinKey(key, strings.ToLower(word))]; why != "" {
			d.warnings = append(d.warnings, "environment variable "+name+" has no effect any more: "+why)
			return
		}
		if !ok {
			maps.DeleteFunc(known, func(_ string, i int) bool {
				t := into.Type().Field(i).Type
				return !isTable(t) && !isScalar(t)
			})
			wrong("is not a setting; %s", variableAdvice(name, prefix, word, slices.Sorted(maps.Keys(known))))
			return
		}
		key = joinKey(key, into.Type().Field(i).Tag.Get("toml"))
		if into = into.Field(i); into.Kind() == reflect.Pointer && into.Type().Elem().Kind() != reflect.Slice {
			into.Set(reflect.New(into.Type().Elem()))
			into = into.Elem()
		}
		prefix += variableSeparator + word
	}
	switch {
	case isTable(into.Type()):
		wrong("%s is a table: add the name of a key, such as %s", key, variableNames(into.Type(), prefix)[0])
	case !isScalar(into.Type()):
		wrong(onlyInFile, key)
	default:
		d.variables[key] = name
		if !setText(into, text) {
			d.wrong(key, "%q is not %s", text, strings.Replace(wanted(into.Type()), " in quotes", "", 1))
		}
	}
}

// variableAdvice returns what to write instead of a variable. Its name has an unknown word after
// prefix.
func variableAdvice(name, prefix, word string, known []string) string {
	if meant := misspelled(name); meant != "" {
		return "did you mean " + meant + "?"
	}
	if near, ok := spell.Nearest(strings.ToUpper(word), known); ok {
		return "did you mean " + prefix + variableSeparator + near + strings.TrimPrefix(name, prefix+variableSeparator+word) + "?"
	}
	return "after " + prefix + variableSeparator + " there are " + strings.Join(known, ", ")
}

// misspelled returns the variable of the setting that differs from name only in underscores and the
// case of letters, "" if there is none.
func misspelled(name string) string {
	words := func(s string) string {
		return strings.Join(strings.FieldsFunc(strings.ToUpper(s), func(r rune) bool { return r == '_' }), "_")
	}
	for _, n := range variableNames(reflect.TypeFor[mainFile](), strings.TrimSuffix(variablePrefix, variableSeparator)) {
		if n != name && words(n) == words(name) {
			return n
		}
	}
	return ""
}

// variableWords returns the words of the names of variables for the keys of a table, with the index
// of each field. Lists have no variables. They are included for their own error message.
func variableWords(t reflect.Type) map[string]int {
	words := map[string]int{}
	for i := range t.NumField() {
		if f := t.Field(i); f.Tag.Get("env") != "-" {
			words[strings.ToUpper(f.Tag.Get("toml"))] = i
		}
	}
	return words
}

// variableNames returns the names of all variables that set keys of a table, in its order.
func variableNames(t reflect.Type, prefix string) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name := prefix + variableSeparator + strings.ToUpper(f.Tag.Get("toml"))
		switch {
		case f.Tag.Get("env") == "-":
		case isTable(f.Type):
			names = append(names, variableNames(f.Type, name)...)
		case isScalar(f.Type):
			names = append(names, name)
		}
	}
	return names
}

func isTable(t reflect.Type) bool { return t.Kind() == reflect.Struct && !hasText(t) }

// isScalar reports whether one string sets a value of the type.
func isScalar(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64:
		return true
	}
	return hasText(t)
}

// hasText reports whether values of the type have a text form of their own.
func hasText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// setText sets a scalar to the value of a text. It returns false if the text is not of its form.
func setText(into reflect.Value, text string) bool {
	if u, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text)) == nil
	}
	switch into.Kind() {
	case reflect.String:
		into.SetString(text)
	case reflect.Bool:
		into.SetBool(text == "true")
		return text == "true" || text == "false"
	default: // an integer, see isScalar
		n, err := strconv.ParseInt(text, 10, into.Type().Bits())
		into.SetInt(n)
		return err == nil
	}
	return true
}

// Origin is where the value of a setting comes from.
type Origin struct {
	Key      string // such as limits.sockets
	Place    string // file and line, or the environment variable
	Replaced string // file and line of the value that the variable replaces; "": none
}

// origins returns the origin of each key below a table that the file or a variable sets, in the
// order of t.
func (d *document) origins(path string, t reflect.Value) (list []Origin) {
	for i := range t.NumField() {
		f, key := t.Field(i), joinKey(path, t.Type().Field(i).Tag.Get("toml"))
		switch {
		case isTable(f.Type()):
			list = append(list, d.origins(key, f)...)
			continue
		case f.Kind() == reflect.Slice && isTable(f.Type().Elem()):
			for n := range f.Len() {
				list = append(list, d.origins(key+"["+strconv.Itoa(n)+"]", f.Index(n))...)
			}
			continue
		}
		o := Origin{Key: key, Place: d.variables[key]}
		if n := d.lines[key]; n > 0 {
			o.Replaced = d.file + ":" + strconv.Itoa(n)
		}
		if o.Place == "" {
			o.Place, o.Replaced = o.Replaced, ""
		}
		if o.Place != "" {
			list = append(list, o)
		}
	}
	return list
}
