package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/tests/upgrade/fixture"
)

// installation is a configuration with its data.
type installation struct {
	program string
	commit  string
	folder  string
	listen  string // address of REST and the stream
	lines   string // address of the feed
	running *exec.Cmd
	log     *os.File
	ahead   time.Duration // of its clock
}

// now returns the time of the program's clock.
func (in *installation) now() time.Time { return time.Now().UTC().Add(in.ahead) }

// prepare makes a command of the program use its folder and its clock.
func (in *installation) prepare(cmd *exec.Cmd) {
	cmd.Dir = in.folder
	cmd.Env = append(os.Environ(), fmt.Sprintf("RUEDA_SECONDS_AHEAD=%d", in.ahead/time.Second))
}

func (w *writer) installation(name string) *installation {
	return &installation{program: w.program, commit: w.commit, folder: filepath.Join(w.work, name)}
}

// configuration is the rueda.toml of the folders: a commit of each row, and short limits, so that
// the data has what follows from them.
const configuration = `listen = "%s"
data = "data"
markets = "markets.toml"
instruments = "instruments.toml"

[auth]
grace_period = "1s"

[keys]
%s

[database]
%s

[stream]
flush_interval = "0s"

[throttle]
account_failures = 3

[[feed]]
name = "lines"
type = "ndjson"
listen = "%s"
token_file = "feed.token"
`

// create writes the configuration. With the URL of a database, the keys are encrypted, too.
func (in *installation) create(ctx context.Context, database string) (err error) {
	if err := os.Mkdir(in.folder, 0o700); err != nil {
		return err
	}
	if in.listen, err = freeAddress(); err != nil {
		return err
	}
	if in.lines, err = freeAddress(); err != nil {
		return err
	}
	keys, url := "", ""
	files := map[string]string{
		"feed.token":       strings.Repeat("feed", 8) + "\n",
		"markets.toml":     "[[market]]\nid = \"TEST\"\nname = \"Test\"\n[[market.term]]\nname = \"CI\"\nsettlement_days = 0\n",
		"instruments.toml": "", // those of the feed
	}
	if database != "" {
		keys, url = `encryption_key_file = "keys.key"`, `url_file = "database.url"`
		files["instruments.toml"] = "[[instrument]]\nid = \"GGAL|TEST|CI\"\ncurrency = \"ARS\"\nprice_decimals = 2\nsize_decimals = 0\n"
		files["keys.key"], files["database.url"] = strings.Repeat("5a", 32)+"\n", database+"\n"
	}
	files["rueda.toml"] = fmt.Sprintf(configuration, in.listen, keys, url, in.lines)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(in.folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// command runs a command of the program.
func (in *installation) command(ctx context.Context, input string, args ...string) error {
	_, err := in.ask(ctx, input, args...)
	return err
}

// ask runs a command of the program and returns its standard output.
func (in *installation) ask(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, in.program, append(args, "--config", "rueda.toml")...)
	in.prepare(cmd)
	cmd.Stdin = strings.NewReader(input)
	var failed bytes.Buffer
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("rueda %s: %w: %s%s", strings.Join(args, " "), err, out, failed.String())
	}
	return string(out), nil
}

// start runs the gateway until stop.
func (in *installation) start(ctx context.Context) (err error) {
	if in.log, err = os.OpenFile(in.folder+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return err
	}
	in.running = exec.CommandContext(ctx, in.program, "serve", "--config", "rueda.toml")
	in.prepare(in.running)
	in.running.Stderr = in.log
	if err := in.running.Start(); err != nil {
		return err
	}
	for range 300 {
		if res, err := http.Get("http://" + in.listen + "/livez"); err == nil {
			return res.Body.Close()
		}
		time.Sleep(100 * time.Millisecond)
	}
	return errors.New("the gateway does not serve")
}

// stop ends the gateway as systemd does.
func (in *installation) stop() error {
	err := in.running.Process.Signal(syscall.SIGTERM)
	return errors.Join(err, in.running.Wait(), in.log.Close())
}

// do makes a request. It returns the answer, and fills in what is expected.
func (in *installation) do(ctx context.Context, x *fixture.Exchange) (text []byte, err error) {
	x.At = in.now().Truncate(time.Millisecond)
	req, err := http.NewRequestWithContext(ctx, x.Method, "http://"+in.listen+x.Path, strings.NewReader(x.Body))
	if err != nil {
		return nil, err
	}
	if x.Body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if x.Token != "" {
		req.Header.Set("Authorization", "Bearer "+x.Token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	text, err = io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	x.Status = res.StatusCode
	if res.StatusCode != http.StatusOK {
		var failed struct{ Error struct{ Reason string } }
		err = json.Unmarshal(text, &failed)
		x.Reason = failed.Error.Reason
		return text, err
	}
	if x.Method == http.MethodGet {
		x.Answer = text
	}
	return text, nil
}

// publish copies the folder to the folder of the commit, without the ports of this run.
func (in *installation) publish(out string) error {
	to := filepath.Join(out, filepath.Base(in.folder))
	if err := os.CopyFS(to, os.DirFS(in.folder)); err != nil {
		return err
	}
	for _, name := range []string{"data/journal/lock", "data/rueda.db-wal", "data/rueda.db-shm", "data/keys.json.lock"} {
		if err := os.Remove(filepath.Join(to, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	name := filepath.Join(to, "rueda.toml")
	text, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text = bytes.ReplaceAll(text, []byte(in.listen), []byte("127.0.0.1:8080"))
	text = bytes.ReplaceAll(text, []byte(in.lines), []byte("127.0.0.1:9100"))
	return os.WriteFile(name, text, 0o600)
}

// keysOfConfiguration writes the keys of the configuration, as the files that serve --init writes
// have them: in use or as a comment.
func (w *writer) keysOfConfiguration(ctx context.Context) error {
	folder := filepath.Join(w.work, "init")
	if out, err := exec.CommandContext(ctx, w.program, "serve", "--init", folder).CombinedOutput(); err != nil {
		return fmt.Errorf("rueda serve --init: %w: %s", err, out)
	}
	table := regexp.MustCompile(`^(?:# )?\[+([a-z.]+)\]+$`)
	key := regexp.MustCompile(`^(?:# )?([a-z_]+) = `)
	keys := map[string]bool{}
	for _, name := range []string{"rueda.toml", "markets.toml", "instruments.toml"} {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		at := ""
		for line := range strings.Lines(string(text)) {
			line = strings.TrimSpace(line)
			if m := table.FindStringSubmatch(line); m != nil {
				at = m[1] + "."
			} else if m := key.FindStringSubmatch(line); m != nil {
				keys[name+" "+at+m[1]] = true
			}
		}
	}
	list := strings.Join(slices.Sorted(maps.Keys(keys)), "\n") + "\n"
	return os.WriteFile(filepath.Join(w.out, "configuration", "keys.txt"), []byte(list), 0o600)
}
