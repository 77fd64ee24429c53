package copying

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ruedahq/rueda/internal/base/diskspace"
	"github.com/ruedahq/rueda/internal/cluster"
	"github.com/ruedahq/rueda/internal/engine/journal"
)

// Ask sends a request to a node, and calls f with each part of the answer. The error is that of f,
// or says that the node does not answer in time.
type Ask func(ctx context.Context, node string, request []byte, f func(part []byte) error) error

// Copier copies the journal of another node.
type Copier struct {
	Journal string // folder of the journal of this node
	Ask     Ask
	Write   func(*os.File, []byte) (int, error) // for tests with a full disk; nil: (*os.File).Write
	Reserve uint64                              // bytes of the disk that stay free
	Added   func(date string, bytes int64)      // called when an earlier day was added; nil: not

	to       string // folder of the copy; "": Journal with copyEnding
	progress atomic.Pointer[Progress]
}

// Progress says how much of a journal was copied.
type Progress struct {
	Node        string // from which it is copied
	Done, Bytes int64
}

// Progress returns the progress of the copy, or nil if none has begun. Any goroutine may call it.
func (c *Copier) Progress() *Progress { return c.progress.Load() }

// PeerError is an error of the node from which a journal is copied. Another node may do better.
type PeerError struct {
	Node string
	Err  error
}

func (e *PeerError) Error() string { return fmt.Sprintf("copy the journal of %s: %v", e.Node, e.Err) }

// Unwrap returns the cause.
func (e *PeerError) Unwrap() error { return e.Err }

// ErrSpace means that the disk of this node has too little free space for the files to copy.
var ErrSpace = errors.New("not enough space on the disk for the journal of another node")

var (
	errGone   = errors.New("the file was removed")
	errChange = errors.New("its journal changed too much while it was copied")
	errSum    = errors.New("the SHA-256 of the copy differs from that of the original")
	errPart   = errors.New("the answer cannot be read")
)

const (
	copyEnding = ".copy"       // of the folder of a copy, next to the journal
	fromName   = "from"        // file with the name of the node that is copied
	doneName   = "copied.json" // file with the state of a complete copy; see Install
	partEnding = ".part"       // of files that are not complete and verified

	maxPasses = 50
	maxFiles  = 1 << 20  // of a journal
	maxBytes  = 1 << 50  // of a journal
	smallPass = 32 << 20 // bytes; a pass that copies less is the last one

	readTime = 10 * time.Second // for the answer to a request
	longTime = 2 * time.Minute  // for one that reads a whole file
)

// folder returns the folder of the copy.
func (c *Copier) folder() string { return cmp.Or(c.to, c.Journal+copyEnding) }

// Begun returns the node of the copy that has begun, perhaps in an earlier process; "": none has.
func (c *Copier) Begun() string {
	text, err := os.ReadFile(filepath.Join(c.folder(), fromName))
	if err != nil {
		return "" // Copy begins with an empty folder
	}
	return string(text)
}

// Copy copies the newest days of the journal of the node that made an offer, from the newest closed
// one on. AddEarlier adds the days before. If the offer does not allow that, Copy copies all days
// that the node has. others are the offers of all nodes. When Copy returns nil, Install makes the
// copy the journal of this node. The error is a *PeerError, ErrSpace, that of the disk, or that of
// ctx.
func (c *Copier) Copy(ctx context.Context, from *Offer, others []Offer) error {
	if err := c.begin(from.Node); err != nil {
		return err
	}
	var before, after Listing
	var earlier journal.EarlierDays
	for pass := 0; ; pass++ {
		if pass == maxPasses {
			return &PeerError{from.Node, errChange}
		}
		l, err := c.list(ctx, from.Node)
		if err != nil {
			return err
		}
		if pass == 0 {
			earlier, err = newestDays(l.Files, from)
		}
		if err == nil {
			l.Files, err = since(l.Files, earlier.Next)
		}
		if err != nil {
			return &PeerError{from.Node, err}
		}
		n, gone, err := c.files(ctx, from.Node, l.Files)
		if err != nil {
			return err
		}
		if gone || n >= smallPass {
			continue
		}
		if err := c.prune(l.Files); err != nil {
			return err
		}
		before = *l
		break
	}
	if err := c.ask(ctx, readTime, from.Node, Request{Op: OpState}, func(b []byte) error { return json.Unmarshal(b, &after) }); err != nil {
		return err
	}
	state, err := cluster.StateOfCopy(before.State, after.State)
	if err == nil && before.Journal != after.Journal {
		err = errChange
	}
	if err == nil {
		err = check(ctx, c.folder(), &state, from, others)
	}
	for _, d := range earlier.Days {
		if err == nil {
			err = agree(d.Date, d.Hash, from, others)
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return errors.Join(&PeerError{from.Node, err}, os.RemoveAll(c.folder()))
	}
	return c.complete(&state, &earlier)
}

// begin makes the folder. It keeps what an earlier process has copied from the same node.
func (c *Copier) begin(node string) error {
	if c.Begun() != node {
		if err := os.RemoveAll(c.folder()); err != nil {
			return fmt.Errorf("remove an old copy of a journal: %w", err)
		}
		if err := os.MkdirAll(c.folder(), 0o700); err != nil {
			return fmt.Errorf("make a folder for the copy of a journal: %w", err)
		}
		if err := os.WriteFile(filepath.Join(c.folder(), fromName), []byte(node), 0o600); err != nil {
			return fmt.Errorf("make a copy of a journal: %w", err)
		}
	}
	c.progress.Store(&Progress{Node: node})
	return nil
}

// ask asks the node, and calls f with the content of each part of the answer.
func (c *Copier) ask(ctx context.Context, limit time.Duration, node string, r Request, f func([]byte) error) error {
	request, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode a request: %w", err)
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = c.Ask(limited, node, request, func(part []byte) error {
		switch {
		case len(part) == 0:
			return errPart
		case part[0] == isGone:
			return errGone
		case part[0] == isError:
			return errors.New(strings.ToValidUTF8(string(part[1:min(len(part), 500)]), "?"))
		case part[0] != isContent:
			return errPart
		}
		return f(part[1:])
	})
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, new(*localError)):
		return err
	}
	return &PeerError{node, err}
}

// localError is an error of the disk of this node.
type localError struct{ error }

func (e *localError) Unwrap() error { return e.error }

// list returns the files of the node.
func (c *Copier) list(ctx context.Context, node string) (*Listing, error) {
	var all Listing
	first, bytes := true, int64(0)
	err := c.ask(ctx, longTime, node, Request{Op: OpList}, func(b []byte) error {
		var part Listing
		if err := json.Unmarshal(b, &part); err != nil {
			return errPart
		}
		if first {
			all.State, all.Journal, first = part.State, part.Journal, false
		}
		for _, f := range part.Files {
			if !fileName.MatchString(f.Name) || f.Size < 0 {
				return fmt.Errorf("%q: %w", f.Name[:min(len(f.Name), 100)], errName)
			}
			if bytes += min(f.Size, maxBytes); bytes >= maxBytes {
				return errPart
			}
		}
		if len(all.Files)+len(part.Files) > maxFiles {
			return errPart
		}
		all.Files = append(all.Files, part.Files...)
		return nil
	})
	if err == nil && len(all.Files) == 0 {
		err = &PeerError{node, errPart}
	}
	return &all, err
}

// files copies the files that are missing or have grown. It returns how many bytes it has copied,
// and whether one was removed meanwhile.
func (c *Copier) files(ctx context.Context, node string, list []File) (copied int64, gone bool, err error) {
	p := Progress{Node: node}
	for _, f := range list {
		p.Bytes += f.Size
		p.Done += min(f.Size, max(c.size(f.Name), c.size(f.Name+partEnding), 0))
	}
	c.progress.Store(&p)
	if free, _, err := diskspace.Of(c.folder()); err == nil && p.Bytes > p.Done && uint64(p.Bytes-p.Done)+c.Reserve > free {
		return 0, false, fmt.Errorf("%w: %d MiB are missing", ErrSpace, (uint64(p.Bytes-p.Done)+c.Reserve-free)>>20+1)
	}
	for _, f := range list {
		n, err := c.file(ctx, node, f)
		copied += n
		switch {
		case errors.Is(err, errGone):
			gone = true
		case err != nil:
			return copied, gone, err
		}
	}
	return copied, gone, nil
}

// path returns the path of a file of the copy.
func (c *Copier) path(name string) string { return filepath.Join(c.folder(), filepath.FromSlash(name)) }

// size returns the size of a file of the copy; -1: there is none.
func (c *Copier) size(name string) int64 {
	info, err := os.Stat(c.path(name))
	if err != nil {
		return -1
	}
	return info.Size()
}

// file copies the part of a file that is missing, and verifies it.
func (c *Copier) file(ctx context.Context, node string, f File) (copied int64, err error) {
	part := f.Name + partEnding
	switch have := c.size(f.Name); {
	case have == f.Size:
		return 0, nil // verified earlier
	case have >= 0: // it has grown, or the other node has shortened it
		if err := os.Rename(c.path(f.Name), c.path(part)); err != nil {
			return 0, fmt.Errorf("continue the copy of a file: %w", err)
		}
	}
	if c.size(part) > f.Size {
		if err := os.Remove(c.path(part)); err != nil {
			return 0, fmt.Errorf("remove an old copy of a file: %w", err)
		}
	}
	if err := os.MkdirAll(filepath.Dir(c.path(part)), 0o700); err != nil {
		return 0, fmt.Errorf("make a folder of the copy: %w", err)
	}
	out, err := os.OpenFile(c.path(part), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 0, fmt.Errorf("write a file of the copy: %w", err)
	}
	copied, err = c.pieces(ctx, node, f, out)
	if err == nil {
		err = c.verify(ctx, node, f, out)
	}
	if e := out.Close(); err == nil && e != nil {
		err = fmt.Errorf("write a file of the copy: %w", e)
	}
	switch {
	case errors.Is(err, errSum), errors.Is(err, errGone):
		return copied, errors.Join(err, os.Remove(c.path(part)))
	case err != nil:
		return copied, err
	}
	if err := os.Rename(c.path(part), c.path(f.Name)); err != nil {
		return copied, fmt.Errorf("complete a file of the copy: %w", err)
	}
	return copied, nil
}

// pieces appends what a file lacks.
func (c *Copier) pieces(ctx context.Context, node string, f File, out *os.File) (copied int64, err error) {
	info, err := out.Stat()
	if err != nil {
		return 0, fmt.Errorf("size of a file of the copy: %w", err)
	}
	write := c.Write
	if write == nil {
		write = (*os.File).Write
	}
	for at := info.Size(); at < f.Size; {
		want := min(f.Size-at, pieceBytes)
		end := at + want
		err := c.ask(ctx, readTime, node, Request{Op: OpRead, Name: f.Name, Offset: at, Size: want}, func(b []byte) error {
			if len(b) == 0 || int64(len(b)) > end-at {
				return errPart // the file is shorter than it was
			}
			n, err := write(out, b)
			at, copied = at+int64(n), copied+int64(n)
			if err != nil {
				return &localError{fmt.Errorf("write a file of the copy: %w", err)}
			}
			return nil
		})
		if err != nil {
			return copied, err
		}
		p := *c.progress.Load()
		p.Done = min(p.Bytes, p.Done+want)
		c.progress.Store(&p)
	}
	return copied, nil
}

// verify compares the SHA-256 of a file with that of the original, and syncs it.
func (c *Copier) verify(ctx context.Context, node string, f File, out *os.File) error {
	if err := out.Sync(); err != nil {
		return fmt.Errorf("sync a file of the copy: %w", err)
	}
	if _, err := out.Seek(0, 0); err != nil {
		return fmt.Errorf("read a file of the copy: %w", err)
	}
	own, err := sumOf(ctx, out, f.Size)
	if err != nil {
		return err
	}
	var theirs string
	err = c.ask(ctx, longTime, node, Request{Op: OpSum, Name: f.Name, Size: f.Size}, func(b []byte) error { return json.Unmarshal(b, &theirs) })
	if err == nil && own != theirs {
		err = &PeerError{node, fmt.Errorf("%s: %w", f.Name, errSum)}
	}
	return err
}

// prune removes files that the list does not have.
func (c *Copier) prune(list []File) error {
	wanted := map[string]bool{filepath.Join(c.folder(), fromName): true}
	for _, f := range list {
		wanted[c.path(f.Name)] = true
	}
	err := filepath.WalkDir(c.folder(), func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || wanted[p] {
			return err
		}
		return os.Remove(p)
	})
	if err != nil {
		return fmt.Errorf("remove old files of the copy: %w", err)
	}
	return nil
}

// complete syncs the folders, and writes the list of earlier days and the state.
func (c *Copier) complete(state *cluster.State, earlier *journal.EarlierDays) error {
	text, err := json.Marshal(earlier)
	if err == nil && len(earlier.Days) > 0 {
		err = writeSynced(filepath.Join(c.folder(), journal.EarlierName), text)
	}
	if err == nil {
		text, err = json.Marshal(state)
	}
	if err == nil {
		err = writeSynced(filepath.Join(c.folder(), doneName+partEnding), text)
	}
	if err == nil {
		err = filepath.WalkDir(c.folder(), func(p string, e fs.DirEntry, err error) error {
			if err != nil || !e.IsDir() {
				return err
			}
			return syncFolder(p)
		})
	}
	if err == nil {
		err = os.Rename(filepath.Join(c.folder(), doneName+partEnding), filepath.Join(c.folder(), doneName))
	}
	if err == nil {
		err = errors.Join(syncFolder(c.folder()), syncFolder(filepath.Dir(c.folder())))
	}
	if err != nil {
		return fmt.Errorf("complete the copy of a journal: %w", err)
	}
	return nil
}

func writeSynced(name string, text []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncFolder(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read from
	return f.Sync()
}
