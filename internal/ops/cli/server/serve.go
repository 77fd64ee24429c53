package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/internal/ops/cli/command"
	"github.com/ruedahq/rueda/internal/ops/config"
	"github.com/ruedahq/rueda/internal/ops/sdnotify"
)

// NewServe returns the command serve.
func NewServe(std command.Streams) *cobra.Command {
	var name, folder, role string
	var check, minimal bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a gateway by a configuration file",
		Long: `Serve runs a gateway for real clients: users and tokens in a database, markets and
instruments from files, feeds, TLS.

--init writes a configuration with a comment for every key, with --minimal a short one.
Environment variables override keys of the file: RUEDA__LIMITS__SOCKETS is sockets of
[limits]. --check reads a configuration and prints all mistakes without
serving, or where each setting comes from. The first SIGTERM drains: clients are
disconnected over the drain window. The second one ends the process at once. SIGHUP and
rueda reload read the configuration again.`,
		Example: `  rueda serve --init rueda                    write rueda/rueda.toml and others
  rueda serve --init rueda --minimal          the same with a short rueda.toml
  rueda serve --config rueda/rueda.toml --check
  rueda user add ana --config rueda/rueda.toml
  rueda serve --config rueda/rueda.toml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case folder != "" && (name != "" || check):
				return command.Fail(command.ExitUsage, errors.New("--init can be combined with --minimal only"), "")
			case folder != "":
				return writeExamples(std, folder, minimal)
			case minimal:
				return command.Fail(command.ExitUsage, errors.New("--minimal needs --init"), "Add --init DIR, the folder for the files.")
			case name == "":
				return command.Fail(command.ExitUsage, errors.New("no configuration"), "Use --config FILE; rueda serve --init DIR writes an example.")
			case role != "" && role != "all" && role != "sequencer" && role != "edge":
				return command.Fail(command.ExitUsage, fmt.Errorf("--role %q is not all, sequencer or edge", role), "")
			case check:
				return checkConfig(cmd.Context(), std, name)
			}
			return runServe(cmd.Context(), std, name, role)
		},
	}
	f := cmd.Flags()
	f.StringVar(&name, "config", "", "configuration file")
	f.BoolVar(&check, "check", false, "check the configuration and exit")
	f.StringVar(&role, "role", "", "role in the cluster: all, sequencer or edge (default: as configured)")
	f.StringVar(&folder, "init", "", "write an example configuration into this folder and exit")
	f.BoolVar(&minimal, "minimal", false, "with --init: only the settings that most gateways need")
	return cmd
}

// checkConfig checks a configuration as serve does, with its certificate. It opens no database.
func checkConfig(ctx context.Context, std command.Streams, name string) error {
	defer std.ExitOnInterrupt(ctx)()
	s, err := command.ReadConfig(std, name)
	if err != nil {
		return err
	}
	if err := s.CheckFiles(); err != nil {
		return command.Fail(command.ExitUsage, err, "")
	}
	if err := gateway.Check(s.Gateway); err != nil {
		return command.Fail(command.ExitUsage, fmt.Errorf("%s: %w", name, err), "")
	}
	if _, err := fmt.Fprintf(std.Out, "%s is valid: %s, %s, %s\n", name, command.Count(len(s.Gateway.Markets), "market"),
		command.Count(len(s.Gateway.Instruments), "instrument"), command.Count(len(s.Gateway.Feeds), "feed")); err != nil {
		return err
	}
	if err := printOrigins(std.Out, s.Origins); err != nil {
		return err
	}
	for _, text := range s.Warnings {
		fmt.Fprintf(std.Err, "Warning: %s\n", text)
	}
	fmt.Fprintf(std.Err, "Not checked: the database and the user base; use %s user check NAME --config %s.\n", command.ProgramName(), command.QuoteShell(name))
	if s.Gateway.Cluster.Name != "" {
		fmt.Fprintln(std.Err, "Not checked: the NATS servers; the log of the gateway says whether it is connected.")
	}
	return nil
}

// printOrigins prints where each setting comes from. All others have their default.
func printOrigins(to io.Writer, list []config.Origin) error {
	width := 0
	for _, o := range list {
		width = max(width, len(o.Key))
	}
	for _, o := range list {
		replaced := ""
		if o.Replaced != "" {
			replaced = ", not " + o.Replaced
		}
		if _, err := fmt.Fprintf(to, "  %-*s  %s%s\n", width, o.Key, o.Place, replaced); err != nil {
			return err
		}
	}
	return nil
}

// errNoCluster means that a role is given to a gateway that is no node of a cluster.
var errNoCluster = errors.New("a role needs a cluster, and the configuration has no name in [cluster]")

func runServe(ctx context.Context, std command.Streams, name, role string) (err error) {
	hangups := make(chan os.Signal, 1) // those before the start is complete wait
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	s, err := command.LoadConfig(ctx, std, name)
	if err != nil {
		return err
	}
	if err := s.CheckFiles(); err != nil {
		return command.Fail(command.ExitUsage, err, "")
	}
	cluster := &s.Gateway.Cluster
	if role != "" {
		if cluster.Name == "" && role != "all" {
			return command.Fail(command.ExitUsage, errNoCluster, "docs/cluster.md has an example.")
		}
		cluster.Role = role
	}
	for _, text := range s.Warnings {
		s.Gateway.Logger.Warn("weak setting in the configuration", "reason", text)
	}
	data, err := s.OpenData(ctx)
	if err != nil {
		return command.ExplainKeys(err, name, "")
	}
	defer func() { err = errors.Join(err, data.Close()) }()
	s.Gateway.Data = data
	defer func() { err = errors.Join(err, s.Users.Close()) }()
	if err := command.UseUsers(ctx, s, data.Users); err != nil {
		return err
	}
	for _, f := range s.Gateway.Feeds {
		lines, ok := f.Source.(interface {
			Listen(ctx context.Context) error
			Close() error
		})
		if !ok || cluster.Name != "" { // a node of a cluster listens when it runs the feeds
			continue
		}
		if err := lines.Listen(ctx); err != nil {
			return explainListen(err, s.Lines[f.Name], fmt.Sprintf("listen of feed %q in %s, such as", f.Name, name))
		}
		defer func() { err = errors.Join(err, lines.Close()) }()
	}
	gateway.SpareProcessors()
	bound := make(chan gateway.Bound, 1)
	s.Gateway.OnReady = func(b gateway.Bound) { bound <- b }
	r := &reloader{name: name, settings: s, systemd: sdnotify.New(os.Getenv)}
	s.Gateway.Reload = r.reload
	s.Gateway.OnStart = logStart(s.Gateway.Logger)
	ready, err := gateway.AnswerStarting(ctx, s.Gateway)
	if err != nil {
		return explainStart(err, s, name)
	}
	g, err := gateway.New(ctx, s.Gateway)
	ready()
	if stopped(ctx, err) {
		return nil
	}
	if err != nil {
		return explainStart(command.ExplainFolder(err, s.Gateway.Journal.Folder, "folder of [journal] in "+name), s, name)
	}
	if s.Gateway.Users == nil {
		warnNoUsers(ctx, std, data, name)
	}
	r.gateway = g
	return explainStart(supervised(ctx, r, bound, hangups), s, name)
}

// supervised runs a gateway, and reads its configuration again after each hangup. It reports the
// state to systemd, if that waits for it: when it is ready, when it drains, and as long as it
// answers.
func supervised(ctx context.Context, r *reloader, bound <-chan gateway.Bound, hangups <-chan os.Signal) error {
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the drain too
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	report := func(err error) {
		if err != nil {
			r.settings.Gateway.Logger.Warn("systemd not notified", "error", err)
		}
	}
	watch.Go(func() {
		select {
		case b := <-bound:
			report(r.ready("Serves " + b.REST))
			watch.Go(func() { r.serve(running, hangups) })
			url := localURL(b.Address, strings.HasPrefix(b.REST, "https:")) + "/livez"
			r.systemd.Watchdog(running, func(ctx context.Context) error { return probe(ctx, url) })
		case <-running.Done():
		}
	})
	defer context.AfterFunc(ctx, func() { report(r.systemd.Stopping()) })()
	return r.gateway.Run(ctx)
}

// explainStart adds the key of the configuration file to the error for an address that cannot be
// opened.
func explainStart(err error, s *config.Settings, name string) error {
	if errors.Is(err, gateway.ErrAdmin) {
		return explainListen(err, s.Gateway.Admin.Listen, "listen of [admin] in "+name+", such as")
	}
	return explainListen(err, s.Gateway.Listen, "listen in "+name+", such as")
}

// warnNoUsers prints how to add the first user, if there is none.
func warnNoUsers(ctx context.Context, std command.Streams, data *gateway.Data, name string) {
	if list, err := data.Users.List(ctx); err == nil && len(list) == 0 {
		fmt.Fprintf(std.Err, "Nobody can log in yet: %s user add NAME --config %s\n", command.ProgramName(), command.QuoteShell(name))
	}
}

// writeExamples writes the example configuration. It replaces no files.
func writeExamples(std command.Streams, folder string, minimal bool) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	written, err := config.Write(folder, minimal)
	for _, name := range written {
		if _, err := fmt.Fprintln(std.Out, name); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(std.Err, "Next: %s serve --config %s --check\n", command.ProgramName(), command.QuoteShell(written[0]))
	return nil
}
