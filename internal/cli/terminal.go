package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/ruedahq/rueda/internal/progress"
)

// isTerminal says whether a person is at the other end of a stream.
func isTerminal(s any) bool {
	f, ok := s.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// paint wraps text in an ANSI attribute where the stream is a terminal that wants it.
type paint bool

func painter(w io.Writer) paint {
	return paint(isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

func (p paint) bold(s string) string  { return p.with("1", s) }
func (p paint) faint(s string) string { return p.with("2", s) }
func (p paint) green(s string) string { return p.with("32", s) }
func (p paint) red(s string) string   { return p.with("31", s) }

func (p paint) with(attribute, s string) string {
	if !p {
		return s
	}
	return "\x1b[" + attribute + "m" + s + "\x1b[0m"
}

// newProgress puts a progress before what a command says.
func newProgress(std *streams) *progress.Progress {
	p := progress.New(std.talk, isTerminal(std.talk) && bool(painter(std.talk)))
	std.talk = p
	return p
}

// quoteShell writes a word so that a shell takes it as one: identifiers hold pipes.
func quoteShell(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

const maxPassword = 1024

// readPassword takes the first line of standard input if fromStdin is set, otherwise asks at
// the terminal, without echo; twice if it is a new one, which check is for.
func readPassword(std streams, prompt string, fromStdin bool, check func(string) error) (string, error) {
	if fromStdin {
		return readLine(std.in)
	}
	if !isTerminal(std.in) {
		return "", fail(exitUsage, errors.New("no password given"),
			"There is no terminal to ask at: pipe it in with --password-stdin.")
	}
	password, err := askSecret(std, prompt+": ")
	if err != nil || check == nil {
		return password, err
	}
	if err := check(password); err != nil { // before it is typed again
		return "", err
	}
	again, err := askSecret(std, "Once more: ")
	if err != nil {
		return "", err
	}
	if again != password {
		return "", errors.New("the two passwords differ")
	}
	return password, nil
}

func askSecret(std streams, prompt string) (string, error) {
	in, ok := std.in.(*os.File)
	if !ok {
		return "", errors.New("standard input is not a terminal")
	}
	fmt.Fprint(std.talk, prompt)
	text, err := term.ReadPassword(int(in.Fd()))
	fmt.Fprintln(std.talk)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return string(text), nil
}

// readLine reads the first line without its line end.
func readLine(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxPassword+2)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the password: %w", err)
	}
	line = strings.TrimRight(line, "\r\n")
	switch {
	case line == "":
		return "", fail(exitUsage, errors.New("no password on standard input"), "")
	case len(line) > maxPassword:
		return "", fail(exitUsage, fmt.Errorf("a password has at most %d bytes", maxPassword), "")
	}
	return line, nil
}

// programName is how whoever started this program would start it again.
func programName() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/rueda"
	}
	return quoteShell(os.Args[0])
}

// count is a number of things in words.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
