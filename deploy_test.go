package rueda_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ruedahq/rueda/internal/ops/cli/command"
)

// read returns the text of a file of the tree.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWorkflows checks that the workflows name their actions by commit, use a version of Go that is
// new enough, and run targets that the Makefile has. So does the script of CI.
func TestWorkflows(t *testing.T) {
	targets := regexp.MustCompile(`(?m)^([a-z0-9-]+):.*## `).FindAllStringSubmatch(read(t, "Makefile"), -1)
	has := func(name string) bool {
		return slices.ContainsFunc(targets, func(m []string) bool { return m[1] == name })
	}
	files, err := filepath.Glob(".github/workflows/*.yml")
	if err != nil || len(files) < 2 {
		t.Fatalf("workflows %q, %v", files, err)
	}
	for _, name := range append(files, ".ci/run") {
		text := read(t, name)
		for _, m := range regexp.MustCompile(`uses: (.*)`).FindAllStringSubmatch(text, -1) {
			if !regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`).MatchString(m[1]) {
				t.Errorf("%s: the action %s is not a commit with its version", name, m[1])
			}
		}
		var named []string
		for _, m := range regexp.MustCompile(`\bmake ([a-z0-9][a-z0-9-]*)`).FindAllStringSubmatch(text, -1) {
			named = append(named, m[1])
		}
		for _, m := range regexp.MustCompile(`(?m)^\s+target: \[(.*)\]$`).FindAllStringSubmatch(text, -1) {
			named = append(named, strings.Split(m[1], ", ")...)
		}
		for _, m := range regexp.MustCompile(`(?m)^known=\((.*)\)$`).FindAllStringSubmatch(text, -1) {
			named = append(named, strings.Fields(m[1])...)
		}
		if len(named) == 0 {
			t.Errorf("%s runs nothing", name)
		}
		for _, target := range named {
			if !has(target) {
				t.Errorf("%s: the Makefile has no target %s", name, target)
			}
		}
		version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))[1]
		if strings.Contains(text, "GO_VERSION") && !strings.Contains(text, `GO_VERSION: "`+version+".") {
			t.Errorf("%s does not use Go %s", name, version)
		}
	}
}

// TestPodsHaveNoServiceLinks checks that Kubernetes adds no variables for services to pods of the
// gateway, because their names begin like those of settings.
func TestPodsHaveNoServiceLinks(t *testing.T) {
	for _, name := range []string{"statefulset.yaml", "cluster/sequencer.yaml", "cluster/edge.yaml"} {
		if text := read(t, "deploy/kubernetes/"+name); !strings.Contains(text, "\n      enableServiceLinks: false\n") {
			t.Errorf("%s has service links", name)
		}
	}
}

// TestDeploymentsAgree checks that unit, scripts of the package, image, compose file, manifests and
// docs/install.md name the same paths, ports, users and times.
func TestDeploymentsAgree(t *testing.T) {
	unit, install := read(t, "deploy/systemd/rueda.service"), read(t, "docs/install.md")
	dockerfile, compose := read(t, "deploy/docker/Dockerfile"), read(t, "deploy/compose/compose.yaml")
	pods := read(t, "deploy/kubernetes/statefulset.yaml")
	scripts := read(t, "deploy/debian/postinst") + read(t, "deploy/debian/postrm")
	for _, want := range []struct{ name, text, part string }{
		{"unit", unit, "ExecStart=/usr/bin/rueda serve --config /etc/rueda/rueda.toml\n"},
		{"unit", unit, "ExecReload=/bin/sh -c 'kill -HUP $MAINPID'\n"},
		{"unit", unit, "StateDirectory=rueda\n"}, // /var/lib/rueda
		{"unit", unit, "User=rueda\n"},
		{"unit", unit, "Type=notify\n"},
		{"scripts", scripts, "--home /var/lib/rueda "},
		{"scripts", scripts, "rm -rf /etc/rueda /var/lib/rueda\n"},
		{"install.md", install, "| `/usr/bin/rueda` |"},
		{"install.md", install, "| `/etc/rueda` |"},
		{"install.md", install, "| `/var/lib/rueda` |"},
		{"install.md", install, "| `/lib/systemd/system/rueda.service` |"},
		{"install.md", install, "runs as user 65532"},
		{"install.md", install, "-v rueda:/var/lib/rueda -v /dev/shm:/dev/shm"},
		{"Dockerfile", dockerfile, "FROM scratch\n"},
		{"Dockerfile", dockerfile, "USER 65532:65532\n"},
		{"Dockerfile", dockerfile, "ENV RUEDA_CONFIG=/etc/rueda/rueda.toml\n"},
		{"Dockerfile", dockerfile, "VOLUME /var/lib/rueda\n"},
		{"Dockerfile", dockerfile, `CMD ["/usr/bin/rueda", "health"]`},
		{"compose.yaml", compose, "state:/var/lib/rueda\n"},
		{"compose.yaml", compose, "./config:/etc/rueda:ro\n"},
		{"compose.yaml", compose, "/dev/shm:/dev/shm\n"},
		{"statefulset.yaml", pods, "args: [serve, --config, /etc/rueda/rueda.toml]\n"},
		{"statefulset.yaml", pods, "runAsUser: 65532\n"},
		{"statefulset.yaml", pods, "mountPath: /var/lib/rueda}"},
		{"statefulset.yaml", pods, "path: /readyz"},
		{"statefulset.yaml", pods, "{secretName: rueda-operators, defaultMode: 0440}"},
		{"statefulset.yaml", pods, "mountPath: /etc/rueda-operators, "},
		{"install.md", install, "kubectl create secret generic rueda-operators --from-file=operators\n"},
		{"kubernetes/rueda.toml", read(t, "deploy/kubernetes/rueda.toml"), "token_file = \"/etc/rueda-operators/operators\"\n"},
		{"statefulset.yaml", pods, "path: /livez"},
	} {
		if !strings.Contains(want.text, want.part) {
			t.Errorf("%s does not have %q", want.name, want.part)
		}
	}
	for _, name := range []string{"deploy/docker/rueda.toml", "deploy/kubernetes/rueda.toml"} {
		text := read(t, name)
		port := one(t, name, text, `listen = "0\.0\.0\.0:(\d+)"`)
		for file, place := range map[string]string{"deploy/docker/Dockerfile": "EXPOSE " + port + "\n",
			"deploy/compose/compose.yaml": "127.0.0.1:" + port + ":" + port, "deploy/kubernetes/statefulset.yaml": "containerPort: " + port + "}"} {
			if !strings.Contains(read(t, file), place) {
				t.Errorf("%s listens on %s, and %s does not have %q", name, port, file, place)
			}
		}
		for _, m := range regexp.MustCompile(`_env = "(\w+)"`).FindAllStringSubmatch(text, -1) {
			if !strings.Contains(compose, " "+m[1]+":") || !strings.Contains(pods, "- name: "+m[1]+"\n") {
				t.Errorf("%s reads %s, which compose.yaml or statefulset.yaml does not set", name, m[1])
			}
		}
	}
}

// one returns the only submatch of a pattern in a text.
func one(t *testing.T, name, text, pattern string) string {
	t.Helper()
	all := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	if len(all) != 1 {
		t.Fatalf("%s: %d matches of %s", name, len(all), pattern)
	}
	return all[0][1]
}

// TestDrainFits checks that systemd, Docker and Kubernetes wait for longer than the drain of the
// example configuration, and that docs/install.md states their times.
func TestDrainFits(t *testing.T) {
	seconds := func(name, pattern string) time.Duration {
		t.Helper()
		d, err := time.ParseDuration(one(t, name, read(t, name), pattern) + "s")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	drain := seconds("internal/ops/config/templates/rueda.toml", `(?m)^# drain = "(\d+)s"$`)
	before := seconds("deploy/kubernetes/statefulset.yaml", `(?m)^\s+sleep: {seconds: (\d+)}$`)
	grace := seconds("deploy/kubernetes/statefulset.yaml", `terminationGracePeriodSeconds: (\d+)`)
	for name, has := range map[string]time.Duration{
		"systemd":    seconds("deploy/systemd/rueda.service", `TimeoutStopSec=(\d+)`) - drain,
		"Docker":     seconds("deploy/compose/compose.yaml", `stop_grace_period: (\d+)s`) - drain,
		"Kubernetes": grace - before - drain,
	} {
		if has < 10*time.Second {
			t.Errorf("%s has %v to spare", name, has)
		}
	}
	install := strings.Join(strings.Fields(read(t, "docs/install.md")), " ")
	text := func(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }
	for _, want := range []string{"After " + text(before) + " it gets SIGTERM", "`drain` (" + text(drain) + ")",
		"`terminationGracePeriodSeconds` (" + text(grace) + ")"} {
		if !strings.Contains(install, want) {
			t.Errorf("docs/install.md does not say %q", want)
		}
	}
}

// TestVersions checks that clients and documents have the version of the program, in the spelling
// of each ecosystem, and that the clients have its license.
func TestVersions(t *testing.T) {
	version := command.ReadBuild().Version
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-dev)?$`).MatchString(version) {
		t.Fatalf("the version is %q, want one such as 0.2.0 or 0.2.0-dev", version)
	}
	python := strings.Replace(version, "-dev", ".dev0", 1) // PEP 440
	heading := "## " + version + " ("                      // and the date
	if strings.HasSuffix(version, "-dev") {
		heading = "## Unreleased (" + version + ")\n"
	}
	for _, want := range []struct{ name, part string }{
		{"README.md", "\nThis is version " + version + "."},
		{"CHANGELOG.md", "\n" + heading},
		{"clients/python/rueda/_version.py", `__version__ = "` + python + "\"\n"},
		{"clients/python/README.md", "/rueda-" + python + "-py3-none-any.whl\n"},
		{"clients/typescript/package.json", "{\n  \"name\": \"@rueda/client\",\n  \"version\": \"" + version + `",`},
		{"clients/typescript/package-lock.json", "{\n  \"name\": \"@rueda/client\",\n  \"version\": \"" + version + `",`},
		{"clients/typescript/package-lock.json", "{\n      \"name\": \"@rueda/client\",\n      \"version\": \"" + version + `",`},
		{"clients/typescript/README.md", "/rueda-client-" + version + ".tgz\n"},
		{"clients/python/LICENSE", read(t, "LICENSE")},
		{"clients/typescript/LICENSE", read(t, "LICENSE")},
	} {
		if !strings.Contains(read(t, want.name), want.part) {
			t.Errorf("%s does not have %q", want.name, want.part)
		}
	}
}
