package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/auth"
	"github.com/ruedahq/rueda/internal/config"
	"github.com/ruedahq/rueda/internal/database"
)

// loadConfig reads a configuration for a command that goes on.
func loadConfig(ctx context.Context, std streams, name string) (*config.Settings, error) {
	defer std.endAtOnce(ctx)()
	return readConfig(std, name)
}

// readConfig reads a configuration. What is wrong with one is a mistake of usage.
func readConfig(std streams, name string) (*config.Settings, error) {
	s, err := config.Read(name, newLogger(std))
	if err != nil {
		advice := ""
		if e := (*config.Error)(nil); errors.As(err, &e) {
			advice = e.Advice
		}
		return nil, fail(exitUsage, err, advice)
	}
	s.Gateway.Version = readBuild().Version
	return s, nil
}

// useUsers gives the gateway the users and accounts that a configuration names. builtIn is the
// built-in user base.
func useUsers(ctx context.Context, s *config.Settings, builtIn *local.Base) error {
	if err := s.Users.Use(ctx, &s.Gateway, builtIn); err != nil {
		return fail(exitUsage, err, "")
	}
	return nil
}

// newLogger writes the log to standard error, as the configuration says.
func newLogger(std streams) func(config.Log) *slog.Logger {
	return func(c config.Log) *slog.Logger {
		opts := &slog.HandlerOptions{}
		var level slog.Level
		if err := level.UnmarshalText([]byte(cmp.Or(c.Level, "info"))); err == nil { // checked with the rest
			opts.Level = level
		}
		if c.Format == "json" {
			return slog.New(slog.NewJSONHandler(std.talk, opts))
		}
		return slog.New(slog.NewTextHandler(std.talk, opts))
	}
}

// explainKeys adds the next step to an error of opening a database or its keys. The database was
// opened with the configuration file or the data folder; the other one is "".
func explainKeys(err error, config, data string) error {
	place, setting := databaseFlags(config, data)
	var missing *database.MissingKeysError
	switch {
	case errors.Is(err, auth.ErrNoEncryptionKey) && config == "":
		return fail(exitUsage, errors.New("the keys in "+filepath.Clean(data)+" are encrypted"), "Use --config FILE: its [keys] names the encryption key.")
	case !errors.As(err, &missing):
		return explainFolder(err, "", setting)
	case !missing.Used:
		return fail(exitUsage, missing, "rueda user add makes both with the first user, and rueda serve does.")
	}
	return fail(exitError, missing, "Put it back from your backup. To begin with new keys (logins end, second factors are lost,\n"+
		"the audit log begins anew), with no gateway running: rueda keys new "+place)
}

// databaseFlags returns the arguments that name the database, and the setting of its folder.
func databaseFlags(config, data string) (args, setting string) {
	if config == "" {
		return "--data " + quoteShell(data), "--data"
	}
	return "--config " + quoteShell(config), "data in " + config
}
