package command

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/database"
	"github.com/ruedahq/rueda/internal/ops/config"
)

// LoadConfig does the same as ReadConfig. An interrupt ends the process during the call.
func LoadConfig(ctx context.Context, std Streams, name string) (*config.Settings, error) {
	defer std.ExitOnInterrupt(ctx)()
	return ReadConfig(std, name)
}

// ReadConfig reads a configuration file. Its mistakes have the status ExitUsage.
func ReadConfig(std Streams, name string) (*config.Settings, error) {
	s, err := config.Read(name, NewLogger(std))
	if err != nil {
		advice := ""
		if e := (*config.Error)(nil); errors.As(err, &e) {
			advice = e.Advice
		}
		return nil, Fail(ExitUsage, err, advice)
	}
	s.Gateway.Version = ReadBuild().Version
	return s, nil
}

// UseUsers gives the gateway the users and accounts that a configuration names. builtIn is the
// built-in user base.
func UseUsers(ctx context.Context, s *config.Settings, builtIn *local.Base) error {
	if err := s.Users.Use(ctx, &s.Gateway, builtIn); err != nil {
		return Fail(ExitUsage, err, "")
	}
	return nil
}

// NewLogger returns a function that makes a logger to standard error, in the configured format and
// level, and returns its level too, which can be changed.
func NewLogger(std Streams) func(config.Log) (*slog.Logger, *slog.LevelVar) {
	return func(c config.Log) (*slog.Logger, *slog.LevelVar) {
		level := new(slog.LevelVar)
		_ = level.UnmarshalText([]byte(cmp.Or(c.Level, "info"))) // already checked
		opts := &slog.HandlerOptions{Level: level}
		if c.Format == "json" {
			return slog.New(slog.NewJSONHandler(std.Err, opts)), level
		}
		return slog.New(slog.NewTextHandler(std.Err, opts)), level
	}
}

// ExplainKeys adds the next step to an error of opening a database or its keys. The database was
// opened with the configuration file or the data folder; the other one is "".
func ExplainKeys(err error, config, data string) error {
	place, setting := DatabaseFlags(config, data)
	var missing *database.MissingKeysError
	switch {
	case errors.Is(err, keyset.ErrNoEncryptionKey) && config == "":
		return Fail(ExitUsage, errors.New("the keys in "+filepath.Clean(data)+" are encrypted"), "Use --config FILE: its [keys] names the encryption key.")
	case !errors.As(err, &missing):
		return ExplainFolder(err, "", setting)
	case !missing.Used:
		return Fail(ExitUsage, missing, "rueda serve and the first rueda user add create both.")
	}
	return Fail(ExitError, missing, "Restore it from your backup. To begin with new keys (logins end, second factors are lost,\n"+
		"a new audit log begins), with no gateway running: rueda keys new "+place)
}

// DatabaseFlags returns the arguments that name the database, and the setting of its folder.
func DatabaseFlags(config, data string) (args, setting string) {
	if config == "" {
		return "--data " + QuoteShell(data), "--data"
	}
	return "--config " + QuoteShell(config), "data in " + config
}
