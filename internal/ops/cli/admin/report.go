package admin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/internal/api/adminapi"
	"github.com/ruedahq/rueda/internal/identity/usage"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/market"
)

func NewReport(std command.Streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Report the usage of a gateway",
		Args:  command.Subcommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newReportUsage(std))
	return cmd
}

// usageReport has the flags of rueda report usage.
type usageReport struct {
	database       userOptions
	month, market  string
	json, totalled bool
}

func newReportUsage(std command.Streams) *cobra.Command {
	var r usageReport
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Report who used which market data in a month",
		Long: `Usage lists each user, market, level and delay of a month, with the number of days, the
largest number of simultaneous connections, and the first and last use. Totals are per
market, level and delay: the number of users, the sum of their days, and the sum of
their connections.

Levels are trades (also bars, summaries and statuses), quotes and order_book. The market *
stands for subscriptions to every market, which count in the totals of each market. Days
and months are in UTC. A running gateway writes its counts every 10 s.

With --token-file or --admin, the report comes from a running gateway. The token needs the role
operate.

A table is followed by one of the totals. Other formats have the rows, or with --totals only the
totals.

Exit status: 0 success, also without any usage; 1 other errors; 2 a mistake on the command
line.`,
		Example: `  rueda report usage --config rueda/rueda.toml
  rueda report usage \
    --config rueda/rueda.toml --month 2026-11 --market BYMA -o csv > byma.csv
  rueda report usage --data /var/lib/rueda --month 2026-10 --totals`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.run(cmd.Context(), std) },
	}
	f := cmd.Flags()
	f.StringVar(&r.database.config, "config", "", "configuration file that names the database")
	f.StringVar(&r.database.data, "data", "", "data folder with the database")
	r.database.gateway.Flags(cmd)
	f.StringVar(&r.month, "month", "", "month, such as 2026-11, UTC (default the current one)")
	f.StringVar(&r.market, "market", "", "only this market")
	r.database.out.Older(cmd, "csv", "csv")
	f.BoolVar(&r.json, "json", false, "one JSON object, with rows and totals")
	_ = f.MarkHidden("json") // the flag exists
	f.BoolVar(&r.totalled, "totals", false, "only the totals")
	return r.database.rows(cmd)
}

func (r *usageReport) run(ctx context.Context, std command.Streams) (err error) {
	bad := func(format string, args ...any) error {
		return command.Fail(command.ExitUsage, fmt.Errorf(format, args...), "See rueda report usage --help")
	}
	r.month = cmp.Or(r.month, time.Now().UTC().Format(monthFormat))
	if _, err := time.Parse(monthFormat, r.month); err != nil {
		return bad("--month %q: a month is written 2026-11", r.month)
	}
	format := r.database.out.Format(std)
	if r.json && format == "csv" {
		return bad("--json and -o csv cannot be combined")
	}
	used, err := r.used(ctx, std)
	if err != nil {
		return err
	}
	rows := r.rows(used)
	totals := totalUsage(rows)
	if r.market != "" && r.market != market.Any {
		totals = slices.DeleteFunc(totals, func(t usageTotal) bool { return t.Market != r.market })
	}
	switch {
	case r.json:
		text, err := json.MarshalIndent(map[string]any{"month": r.month, "rows": rows, "totals": totals}, "", "  ")
		if err == nil {
			_, err = std.Out.Write(append(command.EscapeControls(text), '\n'))
		}
		return err
	case format == "csv":
		return writeUsageCSV(std.Out, r, rows, totals)
	case len(rows) == 0:
		fmt.Fprintf(std.Err, "Nothing was used in %s.\n", r.month)
	}
	return r.print(std, rows, totals, format == "table")
}

const monthFormat = "2006-01"

// usageRow is a row of the report.
type usageRow struct {
	UserID      string    `json:"user_id"`
	Username    string    `json:"username,omitempty"` // "": the user is not in this database
	Market      string    `json:"market"`
	Level       string    `json:"level"`
	Delay       int       `json:"delay_seconds"`
	Days        int       `json:"days"`
	Connections int       `json:"connections"` // largest number at a time; 0: requests only
	First       time.Time `json:"first"`
	Last        time.Time `json:"last"`

	days uint32
}

// usageTotal has the usage of all users for a level of a market.
type usageTotal struct {
	Market      string `json:"market"`
	Level       string `json:"level"`
	Delay       int    `json:"delay_seconds"`
	Users       int    `json:"users"`
	Days        int    `json:"user_days"`
	Connections int    `json:"connections"` // the sum of each user's maximum
}

// used returns the usage of the month, of a running gateway or of a database.
func (r *usageReport) used(ctx context.Context, std command.Streams) (used []usage.Row, err error) {
	served, err := r.database.served(ctx, std, "operate")
	if err != nil {
		return nil, err
	}
	if served {
		var answer adminapi.UsageReport
		err := r.database.gateway.Send(ctx, http.MethodGet, "/admin/usage?month="+r.month, nil, &answer)
		return answer.Rows, err
	}
	data, err := r.database.open(ctx, std, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	return usage.Report(ctx, data.Store, data.Users, r.month)
}

// rows returns the rows of the report.
func (r *usageReport) rows(used []usage.Row) []usageRow {
	rows := []usageRow{}
	for i := range used {
		u := &used[i]
		if r.market != "" && u.Market != r.market && u.Market != market.Any {
			continue
		}
		row := usageRow{
			UserID: u.UserID, Username: u.Username, Market: u.Market, Level: u.Level, Delay: u.Delay,
			Days: len(u.Days), Connections: u.Connections, First: u.First, Last: u.Last,
		}
		for _, day := range u.Days {
			if day >= 1 && day <= 31 {
				row.days |= 1 << (day - 1)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func (r *usageRow) name() string { return cmp.Or(r.Username, r.UserID) }

// totalUsage sums the rows by market, level and delay. A user of all markets counts for each market
// that has rows.
func totalUsage(rows []usageRow) []usageTotal {
	type key struct {
		market, level string
		delay         int
	}
	type use struct {
		days        uint32
		connections int
	}
	var markets []string
	for _, r := range rows {
		if r.Market != market.Any && !slices.Contains(markets, r.Market) {
			markets = append(markets, r.Market)
		}
	}
	if len(markets) == 0 {
		markets = []string{market.Any}
	}
	all := make(map[key]map[string]use)
	for _, r := range rows {
		in := []string{r.Market}
		if r.Market == market.Any {
			in = markets
		}
		for _, name := range in {
			k := key{name, r.Level, r.Delay}
			if all[k] == nil {
				all[k] = make(map[string]use)
			}
			u := all[k][r.UserID]
			all[k][r.UserID] = use{u.days | r.days, u.connections + r.Connections}
		}
	}
	totals := []usageTotal{}
	for k, users := range all {
		t := usageTotal{Market: k.market, Level: k.level, Delay: k.delay, Users: len(users)}
		for _, u := range users {
			t.Days += bits.OnesCount32(u.days)
			t.Connections += u.connections
		}
		totals = append(totals, t)
	}
	slices.SortFunc(totals, func(a, b usageTotal) int {
		return cmp.Or(cmp.Compare(a.Market, b.Market), cmp.Compare(a.Level, b.Level), cmp.Compare(a.Delay, b.Delay))
	})
	return totals
}

// print prints the rows, the totals, or both.
func (r *usageReport) print(std command.Streams, rows []usageRow, totals []usageTotal, both bool) error {
	if !r.totalled {
		w, err := r.database.out.Open(std, "user", "market", "level", "mode", "days", "connections", "first", "last")
		if err != nil {
			return err
		}
		for i := range rows {
			u := &rows[i]
			if err := w.Row(u, u.name(), u.Market, u.Level, mode(u.Delay), strconv.Itoa(u.Days), strconv.Itoa(u.Connections),
				u.First.Format(time.RFC3339), u.Last.Format(time.RFC3339)); err != nil {
				return err
			}
		}
		if err := w.Close(); err != nil || !both {
			return err
		}
		fmt.Fprintln(std.Out)
	}
	w, err := r.database.out.Open(std, "market", "level", "mode", "users", "days", "connections")
	if err != nil {
		return err
	}
	for _, t := range totals {
		if err := w.Row(t, t.Market, t.Level, mode(t.Delay), strconv.Itoa(t.Users), strconv.Itoa(t.Days), strconv.Itoa(t.Connections)); err != nil {
			return err
		}
	}
	return w.Close()
}

// mode describes a delay.
func mode(delay int) string {
	if delay == 0 {
		return "real time"
	}
	text := (time.Duration(delay) * time.Second).String()
	for _, zero := range []string{"m0s", "h0m"} { // 15m0s becomes 15m, and 1h0m0s becomes 1h
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return "delayed " + text
}

// plainCell returns a text for a cell of a spreadsheet. A spreadsheet would run a text that begins
// like a formula, so that such a text gets a quotation mark in front, which spreadsheets hide.
func plainCell(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}

func writeUsageCSV(out io.Writer, r *usageReport, rows []usageRow, totals []usageTotal) error {
	var text bytes.Buffer
	w := csv.NewWriter(&text)
	if r.totalled {
		_ = w.Write([]string{"month", "market", "level", "delay_seconds", "users", "user_days", "connections"}) // Error reports it
		for _, t := range totals {
			_ = w.Write([]string{r.month, t.Market, t.Level, strconv.Itoa(t.Delay), strconv.Itoa(t.Users), strconv.Itoa(t.Days), strconv.Itoa(t.Connections)})
		}
	} else {
		_ = w.Write([]string{"month", "user_id", "username", "market", "level", "delay_seconds", "days", "connections", "first", "last"})
		for _, u := range rows {
			_ = w.Write([]string{r.month, plainCell(u.UserID), plainCell(u.Username), u.Market, u.Level, strconv.Itoa(u.Delay), strconv.Itoa(u.Days), strconv.Itoa(u.Connections),
				u.First.Format(time.RFC3339), u.Last.Format(time.RFC3339)})
		}
	}
	w.Flush()
	return errors.Join(w.Error(), command.WriteText(out, text.String()))
}
