package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// dump writes the PostgreSQL database as SQL statements. Commands of psql and settings that older
// servers lack are left out.
func (in *installation) dump(ctx context.Context, dsn string) error {
	cmd := exec.CommandContext(ctx, "pg_dump", "--inserts", "--no-owner", "--no-privileges", dsn)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("pg_dump: %w", err)
	}
	var kept strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "\\") || strings.HasPrefix(line, "--") || strings.HasPrefix(line, "SET transaction_timeout") || strings.TrimSpace(line) == "" {
			continue
		}
		kept.WriteString(line)
	}
	return os.WriteFile(filepath.Join(in.folder, "dump.sql"), []byte(kept.String()), 0o600)
}
