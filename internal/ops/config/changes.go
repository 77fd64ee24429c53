package config

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/market"
)

// Changes are the differences between the configuration of a running gateway and the one that was
// read again.
type Changes struct {
	Change  gateway.Change // what applies while the gateway runs
	Restart []string       // what applies after a restart

	commits []func()
}

// Commit records that the gateway has made the Change.
func (c *Changes) Commit() {
	for _, f := range c.commits {
		f()
	}
}

// startOnly are the keys of [limits] and [throttle] that apply at the start.
var startOnly = map[string]bool{
	"limits.history_readers": true, "throttle.account_failures": true, "throttle.account_failure_window": true,
}

// applies reports whether a setting applies while a gateway runs. The content of the files of
// markets and instruments is compared separately, and so is the level of the log.
func applies(key string) bool {
	switch key {
	case "tls.certificate", "tls.key", "admin.certificate", "admin.key", "markets", "instruments", "log.level":
		return true
	}
	table, _, _ := strings.Cut(key, ".")
	return (table == "limits" || table == "throttle") && !startOnly[key]
}

// Changes compares s, the settings of a running gateway, with those that were read again.
func (s *Settings) Changes(next *Settings) *Changes {
	c := &Changes{}
	own, other := &s.Gateway, &next.Gateway
	certificates := map[string]struct{ old, next *gateway.TLS }{"tls": {&own.TLS, &other.TLS}, "admin": {&own.Admin.TLS, &other.Admin.TLS}}
	limits := false
	compare("", reflect.ValueOf(&s.file).Elem(), reflect.ValueOf(&next.file).Elem(), func(key string, old, latest reflect.Value) {
		table, _, _ := strings.Cut(key, ".")
		files, certificate := certificates[table]
		switch {
		case key == "log.level":
			return
		case !applies(key), certificate && (files.old.Certificate == "") != (files.next.Certificate == ""):
			c.Restart = append(c.Restart, key)
			return
		case table == "limits" || table == "throttle":
			limits = true
		case table == "tls":
			c.Change.TLS = files.next
		case table == "admin":
			c.Change.AdminTLS = files.next
		}
		c.Change.Names = append(c.Change.Names, key)
		c.commits = append(c.commits, func() { old.Set(latest) })
	})
	if limits {
		l := other.Limits
		l.HistoryReaders = own.Limits.HistoryReaders
		l.Logins.AccountFailures, l.Logins.AccountFailureWindow = own.Limits.Logins.AccountFailures, own.Limits.Logins.AccountFailureWindow
		c.Change.Limits = &l
		c.commits = append(c.commits, func() { own.Limits = l })
	}
	for _, files := range certificates {
		c.commits = append(c.commits, func() {
			if files.old.Certificate != "" && files.next.Certificate != "" {
				files.old.Certificate, files.old.Key = files.next.Certificate, files.next.Key
			}
		})
	}
	c.level(own, &next.file)
	c.catalogue(own, other)
	return c
}

// level compares the level of the log with the one that is in use, which an operator may have
// changed.
func (c *Changes) level(own *gateway.Config, next *mainFile) {
	var level slog.Level
	if own.LogLevel == nil || next.Log.Level != "" && level.UnmarshalText([]byte(next.Log.Level)) != nil || own.LogLevel.Level() == level {
		return
	}
	c.Change.LogLevel = &level
	c.Change.Names = append(c.Change.Names, "log.level")
}

// catalogue compares markets and instruments. A market that would get another time zone, or begin
// or end to have hours, waits for a restart with its instruments, and so does what is removed.
func (c *Changes) catalogue(own, next *gateway.Config) {
	markets, waiting := byKey(own.Markets, marketID), map[string]bool{}
	for _, m := range next.Markets {
		old, known := markets[m.ID]
		switch {
		case known && reflect.DeepEqual(old, m):
		case !known && hours(&m), known && (old.Timezone != m.Timezone || old.StatusFromFeed != m.StatusFromFeed || old.Positive != m.Positive || hours(&old) != hours(&m)):
			waiting[m.ID] = true
			c.Restart = append(c.Restart, "market "+m.ID)
		default:
			c.Change.Markets = append(c.Change.Markets, m)
			c.Change.Names = append(c.Change.Names, "market "+m.ID)
		}
	}
	after := byKey(next.Markets, marketID)
	for _, m := range own.Markets {
		if _, ok := after[m.ID]; !ok {
			c.Restart = append(c.Restart, "market "+m.ID)
		}
	}
	instruments, later := byKey(own.Instruments, instrumentID), 0
	for _, in := range next.Instruments {
		switch old, known := instruments[in.ID]; {
		case known && reflect.DeepEqual(old, in):
		case waiting[in.ID.Market]:
			later++
		default:
			c.Change.Instruments = append(c.Change.Instruments, in)
		}
	}
	listed := byKey(next.Instruments, instrumentID)
	for _, in := range own.Instruments {
		if _, ok := listed[in.ID]; !ok {
			later++
		}
	}
	if n := len(c.Change.Instruments); n > 0 {
		c.Change.Names = append(c.Change.Names, fmt.Sprintf("instruments (%d)", n))
	}
	if later > 0 {
		c.Restart = append(c.Restart, fmt.Sprintf("instruments (%d)", later))
	}
	c.commits = append(c.commits, func() {
		own.Markets = merge(own.Markets, c.Change.Markets, marketID)
		own.Instruments = merge(own.Instruments, c.Change.Instruments, instrumentID)
	})
}

func marketID(m market.Market) string                       { return m.ID }
func instrumentID(in market.Instrument) market.InstrumentID { return in.ID }

func hours(m *market.Market) bool {
	return len(m.Schedule.Sessions)+len(m.Schedule.Holidays)+len(m.Schedule.Weekdays) > 0
}

func byKey[K comparable, V any](list []V, key func(V) K) map[K]V {
	all := make(map[K]V, len(list))
	for _, v := range list {
		all[key(v)] = v
	}
	return all
}

// merge returns list with those of changed in the place of the ones with the same key, and the
// others after them.
func merge[K comparable, V any](list, changed []V, key func(V) K) []V {
	list, latest := slices.Clone(list), byKey(changed, key)
	for i, v := range list {
		if next, ok := latest[key(v)]; ok {
			list[i] = next
			delete(latest, key(v))
		}
	}
	for _, v := range changed {
		if _, ok := latest[key(v)]; ok {
			list = append(list, v)
		}
	}
	return list
}

// compare calls f for each key whose values differ. Tables are structs; a list or a map is one
// value.
func compare(prefix string, a, b reflect.Value, f func(key string, a, b reflect.Value)) {
	for i := range a.NumField() {
		key := prefix + a.Type().Field(i).Tag.Get("toml")
		x, y := a.Field(i), b.Field(i)
		switch {
		case x.Kind() == reflect.Struct:
			compare(key+".", x, y, f)
		case !reflect.DeepEqual(x.Interface(), y.Interface()):
			f(key, x, y)
		}
	}
}
