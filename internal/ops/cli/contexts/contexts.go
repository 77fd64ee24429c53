// Package contexts keeps the gateways and logins that a person uses on the command line. A context
// is the name of a gateway with a username. The folder of the contexts has a file with all of them
// and, for each login, a file of tokens that only the user may read.
package contexts

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ruedahq/rueda/client"
)

// Context is a gateway with a user.
type Context struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	User string `json:"user"`
}

// List has the contexts of a person.
type List struct {
	Current  string    `json:"current,omitempty"` // "": none
	Contexts []Context `json:"contexts"`          // sorted by name

	folder string
}

// ErrUnknown is returned for a context that does not exist.
var ErrUnknown = errors.New("there is no such context")

// Folder returns the folder of the contexts: $RUEDA_CONTEXTS, or rueda in the folder of the user's
// configuration.
func Folder() (string, error) {
	if folder := os.Getenv("RUEDA_CONTEXTS"); folder != "" {
		return folder, nil
	}
	folder, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("folder of the contexts: %w", err)
	}
	return filepath.Join(folder, "rueda"), nil
}

// Read returns the contexts, none if there is no file or the user has no folder for it.
func Read() (*List, error) {
	folder, err := Folder()
	if err != nil {
		return &List{}, nil // a service, for example; Save fails
	}
	l := &List{folder: folder}
	text, err := os.ReadFile(l.file())
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the contexts: %w", err)
	}
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("read the contexts: %s: %w", l.file(), err)
	}
	for _, c := range l.Contexts {
		if err := CheckName(c.Name); err != nil {
			return nil, fmt.Errorf("read the contexts: %s: %w", l.file(), err)
		}
	}
	return l, nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

func (l *List) file() string { return filepath.Join(l.folder, "contexts.json") }

// CheckName checks the name of a new context, which is also the name of a file.
func CheckName(name string) error {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`).MatchString(name) {
		return fmt.Errorf("%q is not the name of a context: it has 1 to 64 of A-Z a-z 0-9 . _ - and begins with a letter or digit", name)
	}
	return nil
}

// Names returns the names of the contexts.
func (l *List) Names() (names []string) {
	for _, c := range l.Contexts {
		names = append(names, c.Name)
	}
	return names
}

// Find returns a context. The error is ErrUnknown if there is none of that name.
func (l *List) Find(name string) (Context, error) {
	for _, c := range l.Contexts {
		if c.Name == name {
			return c, nil
		}
	}
	return Context{}, ErrUnknown
}

// Put adds a context, or replaces the one of its name.
func (l *List) Put(c Context) {
	l.Contexts = slices.DeleteFunc(l.Contexts, func(old Context) bool { return old.Name == c.Name })
	l.Contexts = append(l.Contexts, c)
	slices.SortFunc(l.Contexts, func(a, b Context) int { return strings.Compare(a.Name, b.Name) })
}

// Remove removes a context and its tokens. If it was the current one, there is none after it.
func (l *List) Remove(name string) error {
	l.Contexts = slices.DeleteFunc(l.Contexts, func(c Context) bool { return c.Name == name })
	if l.Current == name {
		l.Current = ""
	}
	return errors.Join(l.Save(), l.Forget(name))
}

// Save writes the contexts. It writes a temporary file and renames it.
func (l *List) Save() error {
	if err := l.mkdir(); err != nil {
		return err
	}
	text, err := json.MarshalIndent(l, "", "  ")
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(l.folder, "contexts.*") // mode 0600
	if err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	_, err = temp.Write(append(text, '\n'))
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), l.file())
	}
	if err != nil {
		return fmt.Errorf("write the contexts: %w", errors.Join(err, os.Remove(temp.Name())))
	}
	return nil
}

func (l *List) mkdir() error {
	if l.folder == "" {
		return errors.New("this user has no folder for contexts: set RUEDA_CONTEXTS or HOME")
	}
	if err := os.MkdirAll(l.folder, 0o700); err != nil {
		return fmt.Errorf("folder of the contexts: %w", err)
	}
	return nil
}

// Tokens returns the store of the tokens of a context. Its folder exists afterwards.
func (l *List) Tokens(name string) (client.FileStore, error) {
	return client.FileStore(l.tokens(name)), l.mkdir()
}

// LoggedIn reports whether there is a file of tokens for a context, with its URL and user.
func (l *List) LoggedIn(name string) bool { return exists(l.tokens(name)) }

const tokensEnding = ".tokens.json"

// tokens returns the file of the tokens of a context. Its name has a hash of the URL and the user,
// so that a context whose URL was changed, in whatever way, has no login: tokens are never sent to
// another server.
func (l *List) tokens(name string) string {
	c, _ := l.Find(name) // an unknown one has no tokens
	sum := sha256.Sum256([]byte(c.URL + "\n" + c.User))
	return filepath.Join(l.folder, name+"."+hex.EncodeToString(sum[:hashBytes])+tokensEnding)
}

// hashBytes is how many bytes of the hash are in the name of a file of tokens.
const hashBytes = 8

// Forget removes the tokens of a context, also those of other URLs and users that it had.
func (l *List) Forget(name string) error {
	entries, err := os.ReadDir(l.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	all := []error{err}
	for _, e := range entries {
		file, _ := strings.CutSuffix(e.Name(), ".lock")
		hash, ok := strings.CutSuffix(file, tokensEnding)
		if hash, ok2 := strings.CutPrefix(hash, name+"."); ok && ok2 && len(hash) == 2*hashBytes && !strings.Contains(hash, ".") {
			all = append(all, os.Remove(filepath.Join(l.folder, e.Name())))
		}
	}
	return errors.Join(all...)
}
