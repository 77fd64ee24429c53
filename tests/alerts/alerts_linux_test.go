package alerts

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	causeVariable = "RUEDA_ALERTS_CAUSE"  // set in the process of a gateway
	folderOf      = "RUEDA_ALERTS_FOLDER" // of that gateway
	token         = "the-token-of-prometheus-in-these-tests"
	patience      = 3 * time.Minute
)

// target is a gateway in a process of its own, and the alerts that its cause fires.
type target struct {
	cause   string
	alerts  []string
	always  string        // an alert that fires before the cause, too
	applied func(*target) // what the test does after the gateway's process has applied its part

	cmd   *exec.Cmd
	in    io.Writer
	out   *bufio.Reader
	admin string // host:port
	ended chan struct{}
}

func targets() []*target {
	return []*target{
		{cause: "none"},
		{cause: "killed", alerts: []string{"RuedaDown"}, applied: func(p *target) { _ = p.cmd.Process.Kill() }},
		{cause: "paused", alerts: []string{"RuedaSlowDelivery"}},
		{cause: "feed", alerts: []string{"RuedaFeedDown", "RuedaNotReady"}},
		{cause: "events", alerts: []string{"RuedaFeedRefused"}},
		{cause: "prices", alerts: []string{"RuedaFeedSuspect"}},
		{cause: "files", alerts: []string{"RuedaJournalSuspended", "RuedaDatabaseFailing"}},
		{cause: "days", alerts: []string{"RuedaClusterDaysDiffer"}, always: "RuedaNotReady"}, // a node without NATS
		{cause: "disk", alerts: []string{"RuedaDiskSpace"}},
		{cause: "users", alerts: []string{"RuedaUserBaseDown"}},
		{cause: "guesses", alerts: []string{"RuedaLoginsRefused"}},
		{cause: "certificate", alerts: []string{"RuedaCertificateExpires"}},
		{cause: "connections", alerts: []string{"RuedaConnectionsNearLimit"}},
		{cause: "handshakes", alerts: []string{"RuedaHandshakesRefused"}},
		{cause: "descriptors", alerts: []string{"RuedaDescriptors"}},
		{cause: "slow", alerts: []string{"RuedaSlowClients"}},
		{cause: "memory", alerts: []string{"RuedaStreamMemory"}},
		{cause: "panic", alerts: []string{"RuedaPanics"}},
	}
}

// resume continues the process, which stops itself after each publication, until it ends.
func (p *target) resume() {
	for {
		select {
		case <-p.ended:
			return
		case <-time.After(100 * time.Millisecond):
			_ = p.cmd.Process.Signal(syscall.SIGCONT)
		}
	}
}

// start starts the process of a gateway.
func (p *target) start(t *testing.T) {
	p.cmd = exec.Command(os.Args[0], "-test.run=^TestAlertsE2E$")
	p.cmd.Env = append(os.Environ(), causeVariable+"="+p.cause, folderOf+"="+t.TempDir())
	p.cmd.Stderr = os.Stderr
	if p.cause == "disk" {
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS} // it mounts a small disk
	}
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("%s: %v", p.cause, err)
	}
	p.in, p.out, p.ended = in, bufio.NewReader(out), make(chan struct{})
	if p.cause == "paused" {
		go p.resume()
	}
	t.Cleanup(func() {
		close(p.ended)
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // the error says that it was killed
	})
}

// await reads the address that the process prints.
func (p *target) await(t *testing.T) {
	line, err := p.out.ReadString('\n')
	if _, serr := fmt.Sscanf(line, "at %s", &p.admin); serr != nil {
		t.Fatalf("%s: the gateway printed %q (%v)", p.cause, line, err)
	}
}

// TestAlertsE2E applies the cause of each alert to a gateway, and waits until Prometheus reports
// the alert. The times of the alerts (for) are seconds instead of minutes.
func TestAlertsE2E(t *testing.T) {
	if cause := os.Getenv(causeVariable); cause != "" {
		if err := serve(t, cause, os.Getenv(folderOf)); err != nil {
			t.Fatal(err)
		}
		return
	}
	if os.Getenv("RUEDA_ALERTS") == "" {
		t.Skip("RUEDA_ALERTS is not set: make alerts sets it")
	}
	var disk syscall.Statfs_t
	if err := syscall.Statfs(os.TempDir(), &disk); err != nil {
		t.Fatal(err)
	}
	if disk.Bavail < disk.Blocks*12/100 {
		t.Fatalf("%s has %d %% left: RuedaDiskSpace would fire for all gateways; free space there, or set TMPDIR", os.TempDir(), disk.Bavail*100/disk.Blocks)
	}
	all := targets()
	checkTargets(t, all)
	for _, p := range all {
		p.start(t)
	}
	for _, p := range all {
		p.await(t)
	}
	m := startPrometheus(t, all)
	m.await(t, fmt.Sprintf("count(up == 1) == %d and min(count_over_time(up[1m])) > 7", len(all)))
	for alert, causes := range m.firing(t) {
		causes = slices.DeleteFunc(causes, func(cause string) bool {
			return slices.ContainsFunc(all, func(p *target) bool { return p.cause == cause && p.always == alert })
		})
		if alert != "RuedaSlowDelivery" && len(causes) > 0 { // a busy machine delivers slowly
			t.Errorf("%s fires for %v before its cause", alert, causes)
		}
	}
	for _, p := range all {
		if _, err := fmt.Fprintln(p.in, "apply"); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range all {
		if line, err := p.out.ReadString('\n'); line != "applied\n" {
			t.Fatalf("%s: the gateway printed %q (%v)", p.cause, line, err)
		}
		if p.applied != nil {
			go p.applied(p)
		}
	}
	m.awaitAlerts(t, all)
	for alert, causes := range m.firing(t) {
		if slices.Contains(causes, "none") && alert != "RuedaSlowDelivery" {
			t.Errorf("%s fires for the gateway that works", alert)
		}
	}
}

// checkTargets checks that each alert of the file has a cause.
func checkTargets(t *testing.T, all []*target) {
	text := rules(t)
	for _, a := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(text, -1) {
		if !slices.ContainsFunc(all, func(p *target) bool { return slices.Contains(p.alerts, a[1]) }) {
			t.Errorf("no cause of %s is applied", a[1])
		}
	}
}

func rules(t *testing.T) string {
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// monitor is a Prometheus.
type monitor struct {
	url    string
	causes map[string]string // by address of a gateway
}

func startPrometheus(t *testing.T, all []*target) *monitor {
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatal("prometheus is needed: apt-get install prometheus")
	}
	folder := t.TempDir()
	m := &monitor{causes: map[string]string{}}
	var addresses []string
	for _, p := range all {
		addresses = append(addresses, `"`+p.admin+`"`)
		m.causes[p.admin] = p.cause
	}
	scaled := regexp.MustCompile(`for: (\d+)m`).ReplaceAllString(rules(t), "for: ${1}s")
	for name, text := range map[string]string{
		"alerts.yml": scaled,
		"token":      token,
		"prometheus.yml": `global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: rueda
    authorization: {credentials_file: token}
    static_configs:
      - targets: [` + strings.Join(addresses, ", ") + "]\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "--config.file", filepath.Join(folder, "prometheus.yml"), "--storage.tsdb.path", filepath.Join(folder, "data"),
		"--web.listen-address", address, "--log.level", "warn")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // the error says that it was stopped
	})
	m.url = "http://" + address
	return m
}

// get asks Prometheus; ok: it has answered.
func (m *monitor) get(ctx context.Context, path string, into any) (ok bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+path, nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	return answer.StatusCode == http.StatusOK && json.NewDecoder(answer.Body).Decode(into) == nil
}

// await waits until a query has a result.
func (m *monitor) await(t *testing.T, query string) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		var answer struct{ Data struct{ Result []any } }
		if m.get(t.Context(), "/api/v1/query?query="+strings.NewReplacer(" ", "%20", "+", "%2B").Replace(query), &answer) && len(answer.Data.Result) > 0 {
			return
		}
	}
	t.Fatalf("never: %s", query)
}

// firing returns the firing alerts with the causes of their gateways.
func (m *monitor) firing(t *testing.T) map[string][]string {
	var answer struct {
		Data struct {
			Alerts []struct {
				State  string
				Labels map[string]string
			}
		}
	}
	if !m.get(t.Context(), "/api/v1/alerts", &answer) {
		t.Log("Prometheus does not answer")
	}
	list := map[string][]string{}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			list[a.Labels["alertname"]] = append(list[a.Labels["alertname"]], m.causes[a.Labels["instance"]])
		}
	}
	return list
}

// awaitAlerts waits until each cause has fired its alerts.
func (m *monitor) awaitAlerts(t *testing.T, all []*target) {
	began := time.Now()
	missing := map[string]bool{}
	for _, p := range all {
		for _, a := range p.alerts {
			missing[p.cause+" "+a] = true
		}
	}
	for len(missing) > 0 {
		if time.Since(began) > patience {
			t.Errorf("these causes have not fired their alerts: %v; firing: %v", missing, m.firing(t))
			return
		}
		time.Sleep(500 * time.Millisecond)
		for alert, causes := range m.firing(t) {
			for _, cause := range causes {
				if missing[cause+" "+alert] {
					t.Logf("%s fires after %v (%s)", alert, time.Since(began).Round(time.Second), cause)
					delete(missing, cause+" "+alert)
				}
			}
		}
	}
}
