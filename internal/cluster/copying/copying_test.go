package copying

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/journaltest"
)

// nodes are the nodes of a cluster, which a Copier asks.
type nodes struct {
	list     map[string]*peer
	requests []Request // all that were answered
	fault    func(node string, r *Request, part []byte) ([]byte, error)
}

// peer is a node with a journal.
type peer struct {
	Source
	status Status
}

// add adds a node with a journal.
func (n *nodes) add(t *testing.T, name string, d journaltest.Days) *peer {
	t.Helper()
	d.Folder, d.Epoch = filepath.Join(t.TempDir(), "journal"), "e1"
	d.Write(t)
	j, err := journal.Open(t.Context(), journal.Config{Folder: d.Folder, Copy: true, Days: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &peer{Source: Source{Node: name, Folder: d.Folder, Journal: j, Commit: func() {}}}
	p.status.State = cluster.State{History: cluster.History{Epoch: "e1", Starts: []cluster.Start{{Term: cluster.Term{Number: 1, Leader: 5}}}}, Position: d.Position(), Seq: 7}
	if n.list == nil {
		n.list = map[string]*peer{}
	}
	n.list[name] = p
	return p
}

// ask implements Ask.
func (n *nodes) ask(ctx context.Context, node string, request []byte, f func([]byte) error) error {
	var r Request
	if err := json.Unmarshal(request, &r); err != nil {
		return err
	}
	n.requests = append(n.requests, r)
	p := n.list[node]
	return p.Answer(ctx, r, p.status, func(part []byte, _ bool) error {
		part = slices.Clone(part)
		if n.fault != nil {
			var err error
			if part, err = n.fault(node, &r, part); err != nil {
				return err
			}
		}
		return f(part)
	})
}

// offers returns the offers of all nodes.
func (n *nodes) offers(t *testing.T) (list []Offer) {
	t.Helper()
	for _, p := range n.list {
		list = append(list, *p.offer(t))
	}
	return list
}

// offer returns the offer of a node.
func (p *peer) offer(t *testing.T) (o *Offer) {
	t.Helper()
	err := p.Answer(t.Context(), Request{Op: OpOffer}, p.status, func(part []byte, _ bool) error {
		var ok bool
		if o, ok = ParseOffer(part); !ok {
			return errors.New("not an offer")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// copier returns a Copier for an empty journal.
func (n *nodes) copier(t *testing.T) *Copier {
	return &Copier{Journal: filepath.Join(t.TempDir(), "data", "journal"), Ask: n.ask}
}

// from copies the journal of a node.
func (n *nodes) from(t *testing.T, c *Copier, name string) error {
	t.Helper()
	all := n.offers(t)
	i := slices.IndexFunc(all, func(o Offer) bool { return o.Node == name })
	return c.Copy(t.Context(), &all[i], slices.Delete(slices.Clone(all), i, i+1))
}

// installed installs the copy, and returns the state that was passed, if there was one.
func installed(t *testing.T, c *Copier) (s *cluster.State) {
	t.Helper()
	if err := os.MkdirAll(c.Journal, 0o700); err != nil {
		t.Fatal(err)
	}
	err := Install(c.Journal, func(x cluster.State) error { s = &x; return nil })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// mustEqual checks that the journal of a new node is that of a node, when its earlier days are
// added.
func mustEqual(t *testing.T, c *Copier, p *peer) {
	t.Helper()
	s := installed(t, c)
	if s == nil || s.Position != p.status.State.Position || !s.Gaps || s.Seq != 7 || s.History.Epoch != "e1" {
		t.Fatalf("state %+v", s)
	}
	if s := installed(t, c); s != nil {
		t.Error("the copy was installed twice")
	}
	if left, err := filepath.Glob(c.Journal + "*"); err != nil || len(left) != 1 {
		t.Errorf("folders %v, %v", left, err)
	}
	j, err := journal.Open(t.Context(), journal.Config{Folder: c.Journal, Copy: true, Epoch: s.History.Epoch, Days: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}()
	if want, have := p.Journal.Days(), j.Days(); len(have) != min(2, len(want)) || len(j.Earlier()) != len(want)-len(have) {
		t.Errorf("%d of %d days at first, %+v follow", len(have), len(want), j.Earlier())
	}
	if err := c.AddEarlier(t.Context(), j, p.offer(t), nil); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(c.Journal + ".*"); err != nil || len(left) > 0 || j.Earlier() != nil {
		t.Errorf("folders %v, earlier days %+v, %v", left, j.Earlier(), err)
	}
	want, err := p.Journal.Hash(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	got, err := j.Hash(t.Context(), "")
	if err != nil || got != want || j.Newest() != p.Journal.Newest() || j.Epoch() != "e1" {
		t.Errorf("hash %s, position %d, epoch %s, %v; want %s, %d", got, j.Newest(), j.Epoch(), err, want, p.Journal.Newest())
	}
	if a, b := j.Days(), p.Journal.Days(); !slices.Equal(a, b) {
		t.Errorf("days\n%+v, want\n%+v", a, b)
	}
}

var market3 = journaltest.Days{Closed: 2, Rows: 900}

// TestCopy checks that a new node has all rows and closed days of the other one.
func TestCopy(t *testing.T) {
	t.Parallel()
	var n nodes
	p := n.add(t, "a", market3)
	n.add(t, "b", market3)
	c := n.copier(t)
	if err := n.from(t, c, "a"); err != nil {
		t.Fatal(err)
	}
	if at := c.Progress(); at.Node != "a" || at.Done != at.Bytes || at.Bytes == 0 {
		t.Errorf("progress %+v", at)
	}
	mustEqual(t, c, p)
}

// TestCopyOfEarlierEpochs checks that a journal is copied whose newest epoch has no rows yet, and
// that one with rows is refused without them.
func TestCopyOfEarlierEpochs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		epoch    string
		position uint64
		want     error
	}{
		"no rows yet":            {"e2", market3.Position(), nil},
		"rows are missing":       {"e2", market3.Position() + 1, errRows},
		"rows of the same epoch": {"e1", market3.Position() + 1, errRows},
	} {
		var n nodes
		p := n.add(t, "a", market3)
		p.status.State.Position = c.position
		p.status.State.History = cluster.History{Epoch: c.epoch, Starts: []cluster.Start{{Term: cluster.Term{Number: 1, Leader: 5}, After: market3.Position()}}}
		copier := n.copier(t)
		if err := n.from(t, copier, "a"); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if c.want != nil {
			mustNotShow(t, copier)
		} else if s := installed(t, copier); s == nil || s.History.Epoch != "e2" || s.Position != market3.Position() {
			t.Errorf("%s: state %+v", name, s)
		}
	}
}

// mustNotShow checks that there is nothing to install.
func mustNotShow(t *testing.T, c *Copier) {
	t.Helper()
	if s := installed(t, c); s != nil {
		t.Errorf("an incomplete copy was installed: %+v", s)
	}
	if days, err := filepath.Glob(filepath.Join(c.Journal, "????-??-??")); err != nil || len(days) > 0 {
		t.Errorf("the journal has %v, %v", days, err)
	}
}

// TestPeerVanishes checks that a node which vanishes in the middle is replaced by another one, at
// whichever request that happens.
func TestPeerVanishes(t *testing.T) {
	t.Parallel()
	for _, op := range []Op{OpList, OpRead, OpSum, OpState} {
		t.Run(string(op), func(t *testing.T) {
			t.Parallel()
			var n nodes
			n.add(t, "a", market3)
			p, c, seen := n.add(t, "b", market3), n.copier(t), 0
			n.fault = func(node string, r *Request, part []byte) ([]byte, error) {
				if r.Op == op {
					seen++
				}
				if node == "a" && r.Op == op && (seen == 3 || op == OpList || op == OpState) {
					return nil, context.DeadlineExceeded
				}
				return part, nil
			}
			err := n.from(t, c, "a")
			if e := (*PeerError)(nil); !errors.As(err, &e) || e.Node != "a" {
				t.Fatalf("%v", err)
			}
			mustNotShow(t, c)
			if err := n.from(t, c, "b"); err != nil {
				t.Fatal(err)
			}
			mustEqual(t, c, p)
		})
	}
}

// TestWrongContent checks that a copy is not used if its content is wrong in any way.
func TestWrongContent(t *testing.T) {
	t.Parallel()
	segment := func(t *testing.T, p *peer) string {
		t.Helper()
		list, err := filepath.Glob(filepath.Join(p.Folder, "*", "*.segz"))
		if err != nil || len(list) == 0 {
			t.Fatal(list, err)
		}
		return list[len(list)-1]
	}
	tests := map[string]func(t *testing.T, n *nodes, a *peer){
		"a bit changes on the way": func(_ *testing.T, n *nodes, _ *peer) {
			n.fault = func(_ string, r *Request, part []byte) ([]byte, error) {
				if r.Op == OpRead {
					part[len(part)/2] ^= 1
				}
				return part, nil
			}
		},
		"a closed day was changed by hand": func(t *testing.T, _ *nodes, a *peer) {
			name := segment(t, a)
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text[len(text)/2] ^= 1
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a segment is missing": func(t *testing.T, _ *nodes, a *peer) {
			if err := os.Remove(segment(t, a)); err != nil {
				t.Fatal(err)
			}
		},
		"a name leads out of the folder": func(_ *testing.T, n *nodes, _ *peer) {
			n.fault = func(_ string, r *Request, part []byte) ([]byte, error) {
				if r.Op == OpList {
					return []byte(`c{"Files":[{"Name":"../../2025-11-21/00000001.seg","Size":5}]}`), nil
				}
				return part, nil
			}
		},
		"answers are too long": func(_ *testing.T, n *nodes, _ *peer) {
			n.fault = func(_ string, r *Request, part []byte) ([]byte, error) {
				if r.Op == OpRead {
					part = append(part, "more"...)
				}
				return part, nil
			}
		},
		"answers are empty": func(_ *testing.T, n *nodes, _ *peer) {
			n.fault = func(_ string, _ *Request, _ []byte) ([]byte, error) { return nil, nil }
		},
		"the log has begun another epoch": func(_ *testing.T, n *nodes, a *peer) {
			n.fault = func(_ string, r *Request, part []byte) ([]byte, error) {
				if r.Op == OpRead {
					a.status.State.History.Epoch = "e2"
				}
				return part, nil
			}
		},
		"the node has begun with an empty journal meanwhile": func(_ *testing.T, n *nodes, a *peer) {
			n.fault = func(_ string, r *Request, part []byte) ([]byte, error) {
				if r.Op == OpList {
					a.status.Journal = "another"
				}
				return part, nil
			}
		},
		"rows of the state are missing": func(_ *testing.T, _ *nodes, a *peer) { a.status.State.Position += 5 },
		"the node does not follow the log": func(_ *testing.T, _ *nodes, a *peer) {
			a.status.Reason = "it does not follow the log"
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var n nodes
			a, b, c := n.add(t, "a", market3), n.add(t, "b", market3), n.copier(t)
			spoil(t, &n, a)
			err := n.from(t, c, "a")
			if e := (*PeerError)(nil); !errors.As(err, &e) || e.Node != "a" {
				t.Fatalf("%v", err)
			}
			mustNotShow(t, c)
			n.fault = nil
			if err := n.from(t, c, "b"); err != nil {
				t.Fatal(err)
			}
			mustEqual(t, c, b)
		})
	}
}

// TestOtherHash checks that a node whose closed day differs from that of most others is not copied.
func TestOtherHash(t *testing.T) {
	t.Parallel()
	changed := market3
	changed.Wrong = 20
	var n nodes
	n.add(t, "a", changed)
	p, c := n.add(t, "b", market3), n.copier(t)
	n.add(t, "c", market3)
	if err := n.from(t, c, "a"); !errors.Is(err, errOthers) || !strings.Contains(err.Error(), "2025-11-21") {
		t.Errorf("%v", err)
	}
	mustNotShow(t, c)
	if err := n.from(t, c, "b"); err != nil {
		t.Fatal(err)
	}
	mustEqual(t, c, p)
}

// TestFullDisk checks that a copy which a full disk has interrupted is continued when there is
// space, and that files which are complete are not copied again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	var n nodes
	p, c := n.add(t, "a", market3), n.copier(t)
	left := 40_000
	c.Write = func(f *os.File, b []byte) (int, error) {
		k, err := f.Write(b[:min(len(b), left)])
		if left -= k; err == nil && k < len(b) {
			err = syscall.ENOSPC
		}
		return k, err
	}
	err := n.from(t, c, "a")
	if !errors.Is(err, syscall.ENOSPC) || errors.As(err, new(*PeerError)) {
		t.Fatalf("%v", err)
	}
	mustNotShow(t, c)
	first := len(n.requests)
	if c.size(n.requests[first-1].Name+partEnding) == 0 {
		t.Error("nothing of the last file was kept")
	}
	left = 1 << 30
	if err := n.from(t, c, "a"); err != nil {
		t.Fatal(err)
	}
	for _, r := range n.requests[first:] {
		if r.Op == OpRead && slices.ContainsFunc(n.requests[:first], func(x Request) bool { return x.Op == OpSum && x.Name == r.Name }) {
			t.Errorf("%s was copied again", r.Name)
		}
	}
	mustEqual(t, c, p)
}

// TestRestart checks that a process which ends in the middle continues with what it has.
func TestRestart(t *testing.T) {
	t.Parallel()
	var n nodes
	p, c := n.add(t, "a", market3), n.copier(t)
	all := n.offers(t)
	whole := 0
	for stop := 2; ; stop += 3 {
		ctx, cancel := context.WithCancel(t.Context())
		c = &Copier{Journal: c.Journal, Ask: func(ctx context.Context, node string, request []byte, f func([]byte) error) error {
			if len(n.requests) >= stop {
				cancel()
				return ctx.Err()
			}
			return n.ask(ctx, node, request, f)
		}}
		err := c.Copy(ctx, &all[0], nil)
		cancel()
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) || stop > 1000 {
			t.Fatalf("after %d requests: %v", stop, err)
		}
		if whole++; whole == 3 {
			mustNotShow(t, c)
		}
	}
	if whole < 3 {
		t.Errorf("interrupted %d times", whole)
	}
	c.Ask = n.ask
	mustEqual(t, c, p)
}

// TestJournalChanges checks that files which the other node removes or extends meanwhile are copied
// as they are at the end.
func TestJournalChanges(t *testing.T) {
	t.Parallel()
	var n nodes
	p, c := n.add(t, "a", market3), n.copier(t)
	gone, grown := "", false
	n.fault = func(_ string, r *Request, part []byte) ([]byte, error) {
		switch {
		case r.Op == OpRead && gone == "":
			gone = r.Name
			return []byte{isGone}, nil
		case r.Op == OpSum && !grown && strings.HasSuffix(r.Name, ".seg"):
			grown = true
			if err := p.Journal.Close(); err != nil {
				return nil, err
			}
			more := market3
			more.Folder, more.Epoch, more.Closed, more.After = p.Folder, "e1", 0, market3.Position()
			more.Day = market3.Closed
			more.Write(t)
			j, err := journal.Open(t.Context(), journal.Config{Folder: p.Folder, Copy: true, Days: 1000})
			if err != nil {
				return nil, err
			}
			p.Journal, p.status.State.Position = j, more.Position()
		}
		return part, nil
	}
	if err := n.from(t, c, "a"); err != nil {
		t.Fatal(err)
	}
	lists := 0
	for _, r := range n.requests {
		if r.Op == OpList {
			lists++
		}
	}
	if gone == "" || !grown || lists < 2 {
		t.Errorf("removed %q, grown %v, %d lists", gone, grown, lists)
	}
	if p.status.State.Position == market3.Position() {
		t.Fatal("the journal has not grown")
	}
	// What came after the last list comes from the log. Here it is the same.
	if lists == 2 {
		mustEqual(t, c, p)
	}
	if err := p.Journal.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestHostileRequests checks that a Source gives out nothing but files of the journal.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	var n nodes
	p := n.add(t, "a", journaltest.Days{Closed: 1, Rows: 100})
	secret := filepath.Join(filepath.Dir(p.Folder), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(p.Folder, "2025-11-21", "00000099.seg")); err != nil {
		t.Fatal(err)
	}
	for _, r := range []Request{
		{Op: OpRead, Name: "../secret", Size: 10},
		{Op: OpRead, Name: secret, Size: 10},
		{Op: OpRead, Name: "state", Size: 10},
		{Op: OpRead, Name: "2025-11-21/../../secret", Size: 10},
		{Op: OpRead, Name: "2025-11-21/00000099.seg", Size: 10},
		{Op: OpRead, Name: "2025-11-21/00000001.segz", Offset: -5, Size: 10},
		{Op: OpSum, Name: "2025-11-21/00000099.seg", Size: 6},
		{Op: OpSum, Name: "2025-11-21/00000001.segz", Size: 1 << 60},
		{Op: "other"},
	} {
		err := p.Answer(t.Context(), r, p.status, func(part []byte, _ bool) error {
			if part[0] != isError || strings.Contains(string(part), "secret\x00") {
				t.Errorf("%+v: %q", r, part)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	err := p.Answer(t.Context(), Request{Op: OpRead, Name: "2025-11-21/00000001.segz", Size: 1 << 60}, p.status, func(part []byte, _ bool) error {
		if len(part) > 1+pieceBytes {
			t.Errorf("%d bytes at once", len(part))
		}
		return io.EOF
	})
	if !errors.Is(err, io.EOF) {
		t.Errorf("the error of send: %v", err)
	}
}

// TestInstallKeepsRows checks that a copy does not replace a journal with rows.
func TestInstallKeepsRows(t *testing.T) {
	t.Parallel()
	var n nodes
	n.add(t, "a", market3)
	c := n.copier(t)
	if err := n.from(t, c, "a"); err != nil {
		t.Fatal(err)
	}
	own := journaltest.Days{Folder: c.Journal, Epoch: "e1", Rows: 30}
	own.Write(t)
	if s := installed(t, c); s != nil {
		t.Errorf("installed with %+v", s)
	}
	r, err := journal.OpenReader(t.Context(), c.Journal)
	if err != nil || r.Newest() != own.Position() {
		t.Errorf("position %d, %v", r.Newest(), err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
