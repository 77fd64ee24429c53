package host

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/journal"
	"github.com/ruedahq/rueda/internal/journal/state"
)

// nodeFolder returns the folder of the state of a node, which is next to that of its journal.
func nodeFolder(journal string) string { return filepath.Join(filepath.Dir(journal), "node") }

// Leave begins a new epoch in the journal of a gateway without a cluster, if the gateway was a
// node: the cluster may number other rows after those that the journal has. It passes the numbers
// of sources that the node knew to the journal, and removes the state of the node. Call it between
// journal.Open and Restore. It does nothing for other gateways.
func Leave(j *journal.Journal, folder string, log *slog.Logger) error {
	node := nodeFolder(folder)
	s, err := readState(node)
	epoch := s.History.Epoch
	current := j.Epoch() == epoch
	if err != nil || epoch == "" || !current && !slices.Contains(j.Epochs(), epoch) {
		return err
	}
	exact := current && !s.Unsure && j.Newest() == s.SourcesAt
	if current {
		if err := j.BeginEpoch(state.NewEpoch(), 0); err != nil {
			return err
		}
	}
	if exact {
		for _, x := range sourcesOf(s.Sources) {
			j.NoteSource(&x)
		}
	}
	log.Warn("this gateway was a node of a cluster: it begins a new epoch, and joins again only without its journal")
	if err := os.RemoveAll(node); err != nil {
		return fmt.Errorf("remove the state of the node: %w", err)
	}
	return nil
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
