package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// machine is a Debian system in namespaces of this machine, with systemd as its first process.
type machine struct {
	t    *testing.T
	root string
	init string // its first process, as this machine sees it
}

// needDebian reports why a Debian system cannot run here, "" if it can.
func needDebian() string {
	if os.Geteuid() != 0 {
		return "needs root"
	}
	for _, program := range []string{"debootstrap", "unshare", "nsenter", "ip", "pgrep"} {
		if _, err := exec.LookPath(program); err != nil {
			return "needs " + program
		}
	}
	return ""
}

// boot installs a minimal Debian with systemd and starts it.
func boot(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, root: filepath.Join(t.TempDir(), "root")}
	install := exec.Command("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,adduser", "bookworm", m.root)
	if text, err := install.CombinedOutput(); err != nil {
		t.Fatalf("debootstrap: %v\n%s", err, text)
	}
	groups, err := exec.Command("findmnt", "-n", "-t", "cgroup2", "-o", "TARGET").Output()
	if err != nil {
		t.Fatalf("no cgroup2: %v", err)
	}
	group := filepath.Join(strings.Fields(string(groups))[0], fmt.Sprintf("rueda-test-%d", os.Getpid()))
	var said bytes.Buffer
	cmd := exec.Command("testdata/boot.sh", m.root, group)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the journal:\n%s", m.output("journalctl", "--no-pager", "-n", "60"))
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for range 100 { // until the processes have ended
			_ = exec.Command("find", group, "-depth", "-type", "d", "-exec", "rmdir", "{}", ";").Run()
			if _, err := os.Stat(group); err != nil {
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Errorf("%s is left", group)
	})
	m.until("systemd runs", func() bool {
		pid, err := exec.Command("pgrep", "-P", fmt.Sprint(cmd.Process.Pid)).Output()
		m.init = strings.TrimSpace(string(pid))
		comm, _ := os.ReadFile("/proc/" + m.init + "/comm")
		return err == nil && strings.TrimSpace(string(comm)) == "systemd"
	})
	m.until("systemd has started", func() bool { return m.output("systemctl", "is-system-running") == "running" })
	return m
}

// command prepares a command in the system.
func (m *machine) command(args ...string) *exec.Cmd {
	cmd := exec.Command("nsenter", slices.Concat([]string{"-t", m.init, "--mount", "--pid", "--ipc", "--uts", "--net", "--cgroup", "--"}, args)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C"}
	return cmd
}

// output runs a command that may fail, and returns what it writes.
func (m *machine) output(args ...string) string {
	text, _ := m.command(args...).CombinedOutput()
	return strings.TrimSpace(string(text))
}

// run runs a command, which must succeed, and returns what it writes.
func (m *machine) run(args ...string) string {
	m.t.Helper()
	text, err := m.command(args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return strings.TrimSpace(string(text))
}

// until waits for a condition.
func (m *machine) until(what string, ok func() bool) {
	m.t.Helper()
	for late := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(late) {
			m.t.Fatalf("waited two minutes until %s", what)
		}
	}
}

// install installs a package file as an administrator does, keeping changed configuration files.
func (m *machine) install(deb string) {
	m.t.Helper()
	text, err := os.ReadFile(deb)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.root, "rueda.deb"), text, 0o644); err != nil {
		m.t.Fatal(err)
	}
	m.run("apt-get", "install", "-y", "-o", "Dpkg::Options::=--force-confold", "/rueda.deb")
	m.run("rm", "/rueda.deb")
	m.until("the gateway is ready", func() bool { return m.output("rueda", "health", "--ready") == "OK" || m.ready() })
}

// ready asks a gateway whose program has no command health.
func (m *machine) ready() bool {
	text := m.output("bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /readyz HTTP/1.0\r\n\r\n' >&3 && cat <&3`)
	return strings.Contains(text, " 200 ")
}

// pid returns the main process of the service.
func (m *machine) pid() string { return m.run("systemctl", "show", "-P", "MainPID", "rueda") }

// oldPackage packages the commit of 0.1.0 as it would have been: its program and configuration, with
// a unit that does not wait for notifications, which it did not send.
func oldPackage(t *testing.T, here *release) string {
	t.Helper()
	text, err := os.ReadFile("../../tests/upgrade/0.1.0/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var released struct{ Version, Commit string }
	if err := json.Unmarshal(text, &released); err != nil {
		t.Fatal(err)
	}
	from := *here
	from.commit, from.version = released.Commit, released.Version
	old, err := from.clone(t.Context(), filepath.Join(t.TempDir(), "tree"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(old.tree, "deploy"), os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	unit := filepath.Join(old.tree, "deploy/systemd/rueda.service")
	text, err = os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	text = regexp.MustCompile(`(?m)^(WatchdogSec|ExecReload)=.*\n`).ReplaceAll(text, nil)
	if err := os.WriteFile(unit, bytes.ReplaceAll(text, []byte("Type=notify"), []byte("Type=exec")), 0o644); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(old.out, "rueda")
	_, arch, _ := strings.Cut(platform, "/")
	if err := old.compile(t.Context(), "linux", arch, binary); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	data, name, err := old.debian(arch, []file{{name: "rueda", mode: 0o755, data: program}})
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(old.out, name)
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestDebianVersions makes packages of versions in their order, reads their version with dpkg-deb,
// and checks that dpkg sorts them in that order.
func TestDebianVersions(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
			t.Fatal(err)
		}
		t.Skip("needs dpkg (a failure with RUEDA_REQUIRE_ALL)")
	}
	before := ""
	for _, c := range []struct{ version, want string }{
		{"0.1.0", "0.1.0"},
		{"0.2.0-dev+git20261123121029.099e7fac3b4d", "0.2.0~dev+git20261123121029.099e7fac3b4d"},
		{"0.2.0-dev+git20261124080000.0000000000de", "0.2.0~dev+git20261124080000.0000000000de"},
		{"0.2.0", "0.2.0"},
		{"0.2.0+git20261201000000.0de000000000", "0.2.0+git20261201000000.0de000000000"},
		{"0.3.0-dev+git20261202000000.1de000000000", "0.3.0~dev+git20261202000000.1de000000000"},
		{"0.3.0", "0.3.0"},
	} {
		data, name, err := (&release{tree: "../..", version: c.version, time: time.Unix(1e9, 0)}).debian("amd64", nil)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		text, err := exec.Command("dpkg-deb", "-f", path, "Version").CombinedOutput()
		if got := strings.TrimSpace(string(text)); err != nil || got != c.want || name != "rueda_"+c.want+"_amd64.deb" {
			t.Errorf("%s: the package %s has version %q, %v; want %s", c.version, name, got, err, c.want)
		}
		if before != "" {
			if text, err := exec.Command("dpkg", "--compare-versions", before, "lt", c.want).CombinedOutput(); err != nil {
				t.Errorf("%s does not sort before %s: %v %s", before, c.want, err, text)
			}
		}
		before = c.want
	}
}

// TestDebianPackage installs the package of 0.1.0 on a new Debian, connects a client, upgrades to
// this package, kills the process, and removes the package. The client resumes without a gap, and
// nothing stays behind.
func TestDebianPackage(t *testing.T) {
	if reason := needDebian(); reason != "" {
		if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
			t.Fatal(reason)
		}
		t.Skip(reason + " (a failure with RUEDA_REQUIRE_ALL)")
	}
	r := built(t)
	_, arch, _ := strings.Cut(platform, "/")
	deb := filepath.Join(r.out, "rueda_"+r.debianVersion()+"_"+arch+".deb")
	m := boot(t)
	m.install(oldPackage(t, r))
	before := m.run("rueda", "version")
	add := m.command("setpriv", "--reuid", "rueda", "--regid", "rueda", "--clear-groups", "rueda", "user", "add", "ana", "--rights", "all", "--password-stdin", "--config", "/etc/rueda/rueda.toml")
	add.Stdin = strings.NewReader("correct horse\n")
	if text, err := add.CombinedOutput(); err != nil {
		t.Fatalf("user add: %v\n%s", err, text)
	}
	m.run("bash", "-c", "echo '# changed by the administrator' >>/etc/rueda/rueda.toml")
	token := m.run("cat", "/etc/rueda/admin.token")

	// The client is this program, which is not replaced while it runs.
	program := unpack(t, filepath.Join(r.out, "rueda_"+r.version+"_linux_"+arch+".tar.gz"), "rueda_"+r.version+"_linux_"+arch)["rueda"]
	if err := os.WriteFile(filepath.Join(m.root, "client"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	m.run("systemd-run", "--unit=client", "-p", "KillSignal=SIGINT", "--setenv=RUEDA_USER=ana", "--setenv=RUEDA_PASSWORD=correct horse",
		"/client", "record", "*|*|*", "-f", "/client.jsonl", "--channels", "trades,status")
	trades := func() int {
		text, _ := os.ReadFile(filepath.Join(m.root, "client.jsonl"))
		return bytes.Count(text, []byte(`"type":"T"`))
	}
	more := func() {
		t.Helper()
		n := trades()
		m.until("the client receives trades", func() bool { return trades() > n+20 })
	}
	more()

	m.install(deb)
	if after := m.run("rueda", "version", "--json"); !strings.Contains(after, r.commit) {
		t.Errorf("upgraded from %s to %s", before, after)
	}
	if got := m.run("cat", "/etc/rueda/admin.token"); got != token {
		t.Error("the upgrade changed the token of administrators")
	}
	if text := m.run("tail", "-1", "/etc/rueda/rueda.toml"); text != "# changed by the administrator" {
		t.Errorf("the upgrade changed the configuration: %s", text)
	}
	more()
	checkService(m)

	killed := m.pid()
	m.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "rueda")
	m.until("the service has restarted", func() bool { return m.pid() != killed && m.output("rueda", "health", "--ready") == "OK" })
	more()
	m.run("systemctl", "stop", "client")
	checkRecording(m, m.output("journalctl", "-u", "client", "-o", "cat", "--no-pager"))
	checkRemoval(m)
}

// checkService checks the unit, and the restrictions of the process that it runs.
func checkService(m *machine) {
	m.t.Helper()
	m.run("systemd-analyze", "verify", "--man=no", "rueda.service")
	exposure := m.run("systemd-analyze", "security", "--offline=yes", "--threshold=19", "--no-pager", "rueda.service")
	m.t.Logf("figure: %s", exposure[strings.LastIndex(exposure, "Overall"):])
	for name, want := range map[string]string{"ActiveState": "active", "Type": "notify", "NRestarts": "0", "User": "rueda", "UnitFileState": "enabled"} {
		if got := m.run("systemctl", "show", "-P", name, "rueda"); got != want {
			m.t.Errorf("%s of the service is %s, want %s", name, got, want)
		}
	}
	m.run("systemctl", "reload", "rueda")
	m.until("the gateway has read its configuration again", func() bool {
		return strings.Contains(m.output("journalctl", "-u", "rueda", "-o", "cat", "--no-pager"), "configuration read again")
	})
	if text := m.run("systemctl", "show", "-P", "StatusText", "rueda"); !strings.HasPrefix(text, "Serves http://127.0.0.1:8080") {
		m.t.Errorf("the service reports %q", text)
	}
	pid := m.pid()
	status := m.run("cat", "/proc/"+pid+"/status")
	for _, want := range []string{"CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, "\n"+want+"\n") {
			m.t.Errorf("the process does not have %q", want)
		}
	}
	// Its file system is read-only except for its data and memory.
	in := func(path string) error {
		return m.command("nsenter", "-t", pid, "--mount", "test", "-w", path).Run()
	}
	for path, writable := range map[string]bool{"/var/lib/rueda": true, "/dev/shm": true, "/etc/rueda": false, "/usr/bin": false, "/var/log": false} {
		if err := in(path); (err == nil) != writable {
			m.t.Errorf("%s: writable %t, want %t", path, err == nil, writable)
		}
	}
	for path, want := range map[string]string{"/etc/rueda": "750 root rueda", "/etc/rueda/admin.token": "600 rueda rueda", "/var/lib/rueda": "700 rueda rueda", "/usr/bin/rueda": "755 root root"} {
		if got := m.run("stat", "-c", "%a %U %G", path); got != want {
			m.t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	m.run("test", "-s", "/usr/share/doc/rueda/docs/operations.md", "-a", "-s", "/usr/share/doc/rueda/deploy/prometheus/alerts.yml")
	if got := m.run("dpkg-query", "-W", "-f", "${Conffiles}", "rueda"); strings.Count(got, "/etc/rueda/") != 3 {
		m.t.Errorf("configuration files: %s", got)
	}
}

// checkRecording checks that the client was disconnected twice and lost nothing.
func checkRecording(m *machine, said string) {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.root, "client.jsonl"))
	if err != nil {
		m.t.Fatal(err)
	}
	connected := bytes.Count(text, []byte(`{"recording":"connected"`))
	if connected < 2 || bytes.Contains(text, []byte(`"recording":"lost"`)) || bytes.Contains(text, []byte("epoch_changed")) {
		m.t.Errorf("the client connected again %d times and said:\n%s", connected, said)
	}
	m.t.Logf("figure: %d trades across an upgrade and a kill, connected again %d times, none missing", bytes.Count(text, []byte(`"type":"T"`)), connected)
	m.run("/client", "verify", "/client.jsonl")
}

// checkRemoval removes and purges the package.
func checkRemoval(m *machine) {
	m.t.Helper()
	m.run("apt-get", "remove", "-y", "rueda")
	exists := func(path string) bool {
		_, err := os.Lstat(filepath.Join(m.root, path))
		return !errors.Is(err, os.ErrNotExist)
	}
	for path, want := range map[string]bool{"usr/bin/rueda": false, "lib/systemd/system/rueda.service": false, "etc/rueda/rueda.toml": true, "var/lib/rueda/rueda.db": true} {
		if exists(path) != want {
			m.t.Errorf("after remove, %s exists: %t, want %t", path, !want, want)
		}
	}
	if text := m.output("bash", "-c", `grep -lE "^Uid:[[:space:]]$(id -u rueda)[[:space:]]" /proc/[0-9]*/status 2>/dev/null`); text != "" {
		m.t.Errorf("processes run after remove: %s", text)
	}
	m.run("apt-get", "purge", "-y", "rueda")
	m.run("rm", "/client", "/client.jsonl")
	left := m.run("find", "/etc", "/usr", "/lib", "/var", "/dev/shm", "/run", "-iname", "*rueda*", "-not", "-path", "/var/log/*", "-not", "-path", "/run/log/*", "-not", "-path", "/var/cache/*")
	if left != "" {
		m.t.Errorf("left after purge:\n%s", left)
	}
	if text := m.output("getent", "passwd", "rueda"); text != "" {
		m.t.Errorf("the user is left after purge: %s", text)
	}
	if failed := m.run("systemctl", "--failed", "--no-legend", "--plain"); failed != "" {
		m.t.Errorf("failed units: %s", failed)
	}
}
