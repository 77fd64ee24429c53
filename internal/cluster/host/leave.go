package host

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/journal"
)

// nodeFolder returns the folder of the state of a node, which is next to that of its journal.
func nodeFolder(journal string) string { return filepath.Join(filepath.Dir(journal), "node") }

// Former is a gateway that was a node of a cluster and is none any more. A nil Former is another
// gateway.
type Former struct {
	folder string
	held   []journal.Source
}

// Leave prepares the journal of a gateway without a cluster. If the gateway was a node, the journal
// begins a new epoch: the cluster may number other rows after those that the journal has. Call it
// before the journal is opened. It returns nil if the gateway was no node.
func Leave(folder string, log *slog.Logger) (*Former, error) {
	f := &Former{folder: nodeFolder(folder)}
	if _, err := os.Stat(statePath(f.folder)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	s, err := readState(f.folder)
	if err != nil {
		return nil, err
	}
	if r, err := journal.OpenReader(folder); err == nil { // otherwise journal.Open reports it
		if !s.Unsure && r.Epoch() == s.History.Epoch && r.Newest() == s.SourcesAt {
			f.held = sourcesOf(s.Sources)
		}
		if err := r.Close(); err != nil {
			return nil, err
		}
	}
	if err := removeIfThere(filepath.Join(folder, "state")); err != nil {
		return nil, err
	}
	log.Warn("this gateway was a node of a cluster: it begins a new epoch, and joins again only without its journal")
	return f, nil
}

// Finish passes the numbers of sources that the node knew to its journal, which was opened, and
// removes the state of the node. Call it before the journal is restored.
func (f *Former) Finish(j *journal.Journal) error {
	if f == nil {
		return nil
	}
	for i := range f.held {
		j.NoteSource(&f.held[i])
	}
	return os.RemoveAll(f.folder)
}

// sourcesOf returns numbers of sources of the log as those of a journal. Those of instruments whose
// numbering is unknown are left out.
func sourcesOf(list []cluster.Source) (all []journal.Source) {
	numbering := map[string]uint64{}
	for _, s := range list {
		if !strings.Contains(s.Name, ".") {
			numbering[s.Name] = s.Sequence
		}
	}
	for _, s := range list {
		number, channel, ok := strings.Cut(s.Name, ".")
		n, err := strconv.ParseUint(number, 10, 32)
		c, wrong := strconv.ParseUint(channel, 10, 8)
		if !ok || err != nil || wrong != nil || s.Sequence == 0 || numbering[number] == 0 {
			continue
		}
		all = append(all, journal.Source{Instrument: uint32(n), Channel: journal.Channel(c), Numbering: numbering[number], Sequence: s.Sequence})
	}
	return all
}

// sourcesOfJournal returns numbers of sources of a journal as those of the log.
func sourcesOfJournal(list []journal.Source) (all []cluster.Source) {
	known := map[uint32]bool{}
	for i := range list {
		s := &list[i]
		if !known[s.Instrument] {
			known[s.Instrument] = true
			all = append(all, cluster.Source{Name: strconv.FormatUint(uint64(s.Instrument), 10), Sequence: s.Numbering})
		}
		all = append(all, cluster.Source{Name: sourceName(s), Sequence: s.Sequence})
	}
	return all
}
