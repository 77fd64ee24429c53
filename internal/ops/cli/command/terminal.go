package command

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/ruedahq/rueda/internal/base/progress"
)

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(s any) bool {
	f, ok := s.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Size returns the number of columns and lines of a terminal, 0 for any other stream.
func Size(w io.Writer) (columns, lines int) {
	if f, ok := w.(*os.File); ok {
		columns, lines, _ = term.GetSize(int(f.Fd())) // 0 and 0 with an error
	}
	return columns, lines
}

// Paint adds ANSI attributes to text, if it is true.
type Paint bool

// NewPaint returns whether w is a terminal that shows attributes.
func NewPaint(w io.Writer) Paint {
	return Paint(IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

// Bold returns s in bold.
func (p Paint) Bold(s string) string { return p.with("1", s) }

// Faint returns s in a faint colour.
func (p Paint) Faint(s string) string { return p.with("2", s) }

// Green returns s in green.
func (p Paint) Green(s string) string { return p.with("32", s) }

// Red returns s in red.
func (p Paint) Red(s string) string { return p.with("31", s) }

func (p Paint) with(attribute, s string) string {
	if !p {
		return s
	}
	return "\x1b[" + attribute + "m" + s + "\x1b[0m"
}

// Printable replaces the characters of s that a terminal would act on, or that are not visible, by
// U+FFFD. Text of a server, a feed or a user must not move the cursor or set the title. Tabs and
// line feeds stay.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// WriteText writes text for people that may have text of a server, a feed, a file or a user, as
// Printable returns it.
func WriteText(w io.Writer, text string) error {
	_, err := io.WriteString(w, Printable(text))
	return err
}

// EscapeControls returns JSON in which the control characters that JSON allows in strings, U+007F
// to U+009F, are escapes, because some terminals act on them. It returns raw itself if it has none.
func EscapeControls(raw []byte) []byte {
	isControl := func(r rune) bool { return r >= 0x7f && r <= 0x9f }
	if bytes.IndexFunc(raw, isControl) < 0 {
		return raw
	}
	var b []byte
	for _, r := range string(raw) {
		if isControl(r) {
			b = fmt.Appendf(b, `\u%04x`, r)
		} else {
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

// NewProgress returns a progress line on the error stream. Other output to that stream must go
// through it, so it replaces std.Err.
func NewProgress(std *Streams) *progress.Progress {
	p := progress.New(std.Err, IsTerminal(std.Err) && bool(NewPaint(std.Err)))
	std.Err = p
	return p
}

// QuoteShell quotes a word for a shell, because identifiers contain pipes.
func QuoteShell(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

const maxPassword = 1024

// ReadPassword reads the first line of standard input if fromStdin is set, and otherwise asks on
// the terminal without echo. With check, which is for new passwords, it asks twice.
func ReadPassword(std Streams, prompt string, fromStdin bool, check func(string) error) (string, error) {
	if fromStdin {
		return readLine(std.In)
	}
	if err := CheckPasswordSource(std, fromStdin); err != nil {
		return "", err
	}
	password, err := askSecret(std, prompt+": ")
	if err != nil || check == nil {
		return password, err
	}
	if err := check(password); err != nil { // before it is entered again
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

// CheckPasswordSource returns an error if ReadPassword has nothing to read from.
func CheckPasswordSource(std Streams, fromStdin bool) error {
	if fromStdin || IsTerminal(std.In) {
		return nil
	}
	return Fail(ExitUsage, errors.New("no password given"), "There is no terminal for a prompt: use --password-stdin.")
}

// Ask prints a prompt, and returns the line that is typed, without spaces at its ends.
func Ask(std Streams, prompt string) (string, error) {
	fmt.Fprint(std.Err, prompt)
	line, err := bufio.NewReader(io.LimitReader(std.In, maxPassword)).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	return strings.TrimSpace(line), nil
}

func askSecret(std Streams, prompt string) (string, error) {
	in, ok := std.In.(*os.File)
	if !ok {
		return "", errors.New("standard input is not a terminal")
	}
	fmt.Fprint(std.Err, prompt)
	text, err := term.ReadPassword(int(in.Fd()))
	fmt.Fprintln(std.Err)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return string(text), nil
}

// readLine returns the first line without its end.
func readLine(r io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxPassword+2)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read the password: %w", err)
	}
	line = strings.TrimRight(line, "\r\n")
	switch {
	case line == "":
		return "", Fail(ExitUsage, errors.New("no password on standard input"), "")
	case len(line) > maxPassword:
		return "", Fail(ExitUsage, fmt.Errorf("a password has at most %d bytes", maxPassword), "")
	}
	return line, nil
}

// ProgramName returns the command that starts this program again.
func ProgramName() string {
	if strings.Contains(os.Args[0], "go-build") {
		return "go run ./cmd/rueda"
	}
	return QuoteShell(os.Args[0])
}

// Count returns a number of things as text, such as "2 markets".
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
