package admin

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/base/progress"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// Limits of an import. Users are added in batches, because each transaction waits for the disk.
const (
	importBatch   = 500
	maxImportLine = 64 << 10 // bytes
)

// imports returns the command user import.
func (o *userOptions) imports(std command.Streams) *cobra.Command {
	var p presetFlags
	var dryRun bool
	var format string
	cmd := o.creating(std, "import FILE", "Import users of another system with their password hashes", command.ExactArgs("file with the users"),
		func(name string, users userBase) error {
			if users != nil { // of a gateway
				_, err := inDatabase(users, "import users")
				return err
			}
			if _, err := p.own(cmp.Or(p.rights, "none")); err != nil {
				return err
			}
			if _, err := os.Stat(name); name != "-" && err != nil {
				return command.Fail(command.ExitUsage, err, "")
			}
			if format == "" {
				format = strings.TrimPrefix(strings.ToLower(filepath.Ext(name)), ".")
			}
			if !slices.Contains([]string{"csv", "jsonl", "ndjson"}, format) {
				return command.Fail(command.ExitUsage, fmt.Errorf("%s: the format is neither csv nor jsonl", cmp.Or(map[string]string{"-": "standard input"}[name], name)), "Use --format csv or --format jsonl.")
			}
			return nil
		},
		func(ctx context.Context, std command.Streams, users userBase, args []string) error {
			base, err := inDatabase(users, "import users")
			if err != nil {
				return err
			}
			return o.importFile(ctx, std, base, args[0], format, &p, dryRun)
		})
	cmd.Long = `Import adds users from a file, - for standard input, with the password hashes of another
system: bcrypt, scrypt, PBKDF2 with SHA-256 or SHA-512, argon2id. Users log in with their
old passwords, and their hashes are then replaced by argon2id. docs/users.md lists the forms.

CSV has a heading: username and hash, and optionally disabled (true or false), groups and scopes
(separated by spaces). JSON lines have the same names; groups and scopes are lists.

A rejected line is printed with its number, and the other lines are added. Existing users are
not changed and are not errors, so an import can be repeated. Try it with --dry-run first.

Exit status: 1 if a line was rejected.`
	cmd.Example = `  rueda user import users.csv --group equity --dry-run --config rueda/rueda.toml
  rueda user import users.jsonl --rights quotes --data /var/lib/rueda`
	f := cmd.Flags()
	f.StringVar(&format, "format", "", "csv or jsonl (default: by the file name)")
	p.add(cmd)
	f.Lookup("rights").Usage += ", in addition to scopes of the file (default none)"
	f.BoolVar(&dryRun, "dry-run", false, "check the file without adding users")
	return cmd
}

// importing has the state of an import.
type importing struct {
	std    command.Streams
	users  *local.Base
	name   string
	dryRun bool
	own    local.Rights
	groups []string

	batch []local.Imported
	lines []int           // of the batch
	seen  map[string]bool // accepted usernames of the file, in lower case
	wrong []wrongLine     // since the last flush, which prints them in the order of the file

	read, added, there, refused atomic.Int64
}

// wrongLine is a line that cannot be added.
type wrongLine struct {
	number int
	err    error
}

func (o *userOptions) importFile(ctx context.Context, std command.Streams, users *local.Base, name, format string, p *presetFlags, dryRun bool) (err error) {
	own, err := p.own(cmp.Or(p.rights, "none"))
	if err != nil {
		return err
	}
	for _, e := range own.Entitlements {
		if err := o.checkServed(std, e); err != nil {
			return err
		}
	}
	if err := p.checkGroups(ctx, users); err != nil {
		return err
	}
	in, file := std.In, name
	if name == "-" {
		file = "standard input"
	} else {
		f, err := os.Open(name)
		if err != nil {
			return command.Fail(command.ExitUsage, err, "")
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		in = f
	}
	shown := command.NewProgress(&std)
	i := &importing{std: std, users: users, name: file, dryRun: dryRun, own: own, groups: p.groups, seen: map[string]bool{}}
	stop := shown.During(ctx, func() string {
		return fmt.Sprintf("%s users read, %s added", progress.Thousands(i.read.Load()), progress.Thousands(i.added.Load()))
	})
	defer stop()
	switch format {
	case "csv":
		err = i.csv(ctx, in)
	default:
		err = i.jsonLines(ctx, in)
	}
	if err == nil {
		err = i.flush(ctx)
	}
	i.printErrors()
	stop()
	return i.report(err)
}

// report prints the totals. Users that were added stay, whatever happened afterwards.
func (i *importing) report(err error) error {
	verb := "Added"
	if i.dryRun {
		verb = "Would add"
	}
	if err != nil && i.read.Load() == 0 {
		return err
	}
	fmt.Fprintf(i.std.Out, "%s %s, already present %s, refused %s\n", verb, progress.Thousands(i.added.Load()),
		progress.Thousands(i.there.Load()), progress.Thousands(i.refused.Load()))
	if err != nil {
		return err
	}
	if n := i.refused.Load(); n > 0 {
		return command.Fail(command.ExitError, fmt.Errorf("%s lines could not be added", progress.Thousands(n)), "Fix the lines above and run the import again: existing users are not changed.")
	}
	return nil
}

// problem records what is wrong with a line, and counts it. It never shows the content.
func (i *importing) problem(line int, err error) {
	i.refused.Add(1)
	i.wrong = append(i.wrong, wrongLine{line, err})
	if len(i.batch) == 0 {
		i.printErrors()
	}
}

// printErrors prints the errors, line by line.
func (i *importing) printErrors() {
	slices.SortStableFunc(i.wrong, func(a, b wrongLine) int { return cmp.Compare(a.number, b.number) })
	for _, w := range i.wrong {
		for text := range strings.Lines(w.err.Error()) {
			fmt.Fprintf(i.std.Err, "%s:%d: %s\n", i.name, w.number, command.Printable(strings.TrimSpace(text)))
		}
	}
	i.wrong = i.wrong[:0]
}

// add accepts one user of the file.
func (i *importing) add(ctx context.Context, line int, u local.Imported) error {
	i.read.Add(1)
	for _, scope := range u.Rights.Scopes {
		if !slices.Contains(knownScopes, scope) {
			i.problem(line, fmt.Errorf("there is no scope %q", scope))
			return nil
		}
	}
	for _, s := range i.own.Scopes {
		if !slices.Contains(u.Rights.Scopes, s) {
			u.Rights.Scopes = append(u.Rights.Scopes, s)
		}
	}
	u.Rights.Entitlements = i.own.Entitlements
	for _, g := range i.groups {
		if !slices.Contains(u.Groups, g) {
			u.Groups = append(u.Groups, g)
		}
	}
	i.batch, i.lines = append(i.batch, u), append(i.lines, line)
	if len(i.batch)+len(i.wrong) < importBatch {
		return nil
	}
	return i.flush(ctx)
}

// flush adds the users of the batch.
func (i *importing) flush(ctx context.Context) error {
	if len(i.batch) == 0 {
		return nil
	}
	problems, err := i.users.Import(ctx, i.batch, i.dryRun)
	if err != nil {
		return fmt.Errorf("from line %d on: %w", i.lines[0], err)
	}
	for n, p := range problems {
		name := i.batch[n].Username
		folded := strings.ToLower(name)
		there := errors.Is(p, local.ErrExists) && !errors.Is(p, local.ErrCase)
		switch {
		case p != nil && !there:
			i.problem(i.lines[n], p)
			continue
		case i.seen[folded]:
			i.problem(i.lines[n], fmt.Errorf("user %q is in the file twice", name))
		case there:
			i.there.Add(1)
		default:
			i.added.Add(1)
		}
		i.seen[folded] = true
	}
	i.batch, i.lines = i.batch[:0], i.lines[:0]
	i.printErrors()
	return nil
}

// csv reads rows after a heading.
func (i *importing) csv(ctx context.Context, in io.Reader) error {
	r := csv.NewReader(in)
	r.ReuseRecord = true
	heading, err := r.Read()
	if err != nil {
		return command.Fail(command.ExitUsage, fmt.Errorf("%s has no heading", i.name), "The first line names the columns: username,hash")
	}
	columns := map[string]int{}
	for n, name := range heading {
		name = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
		if _, twice := columns[name]; twice || !slices.Contains([]string{"username", "hash", "disabled", "groups", "scopes"}, name) {
			return command.Fail(command.ExitUsage, fmt.Errorf("%s:1: column %q is unknown or a duplicate", i.name, name), "Columns are username, hash, disabled, groups and scopes.")
		}
		columns[name] = n
	}
	for _, needed := range []string{"username", "hash"} {
		if _, ok := columns[needed]; !ok {
			return command.Fail(command.ExitUsage, fmt.Errorf("%s:1: there is no column %s", i.name, needed), "The first line names the columns: username,hash")
		}
	}
	for {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		line, _ := r.FieldPos(0)
		var bad *csv.ParseError
		if errors.As(err, &bad) && errors.Is(bad.Err, csv.ErrFieldCount) {
			i.read.Add(1)
			i.problem(bad.Line, wrongColumns(len(record), len(heading)))
			continue
		}
		if err != nil { // unbalanced quotes: the following rows cannot be separated
			return fmt.Errorf("read %s: %w", i.name, err)
		}
		field := func(name string) string {
			if n, ok := columns[name]; ok {
				return strings.Clone(record[n])
			}
			return ""
		}
		u := local.Imported{Username: field("username"), Hash: field("hash"), Groups: strings.Fields(field("groups"))}
		u.Rights.Scopes = strings.Fields(field("scopes"))
		if text := field("disabled"); text != "" {
			if u.Disabled, err = strconv.ParseBool(text); err != nil {
				i.read.Add(1)
				i.problem(line, errors.New("disabled is neither true nor false"))
				continue
			}
		}
		if err := i.add(ctx, line, u); err != nil {
			return err
		}
	}
}

// wrongColumns returns the error for a row with a different number of columns than the heading.
func wrongColumns(has, wanted int) error {
	text, separated := "columns", ""
	if has == 1 {
		text, separated = "column", " (are they separated by commas?)"
	}
	return fmt.Errorf("%d %s, and the heading has %d%s", has, text, wanted, separated)
}

// importedLine is a user in JSON lines.
type importedLine struct {
	Username string   `json:"username"`
	Hash     string   `json:"hash"`
	Disabled bool     `json:"disabled"`
	Groups   []string `json:"groups"`
	Scopes   []string `json:"scopes"`
}

// jsonLines reads one object per line.
func (i *importing) jsonLines(ctx context.Context, in io.Reader) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxImportLine)
	n := 0
	for lines.Scan() {
		n++
		text := bytes.TrimSpace(lines.Bytes())
		if len(text) == 0 {
			continue
		}
		var u importedLine
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		err := d.Decode(&u)
		if err == nil && d.InputOffset() != int64(len(text)) {
			err = errors.New("something follows the object")
		}
		if err != nil {
			i.read.Add(1)
			i.problem(n, fmt.Errorf("not a user: %w", err))
			continue
		}
		err = i.add(ctx, n, local.Imported{
			Username: u.Username, Hash: u.Hash, Disabled: u.Disabled, Groups: u.Groups, Rights: local.Rights{Scopes: u.Scopes},
		})
		if err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read %s after line %d: %w", i.name, n, err)
	}
	return nil
}
