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

// Kind is the kind of an event.
type Kind string

// Kinds of events.
const (
	Login            Kind = "login"
	LoginNewDevice   Kind = "login_new_device" // the user had logged in with other devices only
	LoginRefused     Kind = "login_refused"    // Detail: the reason in one word; User only if the user exists
	LoginThrottled   Kind = "login_throttled"  // Detail: the reason of the refusal
	PasswordExposed  Kind = "password_exposed" // a refused login with the right password; Detail: wrong_otp, second_factor_locked or address_not_allowed
	Refresh          Kind = "refresh"
	RefreshRefused   Kind = "refresh_refused"
	AdminRefused     Kind = "admin_refused"   // a wrong token of an administrator
	FeedRefused      Kind = "feed_refused"    // a wrong token of a producer; Detail: the feed
	AddressRefused   Kind = "address_refused" // a valid token, used outside of the user's networks
	AdminRead        Kind = "admin_read"      // an administrator has looked at something; Detail: what
	Reuse            Kind = "reuse"           // a used refresh token was presented late: the family is revoked
	Logout           Kind = "logout"          // by a client with a token of the family
	SessionEnded     Kind = "session_ended"   // one family, by its user, an administrator or the gateway; Detail: why
	UserEnded        Kind = "user_ended"      // all families of a user
	UserAdded        Kind = "user_added"
	UserChanged      Kind = "user_changed"      // Detail: password, disabled, enabled, second_factor, ...
	GrantChanged     Kind = "grant_changed"     // scopes, entitlements, groups or limits; Detail: which
	AccessDenied     Kind = "access_denied"     // Detail: channel, market and reason
	KeyChanged       Kind = "key_changed"       // Detail: published, signing, verify_only, deleted or revoked, and the key id
	SettingChanged   Kind = "setting_changed"   // of a running gateway, by an administrator; Detail: which
	ConnectionClosed Kind = "connection_closed" // of the stream, by an administrator; Detail: which
	Certificate      Kind = "certificate"       // a TLS certificate was loaded; Detail: its expiry
	Started          Kind = "started"           // a gateway has started; Detail: its version
	ChainBroken      Kind = "chain_broken"      // rows were removed or changed under a running gateway; Detail: which
	Restored         Kind = "restored"          // a backup was restored; Detail: its time
	Pruned           Kind = "pruned"            // rows before this one were deleted for their age; Detail: the last of them
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{
		Login, LoginNewDevice, LoginRefused, LoginThrottled, PasswordExposed, Refresh, RefreshRefused, AddressRefused, AdminRefused, FeedRefused, AdminRead, Reuse, Logout, SessionEnded, UserEnded, UserAdded,
		UserChanged, GrantChanged, AccessDenied, KeyChanged, SettingChanged, ConnectionClosed, Certificate, Started, Restored, ChainBroken, Pruned,
	}
}

// Event is an entry of the audit log. No field contains secrets, or usernames that do not exist,
// because people type passwords there.
type Event struct {
	Time    time.Time
	Kind    Kind
	Actor   string // client, user, administrator, command line or gateway
	User    string // id of the affected user; "": none
	Family  string // token family; "": none
	Address string // of the client; "": none
	Client  string // its User-Agent; "": none
	Detail  string // one short line
}

// Hash is the hash of a row in the chain.
type Hash [sha256.Size]byte

// Row is an event with its position in the log.
type Row struct {
	Seq  int64 // 1, 2, 3, ... without gaps
	Hash Hash  // of this row and all rows before it
	Event
}

// Chain computes and checks hashes. The zero Chain has an empty key: it detects accidents, but not
// forgeries.
type Chain struct {
	key []byte
}

// NewChain returns a chain with a secret key, which must be stored apart from the rows.
func NewChain(key []byte) Chain { return Chain{key: append([]byte(nil), key...)} }

// Link returns the hash of event e at seq. before is the hash of the previous row, or zero for the
// first row. Times are rounded to microseconds, as databases store them.
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

// Next returns the row of e after head.
func (c Chain) Next(head Head, e Event) Row {
	seq := head.Seq + 1
	return Row{Seq: seq, Hash: c.Link(head.Hash, seq, &e), Event: e}
}

// Head returns the head of a log that ends with this row.
func (r Row) Head() Head { return Head{Seq: r.Seq, Hash: r.Hash} }

// ErrBroken is wrapped by all errors of Verify about a changed log.
var ErrBroken = errors.New("audit log is broken")

// Head is the sequence number and hash of the newest row. A copy stored elsewhere proves that no
// rows were removed from the end.
type Head struct {
	Seq  int64
	Hash Hash
}

// Export is the progress of sending the log to a receiver outside.
type Export struct {
	Name   string    // of the receiver: syslog or webhook
	Sent   Head      // the newest row that was sent; the zero Head: none
	At     time.Time // when Sent was stored; the zero Time: never
	Holder string    // the process that sends, or sent last
	Until  time.Time // the holder is the only one that sends until then, unless it continues
}

// Verify checks rows, beginning with the oldest stored one, and returns the head. before is the
// hash of its predecessor: zero if the oldest is row 1, otherwise as stored when older rows were
// pruned. A later row must then record the pruning, because an attacker who removes rows could also
// store a hash. The error names the first row that does not match.
func (c Chain) Verify(before Head, rows iter.Seq2[Row, error]) (Head, error) {
	head := before
	pruned := int64(0) // last row that the log records as pruned
	for row, err := range rows {
		if err != nil {
			return head, err
		}
		if row.Seq != head.Seq+1 {
			return head, fmt.Errorf("%w: row %d follows row %d: the rows between them are missing", ErrBroken, row.Seq, head.Seq)
		}
		link := c.Link(head.Hash, row.Seq, &row.Event)
		if !hmac.Equal(row.Hash[:], link[:]) {
			return head, fmt.Errorf("%w: row %d of %s was changed", ErrBroken, row.Seq, row.Time.UTC().Format(time.RFC3339))
		}
		if row.Kind == Pruned {
			pruned = max(pruned, prunedUpTo(row.Detail))
		}
		head = row.Head()
	}
	if pruned < before.Seq {
		return head, fmt.Errorf("%w: the rows up to row %d are missing, and no row records that they were pruned", ErrBroken, before.Seq)
	}
	return head, nil
}

// PrunedEvent returns the event that rows up to a head were deleted for their age, in the same
// transaction.
func PrunedEvent(now time.Time, to Head) Event {
	return Event{Time: now, Kind: Pruned, Actor: "gateway", Detail: prunedDetail + strconv.FormatInt(to.Seq, 10)}
}

const prunedDetail = "up to row "

// prunedUpTo parses a PrunedEvent; 0: none.
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

// String returns the head as SEQ:HASH.
func (h Head) String() string {
	return strconv.FormatInt(h.Seq, 10) + ":" + hex.EncodeToString(h.Hash[:])
}

// ParseHead parses the result of String.
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
