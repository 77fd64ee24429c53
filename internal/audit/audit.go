package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
)

// Kind says what happened.
type Kind string

// Kinds of events.
const (
	Login          Kind = "login"
	LoginRefused   Kind = "login_refused"   // Detail: why, in one word; User only where the user exists
	LoginThrottled Kind = "login_throttled" // Detail: the reason told
	Refresh        Kind = "refresh"
	RefreshRefused Kind = "refresh_refused"
	Reuse          Kind = "reuse"         // a dead refresh token was presented late: its family is over
	Logout         Kind = "logout"        // by a client with one of the family's tokens
	SessionEnded   Kind = "session_ended" // one family, by its user or an administrator, or by the gateway: Detail says why
	UserEnded      Kind = "user_ended"    // all families of a user
	UserAdded      Kind = "user_added"
	UserChanged    Kind = "user_changed"  // Detail: what: password, disabled, enabled, second_factor, ...
	GrantChanged   Kind = "grant_changed" // scopes, entitlements, groups or limits; Detail: which
	AccessDenied   Kind = "access_denied" // Detail: channel, market and reason
	KeyChanged     Kind = "key_changed"   // Detail: published, signing, verify_only, deleted or revoked, and the key id
	Certificate    Kind = "certificate"   // a TLS certificate was taken into use; Detail: its end
	Started        Kind = "started"       // a gateway began to serve; Detail: its version
	Pruned         Kind = "pruned"        // rows before this one were deleted for their age; Detail: up to which
)

// Kinds are all there are.
func Kinds() []Kind {
	return []Kind{
		Login, LoginRefused, LoginThrottled, Refresh, RefreshRefused, Reuse, Logout, SessionEnded, UserEnded, UserAdded,
		UserChanged, GrantChanged, AccessDenied, KeyChanged, Certificate, Started, Pruned,
	}
}

// Event is what happened. No field ever holds a secret, nor a username that no user has: people type
// passwords there.
type Event struct {
	Time    time.Time
	Kind    Kind
	Actor   string // who did it: client, user, administrator, command line, gateway
	User    string // id of the user it is about; "" none
	Family  string // token family; "" none
	Address string // of the client; "" none
	Client  string // its User-Agent; "" none
	Detail  string // one short line
}

// Hash is a link of the chain.
type Hash [sha256.Size]byte

// Row is an event in its place.
type Row struct {
	Seq  int64 // 1, 2, 3, ... without holes
	Hash Hash  // of this row and, through it, of all before
	Event
}

// Chain makes and checks links. The zero Chain has an empty key: it finds accidents, not forgers.
type Chain struct {
	key []byte
}

// NewChain is a chain under a secret key that is kept apart from the rows.
func NewChain(key []byte) Chain { return Chain{key: append([]byte(nil), key...)} }

// Link is the hash of the row that holds e at seq, after a row of hash before; the first row comes after the zero
// Hash. Times count to the microsecond, which is what every database keeps.
func (c Chain) Link(before Hash, seq int64, e *Event) (h Hash) {
	mac := hmac.New(sha256.New, c.key)
	b := make([]byte, 0, 512)
	b = append(b, "rueda audit 1\n"...)
	b = append(b, before[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(seq))
	b = binary.BigEndian.AppendUint64(b, uint64(e.Time.UnixMicro()))
	for _, text := range [...]string{string(e.Kind), e.Actor, e.User, e.Family, e.Address, e.Client, e.Detail} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
		b = append(b, text...)
	}
	mac.Write(b)
	mac.Sum(h[:0])
	return h
}

// Next is the row of e after head.
func (c Chain) Next(head Head, e Event) Row {
	seq := head.Seq + 1
	return Row{Seq: seq, Hash: c.Link(head.Hash, seq, &e), Event: e}
}

// Head is that of a log that ends with this row.
func (r Row) Head() Head { return Head{Seq: r.Seq, Hash: r.Hash} }

// ErrBroken is what every error of Verify is that tells of a changed log, and not of a database.
var ErrBroken = errors.New("audit log is broken")

// Head is the newest row's place and hash: noted elsewhere, it proves that none was taken off the end.
type Head struct {
	Seq  int64
	Hash Hash
}

// Verify walks rows from the oldest that is kept and returns the head. before is the hash that the oldest is
// chained to: zero where it is row 1, else that noted when older rows were pruned; then a later row of the log must
// tell of that, since whoever cuts the log may write such a note too. The error names the first row that is not
// what was written.
func (c Chain) Verify(before Head, rows iter.Seq2[Row, error]) (Head, error) {
	head := before
	told := int64(0) // the rows up to this one were pruned, the log says
	for row, err := range rows {
		if err != nil {
			return head, err
		}
		if row.Seq != head.Seq+1 {
			return head, fmt.Errorf("%w: row %d follows row %d: what was between is gone", ErrBroken, row.Seq, head.Seq)
		}
		link := c.Link(head.Hash, row.Seq, &row.Event)
		if !hmac.Equal(row.Hash[:], link[:]) {
			return head, fmt.Errorf("%w: row %d of %s is not what was written", ErrBroken, row.Seq, row.Time.UTC().Format(time.RFC3339))
		}
		if row.Kind == Pruned {
			told = max(told, prunedUpTo(row.Detail))
		}
		head = row.Head()
	}
	if told < before.Seq {
		return head, fmt.Errorf("%w: the rows up to row %d are gone, and no row says that they were pruned", ErrBroken, before.Seq)
	}
	return head, nil
}

// PrunedEvent tells that the rows up to a head were deleted for their age, which happens in the same transaction.
func PrunedEvent(now time.Time, to Head) Event {
	return Event{Time: now, Kind: Pruned, Actor: "gateway", Detail: prunedDetail + strconv.FormatInt(to.Seq, 10)}
}

const prunedDetail = "up to row "

// prunedUpTo reads what PrunedEvent wrote; 0 is no row.
func prunedUpTo(detail string) int64 {
	number, ok := strings.CutPrefix(detail, prunedDetail)
	if !ok {
		return 0
	}
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return seq
}

// String is the form in which a head is noted elsewhere: SEQ:HASH.
func (h Head) String() string {
	return strconv.FormatInt(h.Seq, 10) + ":" + hex.EncodeToString(h.Hash[:])
}

// ParseHead reads what String wrote.
func ParseHead(text string) (h Head, err error) {
	seq, sum, ok := strings.Cut(text, ":")
	if h.Seq, err = strconv.ParseInt(seq, 10, 64); !ok || err != nil || h.Seq < 0 || len(sum) != 2*len(h.Hash) {
		return Head{}, fmt.Errorf("%q is not SEQ:HASH, a row's number and 64 hexadecimal digits", text)
	}
	if _, err := hex.Decode(h.Hash[:], []byte(sum)); err != nil {
		return Head{}, fmt.Errorf("%q is not SEQ:HASH: %w", text, err)
	}
	return h, nil
}
