package ruedatest

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/ruedahq/rueda/feed"
	"github.com/ruedahq/rueda/feed/sim"
	"github.com/ruedahq/rueda/gateway"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// Config configures a Server. With the zero Config, the market is scripted and has no instruments
// yet.
type Config struct {
	// Sim configures a simulated exchange. If nil, the market is scripted.
	Sim *sim.Config
	// NoJournal runs the gateway without a journal. The routes of history then answer not_found,
	// and each restart begins a new epoch.
	NoJournal bool
	// Scopes lists the scopes of the user, who has a right to all market data. nil means all
	// scopes.
	Scopes []string
	// Change may change the configuration of the gateway before each start. It may be nil.
	Change func(*gateway.Config)
}

// Server runs a gateway for a test.
type Server struct {
	URL      string // such as http://127.0.0.1:40123
	Username string
	Password string

	t      testing.TB
	config Config
	folder string
	data   *gateway.Data // keys and logins, which survive a restart
	listen string
	script script
	stop   func() // nil: stopped
}

// Start starts a gateway and waits until it is ready. The gateway runs until the test ends. If the
// start fails, so does the test.
func Start(t testing.TB, c Config) *Server {
	t.Helper()
	s := &Server{t: t, config: c, Username: "demo", Password: "demo", listen: "127.0.0.1:0", folder: t.TempDir()}
	s.script.init()
	var err error
	if s.data, err = gateway.OpenData(t.Context(), gateway.DataConfig{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		if err := s.data.Close(); err != nil {
			t.Error(err)
		}
	})
	s.start()
	return s
}

// start runs a gateway at s.listen and waits until it is ready. The test ends if this fails.
func (s *Server) start() {
	s.t.Helper()
	ready, ended := make(chan gateway.Bound, 1), make(chan error, 1)
	c := gateway.Config{
		Listen: s.listen, Data: s.data, Users: users{s.Username, s.Password, s.config.Scopes}, Accounts: users{}, Drain: 20 * time.Millisecond,
		Feeds:   []gateway.Feed{{Name: "script", Source: &s.script}},
		Faults:  func(string, market.InstrumentID) (string, error) { return "", errors.ErrUnsupported },
		OnReady: func(b gateway.Bound) { ready <- b },
		Stream:  gateway.Stream{BookWildcards: true},
	}
	if !s.config.NoJournal {
		c.Journal.Folder = filepath.Join(s.folder, "journal")
	}
	if s.config.Sim != nil {
		exchange, err := sim.New(*s.config.Sim)
		if err != nil {
			s.t.Fatal(err)
		}
		c.Feeds = []gateway.Feed{{Name: "sim", Source: exchange}}
	}
	if s.config.Change != nil {
		s.config.Change(&c)
	}
	g, err := gateway.New(s.t.Context(), c)
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- g.Run(ctx) }()
	select {
	case b := <-ready:
		s.listen, s.URL = b.Address, b.REST
	case err := <-ended:
		cancel()
		s.t.Fatal(cmp.Or(err, errors.New("the gateway ended")))
	}
	s.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			s.t.Errorf("gateway: %v", err)
		}
	}
}

// Stop stops the gateway, which closes the connections of clients. It does nothing if the gateway
// is stopped.
func (s *Server) Stop() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// Restart stops the gateway, unless it is stopped, and starts it again at the same address. With a
// journal, sequence numbers continue. The scripted instruments are defined again, and books are
// unknown until their next snapshot.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.start()
}

// Fault requests a fault of docs/faults.md, such as gap, stall or disconnect, for all connections
// of the user. instrument may be "". A failure ends the test.
func (s *Server) Fault(name, instrument string) {
	s.t.Helper()
	if err := s.fault(name, instrument); err != nil {
		s.t.Fatalf("fault %s: %v", name, err)
	}
}

func (s *Server) fault(name, instrument string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	token, err := s.token(ctx)
	if err != nil {
		return err
	}
	conn, _, err := websocket.Dial(ctx, s.URL+"/stream", nil)
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }() // the answer has come
	ask := map[string]any{"action": wire.ActionSim, "fault": name, "others": true}
	if instrument != "" {
		ask["instrument"] = instrument
	}
	err = errors.Join(wsjson.Write(ctx, conn, map[string]any{"action": wire.ActionAuthToken, "token": token}), wsjson.Write(ctx, conn, ask))
	for err == nil {
		var m struct{ Type, Reason, Msg string }
		if err = wsjson.Read(ctx, conn, &m); err != nil {
			break
		}
		switch m.Type {
		case "Sim":
			return nil
		case "Error":
			return errors.New(m.Reason + ": " + m.Msg)
		}
	}
	return err
}

var _ feed.Source = (*script)(nil)
