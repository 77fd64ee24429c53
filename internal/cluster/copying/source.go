package copying

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/journal"
)

// Op says what a Request asks for.
type Op string

// Kinds of requests, with the content of their answers.
const (
	OpOffer Op = "offer" // Offer
	OpList  Op = "list"  // Listing, in parts
	OpRead  Op = "read"  // bytes of the file Name from Offset on, at most Size
	OpSum   Op = "sum"   // SHA-256 in hexadecimal of the first Size bytes of the file Name
	OpState Op = "state" // Listing without files
)

// Request is a request of a new node.
type Request struct {
	Op     Op
	Name   string `json:",omitempty"`
	Offset int64  `json:",omitempty"`
	Size   int64  `json:",omitempty"`
}

// Offer describes the journal of a node to a new one.
type Offer struct {
	Node     string
	Reason   string // why the journal cannot be copied; "": it can
	Leads    bool   // the node is the sequencer, and has other work
	Epoch    string
	Epochs   []string // of which it has rows
	Position uint64   // of the newest row
	Days     []Day    // closed ones, oldest first
	Earlier  []Day    // closed days before those, which the node does not have yet, oldest first

	JournalID string // of its files; nodes with the same one may have the same files
}

// maxDays limits the days, and the epochs, of an offer.
const maxDays = 10_000

// nodeName is the form of the names of nodes.
var nodeName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,32}$`)

// ParseOffer returns the offer of an answer to OpOffer. ok is false for one that no node makes.
func ParseOffer(answer []byte) (o *Offer, ok bool) {
	if len(answer) == 0 || answer[0] != isContent || json.Unmarshal(answer[1:], &o) != nil || o == nil {
		return nil, false
	}
	if !nodeName.MatchString(o.Node) || o.days() > maxDays || len(o.Epochs) > maxDays {
		return o, false
	}
	dates := map[string]bool{}
	for _, d := range slices.Concat(o.Earlier, o.Days) {
		if _, err := time.Parse(time.DateOnly, d.Date); err != nil || dates[d.Date] {
			return o, false
		}
		dates[d.Date] = true
	}
	return o, true
}

// days returns the number of closed days that the node has, or will have.
func (o *Offer) days() int { return len(o.Days) + len(o.Earlier) }

// Day is a closed day of a journal.
type Day struct {
	Date, Hash string
	Latest     int64 `json:",omitempty"` // greatest event time of its rows, Unix ns
}

// Listing lists the files of a journal.
type Listing struct {
	State   cluster.State `json:",omitzero"` // the files have all its rows; in the first part only
	Journal string        `json:",omitzero"` // Status.Journal; in the first part only
	Files   []File        `json:",omitzero"`
}

// File is a file of a journal. Its name has slashes.
type File struct {
	Name string
	Size int64
}

// The first byte of an answer says what it is.
const (
	isContent = 'c'
	isGone    = 'g' // the journal does not have the file any more
	isError   = 'e' // a text follows
)

const (
	pieceBytes   = 512 << 10 // of a file in an answer
	filesPerPart = 2000      // of a listing in an answer
)

// Source answers requests about the journal of this node.
type Source struct {
	Node    string
	Folder  string // of the journal
	Journal *journal.Journal
	Commit  func() // commits the rows that were applied
}

// Status is what the node knows about itself when a request arrives.
type Status struct {
	State  cluster.State
	Reason string // why the journal cannot be copied; "": it can
	Leads  bool

	Journal string // changes when the node begins with an empty journal
}

// errNotServed means that the journal of this node cannot be copied now.
var errNotServed = errors.New("the journal of this node cannot be copied")

// Answer answers a request by calls of send, the last one with more false. The error is that of
// send. Errors of the request are sent.
func (s *Source) Answer(ctx context.Context, r Request, now Status, send func(data []byte, more bool) error) error {
	now.Reason = s.reason(now.Reason)
	var err error
	var content any
	switch {
	case r.Op == OpOffer:
		content, err = s.offer(now)
	case now.Reason != "":
		err = fmt.Errorf("%w: %s", errNotServed, now.Reason)
	case r.Op == OpList:
		var parts []Listing
		if parts, err = s.list(ctx, now); err == nil {
			return sendParts(parts, send)
		}
	case r.Op == OpRead:
		var data []byte
		if data, err = s.read(r); err == nil {
			return send(data, false)
		}
	case r.Op == OpSum:
		content, err = s.sum(ctx, r)
	case r.Op == OpState:
		content = Listing{State: now.State, Journal: now.Journal}
	default:
		err = fmt.Errorf("unknown request %q of a newer node", r.Op)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return send([]byte{isGone}, false)
	}
	if err != nil {
		return send(append([]byte{isError}, err.Error()...), false)
	}
	return sendContent(content, false, send)
}

// sendContent sends an answer as JSON.
func sendContent(content any, more bool, send func([]byte, bool) error) error {
	text, err := json.Marshal(content)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	return send(append([]byte{isContent}, text...), more)
}

// sendParts sends a listing.
func sendParts(parts []Listing, send func([]byte, bool) error) error {
	for i := range parts {
		if err := sendContent(&parts[i], i < len(parts)-1, send); err != nil {
			return err
		}
	}
	return nil
}

// reason returns why the journal cannot be copied; "": it can.
func (s *Source) reason(known string) string {
	_, _, suspended := s.Journal.Suspended()
	switch {
	case known != "":
		return known
	case len(s.Journal.Days()) == 0: // rows of earlier epochs count, because they are history
		return "it has no rows"
	case suspended || s.Journal.Complete() > s.Journal.Begins():
		return "rows are missing in it"
	}
	return ""
}

func (s *Source) offer(now Status) (*Offer, error) {
	o := &Offer{
		Node: s.Node, Reason: now.Reason, Leads: now.Leads,
		Epoch: s.Journal.Epoch(), Epochs: s.Journal.Epochs(), Position: s.Journal.Newest(), JournalID: s.Journal.ID(),
	}
	earlier := s.Journal.Earlier() // before Days: no day may be missing in both
	for _, d := range s.Journal.Days() {
		if d.Closed {
			o.Days = append(o.Days, Day{d.Date, d.Hash, d.Latest})
		}
	}
	for _, d := range earlier {
		if !has(o, d.Date) { // it was added meanwhile
			o.Earlier = append(o.Earlier, Day(d))
		}
	}
	return o, nil
}

// list lists the files of the journal, the oldest day first, after a commit of all rows of a state.
func (s *Source) list(ctx context.Context, now Status) ([]Listing, error) {
	s.Commit()
	var days [][]File // the newest day comes first
	err := journal.CopyFiles(ctx, s.Folder, func(name string, from *os.File) error {
		info, err := from.Stat()
		if err != nil {
			return fmt.Errorf("size of %s: %w", name, err)
		}
		if n := len(days); n == 0 || path.Dir(days[n-1][0].Name) != path.Dir(name) {
			days = append(days, nil)
		}
		last := &days[len(days)-1]
		*last = append(*last, File{name, info.Size()})
		return nil
	})
	if err != nil {
		return nil, err
	}
	parts := []Listing{{State: now.State, Journal: now.Journal}}
	for i := len(days) - 1; i >= 0; i-- {
		for _, f := range days[i] {
			if len(parts[len(parts)-1].Files) == filesPerPart {
				parts = append(parts, Listing{})
			}
			p := &parts[len(parts)-1]
			p.Files = append(p.Files, f)
		}
	}
	return parts, nil
}

// fileName is the form of the names of files of a journal.
var fileName = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}/(\d{8}\.segz?|day\.idx)$`)

// errName means that a name is not that of a file of a journal.
var errName = errors.New("not the name of a file of a journal")

// open opens a file of the journal. A name cannot lead out of its folder.
func (s *Source) open(name string) (*os.File, error) {
	if !fileName.MatchString(name) {
		return nil, fmt.Errorf("%q: %w", name, errName)
	}
	return os.OpenInRoot(s.Folder, filepath.FromSlash(name))
}

// read returns an answer with bytes of a file.
func (s *Source) read(r Request) ([]byte, error) {
	f, err := s.open(r.Name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read from
	data := make([]byte, 1+max(0, min(r.Size, pieceBytes)))
	data[0] = isContent
	n, err := f.ReadAt(data[1:], r.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read %s: %w", r.Name, err)
	}
	return data[:1+n], nil
}

// sum returns the SHA-256 of the first bytes of a file.
func (s *Source) sum(ctx context.Context, r Request) (string, error) {
	f, err := s.open(r.Name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read from
	return sumOf(ctx, f, r.Size)
}

// sumOf returns the SHA-256 of the next bytes of a file, in hexadecimal.
func sumOf(ctx context.Context, f io.Reader, size int64) (string, error) {
	h := sha256.New()
	for n := int64(0); n < size; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		k, err := io.CopyN(h, f, min(size-n, 8<<20))
		if n += k; err != nil {
			return "", fmt.Errorf("read a file of the journal: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
