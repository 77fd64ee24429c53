package single

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ruedahq/rueda/tests/chaos/check"
	"github.com/ruedahq/rueda/tests/chaos/market"
	"github.com/ruedahq/rueda/tests/chaos/producer"
	"github.com/ruedahq/rueda/tests/chaos/stream"
)

// prepared is a data folder that a gateway has written, with all that it said.
type prepared struct {
	name     string
	gateway  *Gateway
	market   *market.Market
	judge    *check.Judge
	end      int64             // first event that was not sent
	epoch    string            // in which all events are
	position string            // before the first event
	shared   map[string][]byte // files of shared memory that belong to the folder
	files    []string          // of the data folder, relative
}

// sharedMemory has pages of journals, which a restart of the machine would remove.
const sharedMemory = "/dev/shm"

// prepare runs a gateway until it has stored some thousand events, and ends it by a signal. The
// events of a virtual clock begin the day before. Cancels come within an hour, because later ones
// do not change the bars of a day that has ended.
func prepare(ctx context.Context, c Config, name string, virtual bool, end syscall.Signal) (*prepared, error) {
	gateway, err := NewGateway(c.Program, filepath.Join(c.Folder, name))
	if err != nil {
		return nil, err
	}
	p := &prepared{name: name, gateway: gateway, shared: map[string][]byte{}}
	if virtual {
		p.market = market.New(c.Seed, time.Now().Add(-30*time.Hour), 15*time.Second, 3)
		p.market.Virtual = true
	} else {
		p.market = market.New(c.Seed, time.Now().Add(-50*time.Second), 8*time.Millisecond, 3)
	}
	report := check.NewReport()
	p.judge = check.NewJudge(p.market, report)
	if err := gateway.Start(ctx); err != nil {
		return nil, err
	}
	if err := p.fill(ctx); err != nil {
		_ = gateway.Stop(syscall.SIGKILL)
		return nil, fmt.Errorf("prepare %s: %w", name, err)
	}
	if err := gateway.Stop(end); err != nil {
		return nil, err
	}
	Verify(ctx, c.Program, gateway.Journal(), false, report)
	if n, first := report.Violations(); n > 0 {
		return nil, fmt.Errorf("%d violations while %s was prepared: %q", n, name, first)
	}
	c.Logf("%s: %s", name, report)
	return p, p.keep()
}

// fill sends events, and reads all that is stored.
func (p *prepared) fill(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	token, err := stream.Login(ctx, p.gateway.Address, User, Password)
	if err != nil {
		return err
	}
	send := producer.New(producer.Config{Market: p.market, Name: "p", Resume: "chaos", Token: secret, Addresses: []string{p.gateway.Feed}})
	p.end = send.StopAt(p.market.Start) // only definitions, and an event of each
	done := make(chan struct{})
	go func() {
		defer close(done)
		send.Run(ctx)
	}()
	defer func() { stop(); <-done }()
	if !producer.Until(ctx, send.Drained) {
		return fmt.Errorf("no Ack: %v", send.Refused())
	}
	if p.epoch, p.position, err = begin(ctx, p.gateway.Address, token); err != nil {
		return err
	}
	send.Continue()
	last := time.Now()
	if p.market.Virtual {
		last = last.Add(-time.Hour) // the rest is for those who go on
	}
	p.end = send.StopAt(last)
	if !producer.Until(ctx, send.Drained) {
		return fmt.Errorf("no Ack: %v", send.Refused())
	}
	producer.Wait(ctx, 3*time.Second) // bars, and the closing of days
	return p.judge.History(ctx, p.gateway.Address, token, p.end)
}

// begin returns the epoch and the newest position.
func begin(ctx context.Context, address, token string) (epoch, position string, err error) {
	s, err := stream.Dial(ctx, address, stream.Options{})
	if err != nil {
		return "", "", err
	}
	defer s.Close()
	if err := s.Send(map[string]any{"action": "auth_token", "token": token}); err != nil {
		return "", "", err
	}
	if err := s.Send(map[string]any{"action": "subscribe", "trades": []string{"*|M1|24hs"}}); err != nil {
		return "", "", err
	}
	for {
		m, err := s.Read(time.Now().Add(10 * time.Second))
		if err != nil {
			return "", "", err
		}
		if m.Type == "Subscription" {
			return m.Epoch, m.Position, nil
		}
	}
}

// keep copies the data folder and its pages of shared memory.
func (p *prepared) keep() error {
	data := p.gateway.Data()
	if err := os.CopyFS(p.backup(), os.DirFS(data)); err != nil {
		return err
	}
	err := filepath.WalkDir(data, func(name string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			relative, _ := filepath.Rel(data, name)
			p.files = append(p.files, relative)
		}
		return err
	})
	if err != nil {
		return err
	}
	pages, _ := filepath.Glob(filepath.Join(sharedMemory, "*"))
	for _, name := range pages {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(p.gateway.Folder)) {
			p.shared[name] = text
		}
	}
	return nil
}

func (p *prepared) backup() string { return p.gateway.Folder + ".kept" }

// restore puts the data folder and the pages back.
func (p *prepared) restore() error {
	data := p.gateway.Data()
	if err := os.RemoveAll(data); err != nil {
		return err
	}
	if err := os.CopyFS(data, os.DirFS(p.backup())); err != nil {
		return err
	}
	for name, text := range p.shared {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return err
		}
	}
	// Programs refuse folders and files that others may read.
	return filepath.WalkDir(data, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(name, 0o700)
		}
		return os.Chmod(name, 0o600)
	})
}
