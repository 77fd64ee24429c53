package metrics

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// deployed are the files for Prometheus and Grafana.
func deployed(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, pattern := range []string{"../../../deploy/prometheus/*.yml", "../../../deploy/grafana/*.json"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			texts[filepath.Base(name)] = string(text)
		}
	}
	return texts
}

// TestDeployedNames checks that each metric that the alerts and the dashboard name is on the page,
// and that each alert has a test.
func TestDeployedNames(t *testing.T) {
	page := scrape(t, example())
	name := regexp.MustCompile(`\b(?:rueda|process|go)_[a-z0-9_]+`)
	texts := deployed(t)
	found := 0
	for file, text := range texts {
		for _, n := range name.FindAllString(text, -1) {
			found++
			if !strings.Contains(page, "\n"+n+" ") && !strings.Contains(page, "\n"+n+"{") && !strings.Contains(page, "# TYPE "+n+" histogram\n") {
				t.Errorf("%s names %s, which is not on the page", file, n)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d names were found", found)
	}
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(texts["alerts.yml"], -1) {
		if !strings.Contains(texts["alerts_test.yml"], `alertname="`+alert[1]+`"`) {
			t.Errorf("alerts_test.yml does not test %s", alert[1])
		}
	}
}

// TestAlertsE2E checks and tests the alerts with promtool.
func TestAlertsE2E(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
			t.Fatal(err)
		}
		t.Skip("promtool is not installed, and RUEDA_REQUIRE_ALL does not require it")
	}
	for _, args := range [][]string{{"check", "rules", "alerts.yml"}, {"test", "rules", "alerts_test.yml"}} {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir = "../../../deploy/prometheus"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %v: %v\n%s", args, err, out)
		}
	}
}
