package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/journal"
	"github.com/ruedahq/rueda/internal/engine/journal/state"
)

// nodeFolder returns the folder of the state of a node, which is next to that of its journal.
func nodeFolder(journal string) string { return filepath.Join(filepath.Dir(journal), "node") }

// leftPath returns the file with the numbers of sources that a former node knew.
func leftPath(node string) string { return filepath.Join(node, "left.json") }

// Leave begins a new epoch in the journal of a gateway without a cluster, if the gateway was a
// node: the cluster may number other rows after those that the journal has. The numbers of sources
// that the node knew go to the journal, if they are those of its newest row. Call it between
// journal.Open and Restore. It does nothing for other gateways.
func Leave(j *journal.Journal, folder string, log *slog.Logger) error {
	node := nodeFolder(folder)
	s, err := readState(node)
	if err != nil {
		return fmt.Errorf("%w: move the folder %s away; the journal stays, and producers do not continue", err, node)
	}
	if s.History.Epoch != "" && slices.Contains(append(j.Epochs(), j.Epoch()), s.History.Epoch) {
		log.Warn("this gateway was a node of a cluster: it begins a new epoch, and joins again only without its journal")
		if err := leave(j, node, &s); err != nil {
			return fmt.Errorf("leave the cluster: %w", err)
		}
	}
	if slices.Contains(j.Epochs(), j.Epoch()) {
		return removeIfThere(leftPath(node)) // the journal has the numbers
	}
	var held []journal.Source
	text, err := os.ReadFile(leftPath(node))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, &held)
	}
	for i := range held {
		j.NoteSource(&held[i])
	}
	if err != nil {
		return fmt.Errorf("read the numbers of sources of a former node: %w", err)
	}
	return nil
}

// leave begins the epoch, if the journal has not done so, and replaces the state of the node by the
// numbers of sources. After an interruption it is called again.
func leave(j *journal.Journal, node string, s *cluster.State) error {
	if j.Epoch() == s.History.Epoch {
		held := []journal.Source{}
		if !s.Unsure && j.Newest() == s.SourcesAt {
			held = sourcesOf(s.Sources)
		}
		text, err := json.Marshal(held)
		if err == nil {
			err = replaceFile(leftPath(node), text, true)
		}
		if err == nil {
			err = j.BeginEpoch(state.NewEpoch(), 0)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(removeIfThere(resetPath(node)), removeIfThere(namePath(node)), removeIfThere(statePath(node)))
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
