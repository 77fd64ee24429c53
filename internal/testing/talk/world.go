package talk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/internal/engine/entitlement"
	"github.com/ruedahq/rueda/internal/engine/hub"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/session"
	"github.com/ruedahq/rueda/market"
	"github.com/ruedahq/rueda/wire"
)

// World is the server's side of a conversation: the market, the users, and their changes. The steps
// of Run change it, and its host serves Env and Hub.
type World struct {
	Env *session.Env
	Hub *hub.Hub

	journal *journal.Journal // nil: the conversation has no delays
	folder  string           // of the journal

	mu     sync.Mutex
	delay  time.Duration // of every token check
	users  map[string]*session.Grants
	tokens map[string]session.Identity

	handles map[string]market.Handle
	trades  int

	dev bool // a development gateway
}

// day is the lifetime of the predefined tokens.
const day = 24 * time.Hour

// World returns the initial World of a conversation, with its settings.
func (s *Script) World() (*World, error) {
	w := &World{
		users:   make(map[string]*session.Grants),
		tokens:  make(map[string]session.Identity),
		handles: make(map[string]market.Handle),
	}
	w.Env = &session.Env{Registry: &session.Registry{}, Version: "test", Verify: w.verify, Origin: time.Now()}
	cfg := hub.Config{Epoch: "e1"}
	for i := range s.Steps {
		if st := &s.Steps[i]; st.Verb == "set" {
			if err := w.set(&cfg, strings.Fields(st.Rest)); err != nil {
				return nil, fmt.Errorf("%s.talk:%d: %w", s.Name, st.Line, err)
			}
		}
	}
	if len(cfg.Delays) > 0 {
		if err := w.openJournal(&cfg); err != nil {
			return nil, err
		}
	}
	w.Hub = hub.New(cfg)
	if err := w.Hub.Restore(context.Background()); err != nil {
		return nil, err
	}
	for _, id := range []string{"GGAL|BYMA|24hs", "GGAL|BYMA|CI", "AL30|BYMA|CI", "FAKE|SIM|CI", "INDEX|BYMA|CI"} {
		if err := w.list([]string{id}); err != nil {
			return nil, err
		}
	}
	if w.dev {
		w.Env.Fault, w.Env.Speed = w.fault(), w.speed()
	}
	w.users["demo"] = &session.Grants{
		Scopes: []string{"marketdata:read", "marketdata:depth", "marketdata:wildcard"},
		Rights: entitlement.Set{{Market: "*", Trades: true, Quotes: true, Depth: -1}},
	}
	w.users["basic"] = &session.Grants{
		Scopes: []string{"marketdata:read"},
		Rights: entitlement.Set{{Market: "*", Quotes: true}},
	}
	for _, token := range [][]string{{"demo", "demo", "f1"}, {"demo2", "demo", "f2"}, {"basic", "basic", "f3"}} {
		if err := w.token(append(token, day.String())); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// verify is Env.Verify.
func (w *World) verify(_ context.Context, token string) (*session.Identity, *wire.Fault) {
	w.mu.Lock()
	delay := w.delay
	w.mu.Unlock()
	time.Sleep(delay)
	w.mu.Lock()
	defer w.mu.Unlock()
	switch token {
	case "expired":
		return nil, wire.NewFault(wire.TokenExpired, "")
	case "revoked":
		return nil, wire.NewFault(wire.TokenRevoked, "")
	case "overloaded":
		return nil, wire.NewFault(wire.Overloaded, "")
	}
	id, ok := w.tokens[token]
	if !ok {
		return nil, wire.NewFault(wire.InvalidToken, "")
	}
	g := w.users[id.User]
	id.Grants = *g
	return &id, nil
}

// openJournal opens a journal, from which delayed data is read.
func (w *World) openJournal(cfg *hub.Config) (err error) {
	if w.folder, err = os.MkdirTemp("", "rueda-talk-"); err != nil {
		return fmt.Errorf("make the folder of the journal: %w", err)
	}
	if w.journal, err = journal.Open(context.Background(), journal.Config{Folder: w.folder, BootID: "same", Epoch: cfg.Epoch}); err != nil {
		return err
	}
	cfg.Journal = w.journal
	return nil
}

// Close closes the journal, if there is one. The hub must not be used afterwards.
func (w *World) Close() error {
	if w.journal == nil {
		return nil
	}
	return errors.Join(w.journal.Close(), os.RemoveAll(w.folder))
}

// set applies one setting, given as its name and its value.
func (w *World) set(cfg *hub.Config, args []string) error {
	if len(args) != 2 {
		return errors.New("set NAME VALUE")
	}
	durations := map[string]*time.Duration{
		"auth_timeout": &w.Env.AuthTimeout, "max_age": &w.Env.MaxAge, "verify": &w.delay,
	}
	numbers := map[string]*int{
		"connections": &w.Env.Connections, "subscriptions": &w.Env.Subscriptions,
		"message_bytes": &w.Env.MessageBytes, "max_waiting": &w.Env.MaxWaiting,
		"trades_kept": &cfg.TradesKept,
	}
	switches := map[string]*bool{
		"book_wildcards": &w.Env.BookWildcards, "keep_expired": &w.Env.KeepExpired,
		"dev": &w.dev,
	}
	var err error
	if args[0] == "timezone" { // of the market BYMA
		cfg.Markets = append(cfg.Markets, market.Market{ID: "BYMA", Timezone: args[1]})
	} else if args[0] == "delay" {
		var d time.Duration
		d, err = time.ParseDuration(args[1])
		cfg.Delays = append(cfg.Delays, d)
	} else if d := durations[args[0]]; d != nil {
		*d, err = time.ParseDuration(args[1])
	} else if n := numbers[args[0]]; n != nil {
		*n, err = strconv.Atoi(args[1])
	} else if b := switches[args[0]]; b != nil {
		*b, err = strconv.ParseBool(args[1])
	} else {
		err = fmt.Errorf("unknown setting %q", args[0])
	}
	return err
}

// worldVerbs returns the functions of the steps that do not belong to a client.
func worldVerbs() map[string]func(*World, []string) error {
	return map[string]func(*World, []string) error{
		"set":   func(*World, []string) error { return nil }, // applied by Script.World
		"user":  (*World).user,
		"token": (*World).token, "list": (*World).list,
		"late": (*World).late, "cancel": amend(market.KindCancel), "correct": amend(market.KindCorrect), "reference": (*World).reference,
		"trade": (*World).trade, "quote": (*World).quote, "book": (*World).book, "status": (*World).status,
		"revoke": (*World).revoke, "extend": (*World).extend, "drain": (*World).drain,
		"epoch": (*World).epoch,
	}
}

// user defines a user or changes one.
func (w *World) user(args []string) error {
	if len(args) == 0 {
		return errors.New("user NAME KEY=VALUE...")
	}
	g := &session.Grants{Scopes: []string{"marketdata:read", "marketdata:depth", "marketdata:wildcard"}}
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		var err error
		switch key {
		case "scopes":
			g.Scopes = nil
			for _, name := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
				if name != "admin" {
					name = "marketdata:" + name
				}
				g.Scopes = append(g.Scopes, name)
			}
		case "rights":
			g.Rights, err = parseRights(value)
		case "connections":
			g.Limits.Connections, err = strconv.Atoi(value)
		case "subscriptions":
			g.Limits.Subscriptions, err = strconv.Atoi(value)
		case "rate":
			g.Limits.MessagesPerSecond, err = strconv.Atoi(value)
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return err
		}
	}
	w.mu.Lock()
	w.users[args[0]] = g
	w.mu.Unlock()
	w.Env.Registry.GrantsChanged(args[0], *g)
	return nil
}

func fromNow(text string) (time.Time, error) {
	d, err := time.ParseDuration(text)
	return time.Now().Add(d), err
}

// parseRights reads MARKET/WHAT/...,MARKET/...
func parseRights(text string) (entitlement.Set, error) {
	var all entitlement.Set
	for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
		parts := strings.Split(one, "/")
		right := broker.Entitlement{Market: parts[0]}
		for _, what := range parts[1:] {
			depth, isBook := strings.CutPrefix(what, "book")
			seconds, isLate := strings.CutPrefix(what, "late")
			most, isLimit := strings.CutPrefix(what, "max")
			from, begins := strings.CutPrefix(what, "from")
			_, ends := strings.CutPrefix(what, "until")
			switch {
			case begins, ends:
				at, err := fromNow(strings.TrimPrefix(from, "until"))
				if err != nil {
					return nil, err
				}
				if begins {
					right.From = at
				} else {
					right.Until = at
				}
			case isLimit:
				n, err := strconv.Atoi(most)
				if err != nil {
					return nil, err
				}
				right.Instruments = n
			case isLate:
				n, err := strconv.Atoi(seconds)
				if err != nil {
					return nil, err
				}
				right.Delay = n
			case what == "trades":
				right.Trades = true
			case what == "quotes":
				right.Quotes = true
			case isBook && depth == "":
				right.Depth = -1
			case isBook:
				n, err := strconv.Atoi(depth)
				if err != nil {
					return nil, err
				}
				right.Depth = n
			default:
				return nil, fmt.Errorf("unknown right %q", what)
			}
		}
		all = append(all, right)
	}
	return all, nil
}

func (w *World) token(args []string) error {
	if len(args) != 4 {
		return errors.New("token NAME USER FAMILY TIME")
	}
	life, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens[args[0]] = session.Identity{User: args[1], Username: args[1], Family: args[2], Expires: time.Now().Add(life)}
	return nil
}

func (w *World) revoke(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "user":
		w.Env.Registry.RevokeUser(args[1])
	case len(args) == 1:
		w.Env.Registry.Revoke(args[0])
	default:
		return errors.New("revoke FAMILY, or revoke user USER")
	}
	return nil
}

// epoch begins an epoch, as a node of a cluster does.
func (w *World) epoch(args []string) error {
	if len(args) != 1 {
		return errors.New("epoch NAME")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	w.Hub.EndEpoch()
	w.Env.Registry.EndEpoch()
	for {
		// The hub of a gateway that follows none may add rows of its own, such as bars, meanwhile.
		err := w.Hub.BeginEpoch(ctx, args[0], w.Hub.Figures().Position)
		if !errors.Is(err, hub.ErrHasRows) || ctx.Err() != nil {
			return err
		}
	}
}

func (w *World) extend(args []string) error {
	if len(args) != 2 {
		return errors.New("extend FAMILY DURATION")
	}
	d, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	w.Env.Registry.Extend(args[0], time.Now().Add(d))
	return nil
}

func (w *World) drain(args []string) error {
	if len(args) != 1 {
		return errors.New("drain DURATION")
	}
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return err
	}
	w.Env.Registry.Drain(d)
	return nil
}
