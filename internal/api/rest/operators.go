package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/base/fileowner"
	"github.com/ruedahq/rueda/internal/base/reload"
)

// Minimum length of a token and maximum size of a token file, in bytes.
const (
	leastToken = 32
	mostTokens = 64 << 10
)

// readTokenFile returns the content of a token file. It returns an error if other users of the
// system may read the file, unless the file was mounted for this process.
func readTokenFile(name string) (string, error) {
	if name == "" {
		return "", errors.New("token_file is missing")
	}
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: write it as in docs/operations.md#operators", err)
	}
	if err != nil {
		return "", err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" && !fileowner.Mounted(info, os.Geteuid()) {
		return "", fmt.Errorf("mode %04o of %s lets others read it: run chmod 600", mode, name)
	}
	if info.Size() > mostTokens || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s must be a file of at most %d bytes", name, mostTokens)
	}
	text, err := os.ReadFile(name)
	return string(text), fileowner.Unreadable(err)
}

// Operators returns a function that returns the current operators. If file is not empty, they come
// from this token file, which is read again when it changes. Otherwise they come from text.
func Operators(text, file string, logger *slog.Logger) (func() []Operator, error) {
	if text != "" && file == "" {
		list, err := parseOperators("the text of the tokens", text)
		return func() []Operator { return list }, err
	}
	f, err := reload.NewStrict(file, ReadOperators, logger)
	return f.Get, err
}

// ReadOperators returns the operators in a token file. The file contains a single token, or a line
// for each operator: a name, the SHA-256 of the token in hexadecimal, a role, and optionally the
// last valid day.
func ReadOperators(name string) ([]Operator, error) {
	text, err := readTokenFile(name)
	if err != nil {
		return nil, err
	}
	return parseOperators(name, text)
}

// parseOperators parses the text of a token file; name stands for the file in errors. If some lines
// are wrong, it returns an error and the operators of the other lines. So a mistake in one line
// neither keeps a removed operator nor locks out the others.
func parseOperators(name, text string) (list []Operator, err error) {
	lines := 0
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		lines++
		o, wrong := parseOperator(fields)
		if wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s: operator %d: %w", name, lines, wrong))
			continue
		}
		list = append(list, o)
	}
	unnamed := func(o Operator) bool { return o.Name == "" }
	if err != nil {
		return slices.DeleteFunc(list, unnamed), err
	}
	if len(list) > 1 && slices.ContainsFunc(list, unnamed) {
		return slices.DeleteFunc(list, unnamed), fmt.Errorf("%s has a token without a name beside other lines: remove it, or give it a line NAME SHA256 ROLE (docs/operations.md#operators)", name)
	}
	if len(list) == 0 {
		return slices.DeleteFunc(list, unnamed), fmt.Errorf("%s must have one line of at least %d characters, letters and digits, or a line for each operator", name, leastToken)
	}
	return list, nil
}

func parseOperator(fields []string) (o Operator, err error) {
	notToken := func(r rune) bool { return r <= ' ' || r > '~' }
	if len(fields) == 1 { // a token
		if len(fields[0]) < leastToken || strings.ContainsFunc(fields[0], notToken) {
			return o, fmt.Errorf("a token has one line of at least %d characters, letters and digits", leastToken)
		}
		return Operator{Hash: sha256.Sum256([]byte(fields[0])), Role: RoleOperate}, nil
	}
	if len(fields) < 3 || len(fields) > 4 || len(fields[0]) > 64 || strings.ContainsFunc(fields[0], notToken) {
		return o, errors.New("want NAME SHA256 read|operate|identity [YYYY-MM-DD]")
	}
	o.Name = fields[0]
	sum, err := hex.DecodeString(fields[1])
	if err != nil || len(sum) != len(o.Hash) {
		return o, errors.New("the SHA-256 of a token has 64 hexadecimal digits")
	}
	copy(o.Hash[:], sum)
	if o.Role, err = ParseRole(fields[2]); err != nil {
		return o, err
	}
	if len(fields) == 4 {
		day, err := time.Parse(time.DateOnly, fields[3])
		if err != nil {
			return o, fmt.Errorf("%q is no day like 2027-01-31", fields[3])
		}
		o.Expires = day.AddDate(0, 0, 1)
	}
	return o, nil
}
