package rueda_test

import (
	"fmt"
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// promises returns the tests that check the promises of README.md, by topic, each as its folder and
// name. A test that compares a time with a promise allows three times that, and a soak run the time
// itself. The bounds of speed are checked by bench with --strict; TestVerdicts checks that it
// reports an exceeded bound.
func promises() map[string][]string {
	return map[string][]string{
		"Sequence gaps": {"gateway TestResumeOverSocketsE2E", "internal/engine/subscription TestResumeLosesNothing"},
		"Bots":          {"client TestKillsE2E", "client TestNewEpoch", "client TestBookModel"},
		"Restarts": {"gateway TestKillE2E", "gateway TestHistoryEqualsStreamE2E", "internal/data/export TestParquet",
			"internal/ops/cli TestReplayOfRecordingE2E"},
		"Order books":     {"internal/data/verify TestEachWrong", "internal/ops/cli TestVerifyLive"},
		"Quiet or broken": {"internal/engine/session TestTalk", "internal/engine/feeds TestTwoFeedsOfAMarket"},
		"Backpressure": {"internal/testing/hostile TestThreat19SlowConsumerE2E", "internal/engine/hub TestHoarderE2E",
			"internal/engine/socket TestSlowReaderIsClosed"},
		"Speed": {"bench/scenario TestFanoutE2E", "bench/scenario TestIdleE2E", "bench/scenario TestVerdicts",
			"internal/engine/session TestSize"},
		"Exact prices":     {". TestNoFloats"},
		"Database outages": {"gateway TestThreat30IdentityDown", "gateway TestDatabaseKilledE2E"},
		"Refresh tokens": {"internal/identity/auth TestLostAnswer", "internal/identity/auth TestThreat07StolenRefreshToken",
			"internal/identity/auth TestThreat32KillE2E"},
		"Revocation": {"gateway TestThreat13TokenReplayE2E", "gateway TestThreat09DisabledUserE2E",
			"gateway TestThreat14KeyTheftClosesSocketsE2E", "gateway TestThreat14KeyTheftInAClusterE2E", "gateway TestTwoGatewaysE2E"},
		"Entitlements": {"gateway TestRightsEndToEndE2E", "internal/ops/cli TestReportUsage"},
		"Login floods": {"internal/identity/auth TestThreat01PasswordGuessing", "internal/identity/auth TestThreat03LockingOutAnOwner",
			"gateway TestLoginFloodE2E"},
		"Errors": {"internal/engine/session TestEveryReasonIsShown", "internal/base/spell TestSuggest", "market TestSuggest"},
	}
}

// TestReadmePromises checks that each promise of README.md has tests, and that they exist.
func TestReadmePromises(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "\n| topic | promise |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	names := map[string]bool{}
	for _, s := range tests(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				names[s.dir+" "+f.Name.Name] = true
			}
		}
	}
	held := promises()
	rows := 0
	for _, m := range regexp.MustCompile(`(?m)^\| (\w[^|]*?) \|`).FindAllStringSubmatch(table, -1) {
		rows++
		if len(held[m[1]]) == 0 {
			t.Errorf("no test is listed for the promise %q", m[1])
		}
		for _, name := range held[m[1]] {
			if !names[name] {
				t.Errorf("%s: there is no test %s", m[1], name)
			}
		}
	}
	if rows != len(held) {
		t.Errorf("README.md has %d promises, and %d have tests", rows, len(held))
	}
}

// TestNumberOfThreats checks the number of threats in SECURITY.md.
func TestNumberOfThreats(t *testing.T) {
	text, err := os.ReadFile("SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d threats", threats); !strings.Contains(string(text), want) {
		t.Errorf("SECURITY.md does not mention %s", want)
	}
}

// TestNoFloats checks that the packages between a feed and the wire have no floating point numbers.
func TestNoFloats(t *testing.T) {
	exact := strings.Fields(`market wire wire/stream feed feed/ndjson internal/engine/bars internal/engine/book internal/engine/journal
		internal/engine/hub internal/engine/recent internal/data/recording internal/engine/session internal/engine/subscription`)
	words := []string{"float32", "float64", "ParseFloat", "AppendFloat", "FormatFloat", "Float64bits"}
	checked := 0
	for _, s := range sources(t) {
		if s.test || !slices.Contains(exact, s.dir) {
			continue
		}
		checked++
		ast.Inspect(s.file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && slices.Contains(words, id.Name) {
				t.Errorf("%s: %s is not exact", s.at(id.Pos()), id.Name)
			}
			return true
		})
	}
	if checked < 100 {
		t.Errorf("checked %d files", checked)
	}
}
