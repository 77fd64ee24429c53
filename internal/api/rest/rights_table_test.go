package rest_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ruedahq/rueda/broker"
)

// Outcomes of a cell of the table of rights.
const (
	allowed = "allowed"
	delayed = "delayed" // the same data, later
	trimmed = "trimmed" // without the rows that are too new for a delay, or too old without history
	refused = "refused" // nothing of it
)

// Levels of data in the table.
const (
	levelTrades  = "trades"
	levelQuotes  = "quotes"
	levelBook5   = "book, depth 5"
	levelBook    = "book, all levels"
	levelStatus  = "status"
	levelSummary = "summary"
	levelBars    = "bars"
)

// tableDelay is the delay of delayed data in the table.
const tableDelay = 5 * time.Minute

// tableRight is a column of the table: a kind of user. real and late list the levels that its
// rights grant in real time and delayed; trades stand for summaries and bars too.
type tableRight struct {
	name       string
	rights     []broker.Entitlement
	missing    string   // scope that the user lacks
	id         string   // instrument that is requested; "": A|M|CI
	real, late []string // levels
	listed     string   // outcome of statuses in lists; "": as the status of the stream
	noExport   bool     // the rights are not to all instruments
}

func tableRights() []tableRight {
	const late = int(tableDelay / time.Second)
	all := broker.Entitlement{Market: "M", Trades: true, Quotes: true, Depth: -1}
	with := func(change func(*broker.Entitlement)) []broker.Entitlement {
		e := all
		change(&e)
		return []broker.Entitlement{e}
	}
	every := []string{levelTrades, levelQuotes, levelBook5, levelBook, levelStatus}
	past, future := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	return []tableRight{
		{name: "none"},
		{name: "another market", rights: with(func(e *broker.Entitlement) { e.Market = "OTHER" })},
		{name: "ended", rights: with(func(e *broker.Entitlement) { e.Until = past })},
		{name: "not begun", rights: with(func(e *broker.Entitlement) { e.From = future })},
		{name: "all", rights: []broker.Entitlement{all}, real: every},
		{name: "every market", rights: with(func(e *broker.Entitlement) { e.Market = "*" }), real: every},
		{name: "trades", rights: []broker.Entitlement{{Market: "M", Trades: true}}, real: []string{levelTrades, levelStatus}},
		{name: "quotes", rights: []broker.Entitlement{{Market: "M", Quotes: true}}, real: []string{levelQuotes, levelStatus}},
		{name: "book to 5", rights: []broker.Entitlement{{Market: "M", Depth: 5}}, real: []string{levelBook5, levelStatus}},
		{name: "all, delayed", rights: with(func(e *broker.Entitlement) { e.Delay = late }), late: every},
		{name: "trades; the rest delayed", rights: []broker.Entitlement{{Market: "M", Trades: true}, {Market: "M", Quotes: true, Depth: -1, Delay: late}},
			real: []string{levelTrades, levelStatus}, late: []string{levelQuotes, levelBook5, levelBook}},
		{name: "1 instrument: the first", rights: with(func(e *broker.Entitlement) { e.Instruments = 1 }), real: every, noExport: true},
		{name: "1 instrument: another", rights: with(func(e *broker.Entitlement) { e.Instruments = 1 }), id: "B|M|CI", listed: allowed, noExport: true},
		{name: "1 instrument; all delayed: another", rights: append(with(func(e *broker.Entitlement) { e.Instruments = 1 }), with(func(e *broker.Entitlement) { e.Delay = late })...),
			id: "B|M|CI", late: every, listed: allowed},
		{name: "all, no scope read", rights: []broker.Entitlement{all}, missing: broker.ScopeRead, real: every},
		{name: "all, no scope depth", rights: []broker.Entitlement{all}, missing: broker.ScopeDepth, real: every},
		{name: "all, no scope history", rights: []broker.Entitlement{all}, missing: broker.ScopeHistory, real: every},
		{name: "all delayed, no scope history", rights: with(func(e *broker.Entitlement) { e.Delay = late }), missing: broker.ScopeHistory, late: every},
	}
}

// of returns what the rights grant of a level: allowed, delayed or refused.
func (r *tableRight) of(level string) string {
	if level == levelSummary || level == levelBars {
		level = levelTrades
	}
	switch {
	case slices.Contains(r.real, level):
		return allowed
	case slices.Contains(r.late, level):
		return delayed
	}
	return refused
}

// tableRow is a row of the table: what is requested.
type tableRow struct {
	face, level, time string
	// want returns the outcome for a right. It is written without the code that decides.
	want func(r *tableRight) string
	// ask requests it and returns a function that returns the outcome when the delay has passed.
	ask func(w *rightsWorld, u *tableUser) func() string
}

// scoped returns refused if a right lacks one of the scopes, otherwise granted.
func scoped(r *tableRight, granted string, scopes ...string) string {
	if slices.Contains(scopes, r.missing) {
		return refused
	}
	return granted
}

// bookScope returns the scope that a level needs besides others.
func bookScope(level string) string {
	if level == levelBook || level == levelBook5 {
		return broker.ScopeDepth
	}
	return broker.ScopeRead
}

// levelChannel returns the parameter of the stream for a level.
func levelChannel(level string) string {
	if level == levelBook || level == levelBook5 {
		return "order_book"
	}
	return level
}

func tableRows() (rows []tableRow) {
	for _, face := range []string{"WebSocket", "server-sent events", "JSON lines"} {
		for _, level := range []string{levelTrades, levelQuotes, levelBook5, levelBook, levelStatus, levelSummary, levelBars} {
			for _, when := range []string{"now", "since today's open", "since yesterday", "resume from yesterday"} {
				if when != "now" && level != levelTrades && level != levelStatus && level != levelBars {
					continue // it is not replayed
				}
				if when == "resume from yesterday" && face != "WebSocket" {
					continue // the others resume by position
				}
				rows = append(rows, tableRow{
					face: face, level: level, time: when,
					want: func(r *tableRight) string {
						granted := scoped(r, r.of(level), broker.ScopeRead, bookScope(level))
						switch {
						case when == "since yesterday":
							return scoped(r, granted, broker.ScopeHistory)
						case when == "resume from yesterday" && granted != refused && r.missing == broker.ScopeHistory:
							return trimmed
						}
						return granted
					},
					ask: func(w *rightsWorld, u *tableUser) func() string { return w.follow(u, face, level, when) },
				})
			}
		}
	}
	rows = append(rows, snapshotRows()...)
	for _, level := range []string{levelBook5, levelBook} {
		depth := map[string]string{levelBook5: "5", levelBook: "0"}[level]
		rows = append(rows, tableRow{
			face: "GET /market/book", level: level, time: "now",
			want: func(r *tableRight) string { return scoped(r, r.of(level), broker.ScopeRead, broker.ScopeDepth) },
			ask: func(w *rightsWorld, u *tableUser) func() string {
				return w.get(u, "/market/book?depth="+depth+"&instrument=", `"B":\[\[(\d)`, delayed)
			},
		}, tableRow{
			face: "GET /market/book?at=", level: level, time: "yesterday",
			want: func(r *tableRight) string {
				if r.of(level) == refused {
					return refused
				}
				return scoped(r, allowed, broker.ScopeRead, broker.ScopeDepth, broker.ScopeHistory)
			},
			ask: func(w *rightsWorld, u *tableUser) func() string {
				return w.get(u, "/market/book?at=2000-01-01T13:00:00Z&depth="+depth+"&instrument=", `"B":\[\[(\d)`, delayed)
			},
		})
	}
	for _, level := range []string{levelTrades, levelQuotes, levelStatus, levelBars} {
		path := "/market/" + map[string]string{levelStatus: "statuses"}[level] + map[bool]string{true: level}[level != levelStatus]
		for _, when := range []string{"today", "yesterday"} {
			span := map[string]string{"today": "start=2000-01-02", "yesterday": "start=2000-01-01&end=2000-01-02"}[when]
			rows = append(rows, tableRow{
				face: "GET " + path, level: level, time: when,
				want: func(r *tableRight) string {
					switch granted := scoped(r, r.of(level), broker.ScopeHistory); {
					case granted == delayed && when == "today":
						return trimmed
					case granted == delayed:
						return allowed // it is old enough
					default:
						return granted
					}
				},
				ask: func(w *rightsWorld, u *tableUser) func() string {
					return w.get(u, path+"?"+span+"&instrument=", markers(level), trimmed)
				},
			})
		}
	}
	return append(rows, listRows()...)
}

// snapshotRows are the rows of GET /market/snapshot, whose members have one delay.
func snapshotRows() (rows []tableRow) {
	for _, level := range []string{levelTrades, levelQuotes, levelSummary, levelStatus} {
		rows = append(rows, tableRow{
			face: "GET /market/snapshot", level: level, time: "now",
			want: func(r *tableRight) string {
				trades, quotes := r.of(levelTrades), r.of(levelQuotes)
				switch {
				case trades == refused && quotes == refused, r.of(level) == refused:
					return refused
				case trades == delayed || quotes == delayed:
					return scoped(r, delayed, broker.ScopeRead)
				}
				return scoped(r, allowed, broker.ScopeRead)
			},
			ask: func(w *rightsWorld, u *tableUser) func() string {
				return w.get(u, "/market/snapshot?instruments=", markers(level), delayed)
			},
		})
	}
	return rows
}

// listRows are the rows of routes that take no instrument.
func listRows() (rows []tableRow) {
	for _, face := range []string{"/market/status", "/market/instruments"} {
		rows = append(rows, tableRow{
			face: "GET " + face, level: levelStatus, time: "now",
			want: func(r *tableRight) string {
				granted := r.of(levelStatus)
				if r.listed != "" {
					granted = r.listed
				}
				return scoped(r, granted, broker.ScopeRead)
			},
			ask: func(w *rightsWorld, u *tableUser) func() string {
				return w.get(u, face, `"instrument":"`+regexp.QuoteMeta(u.right.instrument())+`"[^}]*"status":"(halt|pause|suspended|quoting)"`, delayed)
			},
		})
	}
	for _, level := range []string{levelTrades, levelQuotes, levelBars, levelBook} {
		kind := level
		if level == levelBook {
			kind = "depth"
		}
		rows = append(rows, tableRow{
			face: "GET /market/export", level: level, time: "yesterday",
			want: func(r *tableRight) string {
				if r.of(level) == refused || r.noExport {
					return refused
				}
				scope := broker.ScopeHistory
				if level == levelBook {
					scope = broker.ScopeDepth
				}
				return scoped(r, allowed, broker.ScopeHistory, scope)
			},
			ask: func(w *rightsWorld, u *tableUser) func() string {
				return w.get(u, "/market/export?date=2000-01-01&market=M&format=ndjson&type="+kind, markers(level), delayed)
			},
		})
	}
	return rows
}

// markers returns an expression for the text that shows which batch a message is of.
func markers(level string) string {
	switch level {
	case levelTrades:
		return `"type":"T"[^}]*"P":(\d)`
	case levelQuotes:
		return `"type":"Q"[^}]*"BP":(\d)`
	case levelStatus:
		return `"type":"H"[^}]*"E":"(halt|pause|suspended|quoting)"`
	case levelSummary:
		return `"type":"D"[^}]*"LA":(\d)`
	case levelBars:
		return `"type":"K"[^}]*"CL":(\d)`
	}
	return `"type":"O"[^}]*"B":\[\[(\d)`
}

// newest returns the number of the newest batch that a text has messages of; 0: none.
func newest(text, expression string) (n int) {
	for _, m := range regexp.MustCompile(expression).FindAllStringSubmatch(text, -1) {
		batch := 1 + slices.Index([]string{"halt", "pause", "suspended", "quoting"}, m[1])
		if batch == 0 {
			batch, _ = strconv.Atoi(m[1])
		}
		n = max(n, batch)
	}
	return n
}

// instrument returns the instrument that a user of this kind requests.
func (r *tableRight) instrument() string {
	if r.id != "" {
		return r.id
	}
	return "A|M|CI"
}

// TestRightsTable executes each cell of the table of docs/entitlements-table.md on its interface:
// no interface grants more than another one, or earlier.
func TestRightsTable(t *testing.T) {
	t.Parallel()
	rights, rows := tableRights(), tableRows()
	got := make([][]string, len(rows))
	synctest.Test(t, func(t *testing.T) {
		w, stop := newRightsWorld(t, rights)
		defer stop()
		var users []*tableUser
		for i := range rights {
			u := &tableUser{right: &rights[i]}
			u.access, _ = w.login(t, "user"+strconv.Itoa(i))
			users = append(users, u)
			if u.right.id != "" { // the first instrument is A
				w.gateway.get("/market/snapshot?instruments=A%7CM%7CCI", u.access)
			}
		}
		var ends []func() string
		for _, row := range rows {
			for _, u := range users {
				ends = append(ends, row.ask(w, u))
			}
		}
		w.publish(4)
		time.Sleep(90 * time.Second) // the bars of its minute are there
		synctest.Wait()
		for i, end := range ends {
			if early := end(); early != "" { // delayed streams have nothing yet
				ends[i] = func() string { return early }
			}
		}
		time.Sleep(tableDelay + time.Minute)
		synctest.Wait()
		for i, end := range ends {
			got[i/len(users)] = append(got[i/len(users)], end())
		}
	})
	cells := 0
	for i, row := range rows {
		for j := range rights {
			cells++
			if want := row.want(&rights[j]); got[i][j] != want {
				t.Errorf("%s, %s, %s, with the right %q: %s, want %s", row.face, row.level, row.time, rights[j].name, got[i][j], want)
			}
		}
	}
	t.Logf("figure: rights: %d cells", cells)
	writeRightsTable(t, rights, rows, cells)
}

// writeRightsTable compares the table with its document, or writes it with -update.
func writeRightsTable(t *testing.T, rights []tableRight, rows []tableRow, cells int) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, `# Table of entitlements

This table lists what each interface answers for each level of data, time and kind of right: %d
cells. `+"`TestRightsTable` of `internal/api/rest`"+` executes each of them and writes this page with
`+"`-update`"+`. Interfaces with the same answers share a row. [Entitlements](users.md#entitlements)
explains the rights.

- **allowed**: all of it, in real time.
- **delayed**: the same data, after the delay of the right.
- **trimmed**: without the rows that are too new for the delay, or too old without the scope
  `+"`marketdata:history`"+`. A resume reports those as lost.
- **refused**: nothing of it. A snapshot omits the member.

`, cells)
	for start := 0; start < len(rights); start += 6 {
		columns := rights[start:min(start+6, len(rights))]
		b.WriteString("| interface | level | time |")
		for _, r := range columns {
			b.WriteString(" " + r.name + " |")
		}
		b.WriteString("\n|---|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
		var requests []string // level, time and answers, each once
		faces := map[string][]string{}
		for _, row := range rows {
			request := row.level + " | " + row.time + " |"
			for j := range columns {
				request += " " + row.want(&columns[j]) + " |"
			}
			if faces[request] == nil {
				requests = append(requests, request)
			}
			faces[request] = append(faces[request], row.face)
		}
		for _, request := range requests {
			b.WriteString("| " + strings.Join(faces[request], ", ") + " | " + request + "\n")
		}
		b.WriteString("\n")
	}
	text := strings.TrimRight(b.String(), "\n") + "\n"
	const name = "../../../docs/entitlements-table.md"
	if *update {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if kept, err := os.ReadFile(name); err != nil || string(kept) != text {
		t.Errorf("%s is not the table of this test (%v): run it with -update", name, err)
	}
}
