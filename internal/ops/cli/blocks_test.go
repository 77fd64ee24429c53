package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// blockOf matches a sh block of a document.
var blockOf = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")

// unrunBlocks has the sh blocks of the documents that no machine of tests can run, by document and
// the beginning of the block, and why. Their commands of rueda are parsed.
func unrunBlocks() map[string]string {
	return map[string]string{
		"README.md TOKEN=$(curl":                    "TestDocumentedCommandsE2E",
		"README.md curl":                            "TestDocumentedCommandsE2E",
		"README.md ./rueda serve --init":            "fixed ports; TestDocumentedCommandsE2E has the first commands",
		"operations.md umask 077":                   "PostgreSQL of the system",
		"operations.md sudo -u postgres pg_restore": "PostgreSQL of the system",
		"operations.md systemctl stop rueda":        "systemd",
		"cluster.md cd cmd/rueda-cluster":           "make cluster runs it",
		"cluster.md go run ./cmd/rueda stream":      "make cluster runs it",
		"install.md createuser":                     "PostgreSQL of the system",
		"install.md sqlite3":                        "two databases",
		"identity.md rueda user check":              "another user base; TestUserCheck has one",
		"install.md sha256sum":                      "a release; make test-packages has one",
		"install.md sudo apt install":               "root and apt",
		"install.md sudo -u rueda rueda serve":      "systemd",
		"install.md install -m 755":                 "root",
		"install.md tar -xzf":                       "a release and Docker",
		"install.md docker run":                     "Docker",
		"install.md kubectl":                        "Kubernetes",
		"install.md deploy/kubernetes":              "Kubernetes; cmd/rueda-cluster tests it",
		"install.md go run ./cmd/rueda dev":         "the source; TestTutorialE2E and make build do it",
		"metrics.md (umask 077":                     "root and Prometheus",
		"operations.md ssh":                         "another machine",
		"install.md sudo -u rueda rueda backup":     "apt; make test-packages upgrades",
		"install.md systemctl disable":              "systemd and apt",
		"install.md apt install":                    "apt; make test-packages downgrades",
		"versioning.md go test":                     "the source, which it would change",
		"operations.md rueda doctor --admin https":  "client certificates",
	}
}

// expectedFailures has the commands of documents that name something which does not exist here, and
// what they print.
func expectedFailures() map[string]string {
	return map[string]string{
		"rueda user logout --login NNr2nHkoTKcs1qD0": "NNr2nHkoTKcs1qD0",
		"rueda connections close 0-17-3":             "No connection has this id",
		"rueda keys rotate --now --revoke KID":       "KID",
		"rueda keys init-encryption rueda/keys.key":  "exists", // the gateway runs with it
		"rueda keys new ":                            "exist",
	}
}

// shBlocks returns the sh blocks of the documents, by the name of the document.
func shBlocks(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	all := map[string][]string{}
	for _, file := range append(files, "../../../README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range blockOf.FindAllStringSubmatch(string(text), -1) {
			name := strings.TrimPrefix(file, "../../../docs/")
			all[strings.TrimPrefix(name, "../../../")] = append(all[strings.TrimPrefix(name, "../../../")], block[1])
		}
	}
	return all
}

// commandsOf returns the command lines of a block. A block with a here-document or a variable is
// one command.
func commandsOf(block string) (list []string) {
	if strings.Contains(block, "<<'") || strings.Contains(block, "=$(") {
		return []string{strings.TrimSpace(block)}
	}
	for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, line)
		}
	}
	return list
}

// commandOfRueda matches a command of rueda at the beginning of a line, after sudo or a command
// that runs it elsewhere, or behind a pipe, up to the end of the command.
var commandOfRueda = regexp.MustCompile(`(?:^|\| |\$\(|<\(|-- |-it rueda |sudo -u rueda |\n)(?:\./)?rueda ([^|#;&)>\n]*)`)

// Blocks of other kinds have commands of rueda at the beginning of a line, after a prompt or not.
var (
	otherBlock    = regexp.MustCompile("(?ms)^```(?:console|text|)\n(.*?)^```$")
	promptOfRueda = regexp.MustCompile(`(?m)^(?:\$ )?(?:\./)?rueda ([a-z][^|#;&)>\n:]*)`)
)

// TestDocumentedFlags parses all commands of rueda in the documents: the command and
// its flags exist, and the number of arguments is right.
func TestDocumentedFlags(t *testing.T) {
	t.Parallel()
	n := 0
	check := func(name, command string) {
		n++
		if err := parseCommand(command); err != nil {
			t.Errorf("%s: rueda %s: %v", name, command, err)
		}
	}
	for name, blocks := range shBlocks(t) {
		for _, block := range blocks {
			for _, line := range commandsOf(block) {
				for _, m := range commandOfRueda.FindAllStringSubmatch(line, -1) {
					check(name, m[1])
				}
			}
		}
	}
	files, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../../../README.md", "../../../clients/python/README.md", "../../../clients/typescript/README.md") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range otherBlock.FindAllStringSubmatch(string(text), -1) {
			for _, m := range promptOfRueda.FindAllStringSubmatch(block[1], -1) {
				command, _, _ := strings.Cut(m[1], "   ") // an explanation follows
				check(file, command)
			}
		}
	}
	if n < 140 {
		t.Errorf("found only %d commands", n)
	}
	for _, wrong := range []string{"serve --chek", "user ad ana", "watch 'A|B|C' --depth five", "audit verify x y z"} {
		if parseCommand(wrong) == nil {
			t.Errorf("rueda %s is accepted", wrong)
		}
	}
}

// parseCommand checks the words of a command without running it.
func parseCommand(line string) error {
	var args []string
	for _, word := range regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(line, -1) {
		args = append(args, strings.Trim(word, `'"`))
	}
	root := Root()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd.HasSubCommands() && !cmd.Runnable() {
		return fmt.Errorf("%s is a group of commands", cmd.CommandPath())
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// TestDocumentBlocksE2E runs the sh blocks of the documents against a dev gateway and one of
// rueda serve --init. README, command-line.md and client-tutorial.md have tests of their own.
func TestDocumentBlocksE2E(t *testing.T) {
	for _, name := range []string{"bash", "curl", "jq", "timeout", "openssl"} {
		if _, err := exec.LookPath(name); err != nil {
			if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
				t.Fatalf("%v, and RUEDA_REQUIRE_ALL wants this test", err)
			}
			t.Skipf("%v: the commands of the documents are not run (RUEDA_REQUIRE_ALL makes this a failure)", err)
		}
	}
	w := newWorld(t)
	blocks := shBlocks(t)
	unrun := unrunBlocks()
	used := map[string]bool{}
	ran, left := 0, 0
	order := []string{"users.md", "operations.md", "keys.md", "feeds.md", "record-and-verify.md", "simulator.md", "export.md", "conformance.md"}
	for name := range blocks {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	for _, name := range order {
		if name == "command-line.md" || name == "client-tutorial.md" {
			continue // TestDocumentedCommandsE2E and TestTutorialE2E
		}
		_ = os.Remove(filepath.Join(w.folder, "day.jsonl.zst")) // of the document before
		for _, block := range blocks[name] {
			for i, line := range commandsOf(block) {
				key := ""
				for k := range unrun {
					begin := strings.TrimPrefix(k, name+" ")
					if begin != k && (strings.HasPrefix(line, begin) || i > 0 && strings.HasPrefix(block, begin)) {
						key = k
					}
				}
				if used[key] = true; key != "" {
					left++
					continue
				}
				ran++
				w.run(name, line)
			}
		}
	}
	for key := range unrun {
		if !used[key] {
			t.Errorf("no document has the block %q", key)
		}
	}
	t.Logf("figure: %d commands of the documents were run, %d only parsed", ran, left)
}

// world is where the commands of the documents run: a folder with a dev gateway, one of
// rueda serve --init, and what the documents assume to be there.
type world struct {
	*testing.T
	folder  string
	replace *strings.Replacer
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, folder: t.TempDir()}
	program := filepath.Join(w.folder, "program", "rueda")
	if out, err := exec.Command("go", "build", "-o", program, "../../../cmd/rueda").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Setenv("PATH", filepath.Dir(program)+":"+os.Getenv("PATH"))
	t.Setenv("RUEDA_CONTEXTS", filepath.Join(w.folder, "contexts"))
	dev, url := startDev(t, "--ndjson", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	feed := dev.line(`^  JSON lines +(\S+)$`)[1]
	admin := dev.line(`^  Operators +(\S+), with RUEDA_ADMIN_TOKEN=(\S+)$`)
	t.Setenv("RUEDA_URL", url)
	w.replace = strings.NewReplacer(
		"sudo install -d -o rueda -g rueda -m 700 /backup", "mkdir backup", "sudo -u rueda ", "",
		"/etc/rueda/", "rueda/", "/backup/", "backup/", "/var/lib/rueda", "closed", "> ana.token", "> new.token",
		"nc 127.0.0.1 9100", "bash nc.sh "+strings.ReplaceAll(feed, ":", " "), "--ndjson 127.0.0.1:9100", "--ndjson 127.0.0.1:0",
		"rueda conformance server --feed 127.0.0.1:9100 --admin http://127.0.0.1:8081",
		"RUEDA_ADMIN_TOKEN="+admin[2]+" rueda conformance server --feed "+feed+" --admin "+admin[1],
		"127.0.0.1:8081 ", "127.0.0.1:0 ", "2026-12-31", "2199-12-31", "2027-01-01", "2199-01-01",
		"https://api.broker.example", url, "http://127.0.0.1:8080", url, "HEAD=$(", "rueda audit tail -n 1 --json --config rueda/rueda.toml > received.jsonl\nHEAD=$(",
		"rueda user add ana ", "echo 'the long password of ana' | rueda user add ana --rights all --password-stdin ",
		"./rueda replay", "rueda replay --listen 127.0.0.1:0", "./rueda dev", "rueda dev --listen 127.0.0.1:0",
		"./rueda ", "rueda ", "export --data here", "export --data closed",
		"rueda dev", "rueda dev --listen 127.0.0.1:0", "rueda replay", "rueda replay --listen 127.0.0.1:0",
	)
	w.serve()
	// A day whose files are closed, for docs/export.md.
	days := start(t, "dev", "--listen", "127.0.0.1:0", "--data", filepath.Join(w.folder, "closed"), "--instruments", "4",
		"--clock", "virtual", "--speed", "20000", "--start", "2026-11-20", "--days", "2")
	days.line("^The last trading day has ended")
	w.script(`
		for i in {1..300}; do
			rueda export --data closed --out probe --date 2026-11-24 --type bars 2>probe.txt && exit
			sleep 0.2
		done
		cat probe.txt
		exit 1`)
	days.stop()
	days.exit()
	return w
}

// serve runs rueda serve with the configuration that it has written, and adds users and groups.
func (w *world) serve() {
	w.script(`
		rueda serve --init rueda
		rueda keys init-encryption rueda/keys.key
		printf 'the-token-of-ana-in-these-tests-0123' > ana.token
		printf 'the-token-of-eva-in-these-tests-0123' > eva.token
		for name in ana eva; do
			echo "$name $(sha256sum < $name.token | cut -d' ' -f1) identity"
		done > rueda/admin.token
		echo 'username,hash
leo,$2b$12$EixZaYVK1fsbw1ZfbX3OXePaWxn96p36WQoeG6Lruj3vjPGga31lW' > users.csv
		echo 'exec 3<>/dev/tcp/$1/$2; cat >&3; sleep 0.1' > nc.sh`)
	config := filepath.Join(w.folder, "rueda", "rueda.toml")
	text, err := os.ReadFile(config)
	if err != nil {
		w.Fatal(err)
	}
	changed := string(text)
	for _, pair := range [][2]string{
		{`listen = "127.0.0.1:8080"`, `listen = "127.0.0.1:0"`}, {`listen = "127.0.0.1:8081"`, `listen = "127.0.0.1:0"`},
		{"[stream]\n", "[stream]\ndelays = [\"15m\"]\n"}, {"[keys]\n", "[keys]\nencryption_key_file = \"keys.key\"\n"},
	} {
		if !strings.Contains(changed, pair[0]) {
			w.Fatalf("the configuration has no %s", pair[0])
		}
		changed = strings.Replace(changed, pair[0], pair[1], 1)
	}
	write(w.T, config, changed)
	served := start(w.T, "serve", "--config", config)
	w.Setenv("RUEDA_ADMIN", "http://"+served.said(`msg=ready .* admin=(\S+)`)[1])
	w.script(`
		for name in maria eva; do
			echo 'a password for tests' | rueda user add $name --rights all --password-stdin --config rueda/rueda.toml
		done
		for name in desk traders clients; do
			rueda group add $name --config rueda/rueda.toml
		done`)
}

// script runs commands that prepare something.
func (w *world) script(text string) {
	w.Helper()
	shell := exec.CommandContext(w.Context(), "bash", "-e", "-o", "pipefail", "-c", text)
	shell.Dir = w.folder
	if out, err := shell.CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
}

// run runs a command, which is interrupted after some seconds.
func (w *world) run(document, command string) {
	w.Helper()
	changed := w.replace.Replace(command)
	write(w.T, filepath.Join(w.folder, "command.sh"), changed+"\n")
	shell := exec.CommandContext(w.Context(), "timeout", "-s", "INT", "3", "bash", "-o", "pipefail", "command.sh")
	shell.Dir = w.folder
	out, err := shell.CombinedOutput()
	status := shell.ProcessState.ExitCode()
	for begin, want := range expectedFailures() {
		if strings.HasPrefix(command, begin) {
			if status == 0 || !strings.Contains(string(out), want) {
				w.Errorf("%s: %s\nended with %d and printed %s, want a failure with %q", document, changed, status, out, want)
			}
			return
		}
	}
	if status != 0 && status != 124 && status != 130 {
		w.Errorf("%s: %s\nended with %v and printed %s", document, changed, err, out)
	}
}
