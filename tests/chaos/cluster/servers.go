//go:build linux

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// asNats makes a program a NATS server, so that tests can kill it.
const asNats = "RUEDA_CHAOS_NATS"

// natsConfig configures a NATS server.
type natsConfig struct {
	Name, Folder string
	Port, Route  int
	Monitor      int // port where it answers about its health
	Routes       []int
}

// RunNats runs a NATS server until SIGTERM if the environment asks for one. It returns false
// otherwise. TestMain of the package calls it first.
func RunNats() (bool, error) {
	text := os.Getenv(asNats)
	if text == "" {
		return false, nil
	}
	var c natsConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return true, err
	}
	o := &server.Options{
		ServerName: c.Name, Host: "127.0.0.1", Port: c.Port, NoSigs: true, NoLog: true, JetStream: true, StoreDir: c.Folder,
		HTTPHost: "127.0.0.1", HTTPPort: c.Monitor, JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 4 << 30, MaxPayload: 1 << 20, PingInterval: 2 * time.Second,
		// The nodes must not learn the addresses behind their relays.
		Cluster: server.ClusterOpts{Name: "chaos", Host: "127.0.0.1", Port: c.Route, NoAdvertise: true},
	}
	for _, p := range c.Routes {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", Host: local(p)})
	}
	s, err := server.NewServer(o)
	if err != nil {
		return true, err
	}
	s.Start()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	<-stop
	s.Shutdown()
	s.WaitForShutdown()
	return true, nil
}

// Nats is a NATS server.
type Nats struct {
	*Process
	address string
	monitor string
}

// Healthy reports whether the server is up and has all messages.
func (n *Nats) Healthy() bool {
	client := http.Client{Timeout: time.Second}
	a, err := client.Get("http://" + n.monitor + "/healthz")
	if err != nil {
		return false
	}
	_ = a.Body.Close()
	return a.StatusCode == http.StatusOK
}

// newNats returns NATS servers of one cluster that are not started yet.
func newNats(folder string, n int) (list []*Nats, err error) {
	ports, err := freePorts(3 * n)
	if err != nil {
		return nil, err
	}
	for i := range n {
		name := fmt.Sprintf("nats-%d", i+1)
		c := natsConfig{Name: name, Folder: filepath.Join(folder, name), Port: ports[i], Route: ports[n+i], Monitor: ports[2*n+i]}
		for k, p := range ports[n : 2*n] {
			if k != i {
				c.Routes = append(c.Routes, p)
			}
		}
		text, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		p := &Process{Name: name, Log: filepath.Join(folder, name+".log"), command: func() *exec.Cmd {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), asNats+"="+string(text))
			return cmd
		}}
		list = append(list, &Nats{Process: p, address: local(c.Port), monitor: local(c.Monitor)})
	}
	return list, nil
}

func local(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// freePorts returns n different ports of the loopback interface on which nothing listens. They are
// below those of outgoing connections, which could take the port of a process that restarts.
func freePorts(n int) (ports []int, err error) {
	for range 100 * n {
		l, err := net.Listen("tcp", local(15000+rand.IntN(15000)))
		if err != nil {
			continue
		}
		defer l.Close() // all at the end, so that they differ
		if ports = append(ports, l.Addr().(*net.TCPAddr).Port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, errors.New("no free port")
}

// ErrNoPostgres means that PostgreSQL is not installed.
var ErrNoPostgres = errors.New("PostgreSQL is not installed; apt-get install postgresql gives it")

// startPostgres starts a PostgreSQL with an empty database, and returns it with its address and its
// folder. It runs as the user postgres if this user is root.
func startPostgres(log string) (p *Process, address, folder string, err error) {
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(programs) == 0 {
		return nil, "", "", ErrNoPostgres
	}
	bin := slices.MaxFunc(programs, func(a, b string) int { return version(a) - version(b) })
	as, err := ordinary()
	if err == nil {
		folder, err = os.MkdirTemp("", "chaos-postgres-")
	}
	if err == nil && as != nil {
		err = os.Chown(folder, int(as.Uid), int(as.Gid))
	}
	if err != nil {
		return nil, "", folder, err
	}
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(bin, name), args...)
		c.Dir, c.SysProcAttr = folder, &syscall.SysProcAttr{Credential: as}
		return c
	}
	data := filepath.Join(folder, "data")
	if out, err := command("initdb", "-D", data, "-U", "rueda", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync").CombinedOutput(); err != nil {
		return nil, "", folder, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, "", folder, err
	}
	p = &Process{Name: "postgres", Log: log, command: func() *exec.Cmd {
		return command("postgres", "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(ports[0]), "-k", folder, "-c", "max_connections=200", "-c", "fsync=off")
	}}
	if err := p.Start(); err != nil {
		return nil, "", folder, err
	}
	var out []byte
	for range 300 {
		out, err = command("createdb", "-h", "127.0.0.1", "-p", strconv.Itoa(ports[0]), "-U", "rueda", "rueda").CombinedOutput()
		if err == nil {
			return p, local(ports[0]), folder, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	p.Kill()
	return nil, "", folder, fmt.Errorf("createdb: %w\n%s", err, out)
}

// version returns the version in a path such as /usr/lib/postgresql/17/bin.
func version(bin string) int {
	n, _ := strconv.Atoi(strings.Split(bin, "/")[4]) // 0: the oldest
	return n
}

// ordinary returns the user postgres if this user is root, because PostgreSQL refuses to run as
// root.
func ordinary() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, errors.Join(err1, err2)
}
