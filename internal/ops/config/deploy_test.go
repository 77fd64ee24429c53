package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDeployedConfigurations reads the configurations of containers, with the variables that their
// manifests set, and next to the examples of markets and instruments.
func TestDeployedConfigurations(t *testing.T) {
	t.Setenv("RUEDA_ENCRYPTION_KEY", strings.Repeat("0f", 32))
	for name, url := range map[string]string{
		"docker":     "postgres://rueda:secret@/rueda?host=/var/run/postgresql", // of compose.yaml
		"kubernetes": "postgres://rueda:secret@db.broker.example/rueda?sslmode=verify-full",
	} {
		t.Setenv("RUEDA_DATABASE_URL", url)
		folder := t.TempDir()
		if _, err := Write(folder, false); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join("../../../deploy", name, "rueda.toml"))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(folder, "rueda.toml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Read(file, func(Log) (*slog.Logger, *slog.LevelVar) { return slog.New(slog.DiscardHandler), nil })
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.HasSuffix(s.Gateway.Listen, ":8080") || len(s.Gateway.Feeds) != 1 {
			t.Errorf("%s: listens on %s, with %d feeds", name, s.Gateway.Listen, len(s.Gateway.Feeds))
		}
		if err := s.Users.Close(); err != nil {
			t.Error(err)
		}
	}
}
