package host

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/cluster/copying"
	"github.com/ruedahq/rueda/internal/cluster/jetstream"
	"github.com/ruedahq/rueda/internal/engine/journal"
)

// Settings are the settings of a node. They have the fields of gateway.Cluster, which documents
// them.
type Settings struct {
	Name             string
	Node             string
	Role             string
	NATS             []string
	Credentials      string
	Authorities      string
	Certificate, Key string
	Replicas         int
	Bytes            int64
	Age              time.Duration
	Lease            time.Duration
	New              bool
}

// Roles of Settings. A node with the role "" or "all" may be the sequencer and serves clients.
const (
	roleAll       = "all"
	roleSequencer = "sequencer" // serves no clients
	roleEdge      = "edge"      // runs no feeds
)

// defaultLease is the default of Settings.Lease.
const defaultLease = 2 * time.Second

// errNoJournal means that a node of a cluster has no journal.
var errNoJournal = errors.New("a node of a cluster keeps its rows in a journal, and none is configured")

// A Setup has the settings and folders of a node, and states whether the node is new.
type Setup struct {
	settings Settings
	log      jetstream.Config
	folder   string
	journal  string // folder of the journal
	isNew    bool   // the node has never run
}

// Prepare checks the settings of a node, and sets those of its journal. If the rows of the last
// journal are not those of the log, it is moved away. Call it before the journal is opened.
func Prepare(s Settings, j *journal.Config, log *slog.Logger) (*Setup, error) {
	if j.Folder == "" {
		return nil, errNoJournal
	}
	name, _ := os.Hostname() // "" is refused
	p := &Setup{settings: s, journal: j.Folder, folder: nodeFolder(j.Folder)}
	p.settings.Lease = cmp.Or(s.Lease, defaultLease)
	p.log = jetstream.Config{
		URLs: s.NATS, Cluster: s.Name, Node: cmp.Or(s.Node, name), Credentials: s.Credentials, Authorities: s.Authorities,
		Certificate: s.Certificate, Key: s.Key, Replicas: s.Replicas, Bytes: s.Bytes, Age: s.Age, Logger: log,
		MustExist: s.Role == roleEdge,
	}
	if err := p.log.Fill(); err != nil {
		return nil, err
	}
	if err := checkName(p.folder, p.log.Cluster); err != nil {
		return nil, err
	}
	if err := removeIfThere(leftPath(p.folder)); err != nil {
		return nil, err
	}
	_, missing := os.Stat(statePath(p.folder))
	p.isNew = errors.Is(missing, fs.ErrNotExist)
	epoch, err := epochOf(p.folder, j.Folder)
	if err == nil {
		err = copying.Install(j.Folder, func(s cluster.State) error {
			epoch = s.History.Epoch
			return writeState(p.folder, s, true)
		})
	}
	j.Copy, j.Epoch = true, epoch
	return p, err
}
