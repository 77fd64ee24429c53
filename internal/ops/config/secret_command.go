package config

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
	"unicode"
)

const (
	// secretTime is the time limit of a command that prints a secret.
	secretTime = 10 * time.Second
	// pipeTime is how long the output of a command is read after the command has ended. A process
	// that it started may keep the output open.
	pipeTime = time.Second
	// maxComplaint bounds the standard error of a command that is shown, in bytes.
	maxComplaint = 1 << 10
)

// othersWrite is the mode bits with which others than the owner may change a file.
const othersWrite = 0o022

// output keeps the first bytes that are written to it.
type output struct {
	text []byte
	most int
	full bool // more was written
}

func (o *output) Write(p []byte) (int, error) {
	space := min(len(p), o.most-len(o.text))
	o.text = append(o.text, p[:space]...)
	o.full = o.full || space < len(p)
	return len(p), nil
}

// run runs a command that prints a secret: a program with its arguments, without a shell, in the
// folder of the configuration. The error has what the program wrote to standard error, never its
// output.
func (d *document) run(argv []string, limit time.Duration) (string, error) {
	info, err := os.Stat(d.file)
	if err != nil {
		return "", err
	}
	if info.Mode().Perm()&othersWrite != 0 && runtime.GOOS != "windows" {
		return "", fmt.Errorf("not run, because others can change %s: chmod go-w %s", d.file, d.file)
	}
	name := argv[0]
	if strings.ContainsRune(name, filepath.Separator) {
		if name, err = filepath.Abs(d.relative(name)); err != nil {
			return "", err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	secret, complaint := &output{most: maxSecret}, &output{most: maxComplaint}
	cmd := exec.CommandContext(ctx, name, argv[1:]...) //nolint:gosec // the operator's own configuration names it
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = filepath.Dir(d.file), secret, complaint, pipeTime
	err = cmd.Run()
	said := onOneLine(string(complaint.text))
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("it did not end within %v", limit)
	case secret.full:
		err = fmt.Errorf("it printed more than %d bytes", maxSecret)
	case err == nil && len(trimLineEnd(secret.text)) == 0:
		err = errors.New("it printed nothing")
	case err == nil:
		return string(trimLineEnd(secret.text)), nil
	}
	if said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return "", fmt.Errorf("%s: %w", argv[0], err)
}

// trimLineEnd returns a text without the line ends after it.
func trimLineEnd(text []byte) []byte { return []byte(strings.TrimRight(string(text), "\r\n")) }

// onOneLine returns the text of another program without line ends and control characters.
func onOneLine(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)), " ")
}
