package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// olderCommit is a commit whose nodes may be mixed with those of this tree.
const olderCommit = "86e0b0f"

// older builds the program of the older commit. It skips the test if the history is not there, or
// fails it if RUEDA_REQUIRE_ALL is set.
func older(t *testing.T) (program string) {
	t.Helper()
	git := func(args ...string) (string, error) {
		out, err := exec.Command("git", append([]string{"-C", "../.."}, args...)...).CombinedOutput()
		return strings.TrimSpace(string(out)), err
	}
	if out, err := git("rev-parse", "--verify", "--quiet", olderCommit+"^{commit}"); err != nil {
		if os.Getenv("RUEDA_REQUIRE_ALL") != "" {
			t.Fatalf("the history does not have %s: %v, %s", olderCommit, err, out)
		}
		t.Skipf("the history does not have %s, so there is no older version to upgrade from", olderCommit)
	}
	folder := t.TempDir()
	tree := filepath.Join(folder, "tree")
	if out, err := git("worktree", "add", "--detach", tree, olderCommit); err != nil {
		t.Fatalf("git worktree: %v, %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := git("worktree", "remove", "--force", tree); err != nil {
			t.Errorf("git worktree: %v, %s", err, out)
		}
	})
	program = filepath.Join(folder, "rueda")
	if err := build(tree, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// downgrade gives the users of a new database the schema of the older commit, 7.
func downgrade(t *testing.T, database *url.URL) {
	t.Helper()
	db, err := sql.Open("pgx", database.String()) // package gateway has registered the driver
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range []string{
		`ALTER TABLE second_factors DROP COLUMN wrong`, `ALTER TABLE users DROP COLUMN must_change`,
		`DELETE FROM users_version WHERE version_id > 7`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// TestRollingUpgradeE2E upgrades the nodes of a cluster from an older version under load: one edge
// after another, and then the sequencers, the one that leads last. No client loses or doubles a
// trade, and the clients of a node leave it one after another. Nobody is logged out: tokens of nodes
// of either version are valid at all of them.
func TestRollingUpgradeE2E(t *testing.T) {
	newer, err := rueda()
	if err != nil {
		t.Fatal(err)
	}
	const drain = 4 * time.Second
	r := startRig(t, rigOptions{nats: 3, edges: 3, postgres: true, program: older(t), older: true, drain: drain.String(), speed: 20, clients: 60})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	source := r.produce(ctx, &running, 20*time.Millisecond, false)
	all := r.swarm(ctx, &running)
	r.awaitTrades(all, 20)
	r.program = newer // for status too
	var kept []*tokens
	r.useLogins(&kept)
	times := newRecoveries()
	upgrade := func(p *process) {
		times.measure(r, all, "upgrade of "+p.kind, p.kind == "edge", func() {
			p.signal(syscall.SIGTERM)
			command := p.command
			p.use(func() *exec.Cmd {
				cmd := command()
				cmd.Path, cmd.Args[0] = newer, newer
				return cmd
			})
			p.start(t)
		})
		r.awaitReady(2 * time.Minute)
		t.Logf("%s has the new version", p.name)
		r.useLogins(&kept)
	}
	for _, p := range r.edges {
		for _, f := range all {
			f.forget()
		}
		upgrade(p)
		checkSpread(t, all, drain)
	}
	sequencers := slices.Clone(r.nodes[:2])
	if leader := r.leader(); sequencers[0].name == leader {
		slices.Reverse(sequencers)
	}
	for _, p := range sequencers {
		upgrade(p)
	}
	r.awaitTrades(all, 20)
	r.checkStatus()
	times.print(t)
	source.check(t, r.checkAll(all, cancel, &running))
}

// useLogins logs in at each edge. It uses the access token of each login at each edge, and then
// refreshes the login there.
func (r *rig) useLogins(kept *[]*tokens) {
	r.t.Helper()
	grant := func(edge *process, body string) *tokens {
		var answer struct{ Data tokens }
		if status := r.request(edge, http.MethodPost, "/auth/token", "", body, &answer); status != http.StatusOK {
			r.t.Fatalf("%s, %.40s...: %d", edge.name, body, status)
		}
		return &answer.Data
	}
	for _, edge := range r.edges {
		*kept = append(*kept, grant(edge, `{"grant_type":"password","username":"`+botName(0)+`","password":"`+botSecret+`"}`))
	}
	for i, login := range *kept {
		for _, edge := range r.edges {
			if status := r.request(edge, http.MethodGet, "/auth/sessions", login.Access, "", nil); status != http.StatusOK {
				r.t.Fatalf("%s, token of login %d: %d", edge.name, i, status)
			}
			*login = *grant(edge, `{"grant_type":"refresh_token","refresh_token":"`+login.Refresh+`"}`)
		}
	}
}

// request sends a request to a node, and decodes the answer into v, unless it is nil.
func (r *rig) request(p *process, method, path, token, body string, v any) (status int) {
	r.t.Helper()
	q, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+p.address+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := (&http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}).Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if v != nil {
		if err := json.NewDecoder(answer.Body).Decode(v); err != nil {
			r.t.Fatal(err)
		}
	}
	return answer.StatusCode
}

// checkSpread checks that the connections of an edge have not ended at once, and that clients were
// asked to leave.
func checkSpread(t *testing.T, all []*follower, drain time.Duration) {
	t.Helper()
	var ends []time.Time
	hints := 0
	for _, f := range all {
		f.mu.Lock()
		ends, hints = append(ends, f.at...), hints+f.hints
		f.mu.Unlock()
	}
	if len(ends) < 10 {
		t.Fatalf("only %d connections ended", len(ends))
	}
	slices.SortFunc(ends, time.Time.Compare)
	spread := ends[len(ends)-1].Sub(ends[0])
	t.Logf("figure: %d connections ended over %v, %d with a hint", len(ends), spread.Round(10*time.Millisecond), hints)
	if spread < drain/2 || hints == 0 {
		t.Errorf("%d connections ended over %v of a drain of %v, with %d hints", len(ends), spread, drain, hints)
	}
}
