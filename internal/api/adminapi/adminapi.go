// Package adminapi defines the JSON bodies and answers of the routes for administrators about
// users, groups, accounts, feeds, keys, the cluster, the audit log and usage. The gateway encodes
// the answers and decodes the bodies; the command line does the opposite.
package adminapi

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/broker"
	"github.com/ruedahq/rueda/broker/local"
	"github.com/ruedahq/rueda/internal/identity/auth/keyset"
	"github.com/ruedahq/rueda/internal/identity/usage"
)

// Rights are the rights that a user or group has of its own. In the body of a request all members
// are required. A missing or misspelled member would otherwise remove a limit or the networks.
type Rights struct {
	Scopes       []string             `json:"scopes"`
	Entitlements []broker.Entitlement `json:"entitlements"`
	Limits       *broker.Limits       `json:"limits"`
	Networks     []string             `json:"networks"`
}

// NewRights returns r for an answer, with empty lists instead of nil ones and with times in UTC.
func NewRights(r local.Rights) Rights {
	x := Rights{Scopes: slices.Clone(r.Scopes), Entitlements: slices.Clone(r.Entitlements), Limits: &r.Limits, Networks: []string{}}
	if x.Scopes == nil {
		x.Scopes = []string{}
	}
	if x.Entitlements == nil {
		x.Entitlements = []broker.Entitlement{}
	}
	for i := range x.Entitlements {
		e := &x.Entitlements[i]
		e.From, e.Until = utc(e.From), utc(e.Until)
	}
	for _, p := range r.Networks {
		x.Networks = append(x.Networks, p.String())
	}
	return x
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC()
}

// Local returns the rights in the form of package local. The error names a missing member, or a
// network that cannot be parsed.
func (r *Rights) Local() (local.Rights, error) {
	for _, m := range []struct {
		name    string
		missing bool
	}{{"scopes", r.Scopes == nil}, {"entitlements", r.Entitlements == nil}, {"limits", r.Limits == nil}, {"networks", r.Networks == nil}} {
		if m.missing {
			return local.Rights{}, errors.New(m.name + ": are missing")
		}
	}
	x := local.Rights{Scopes: slices.Clone(r.Scopes), Entitlements: slices.Clone(r.Entitlements), Limits: *r.Limits}
	for _, text := range r.Networks {
		p, err := broker.ParseNetwork(text)
		if err != nil {
			return x, fmt.Errorf("networks: %w", err)
		}
		x.Networks = append(x.Networks, p)
	}
	return x, nil
}

// ErrChanged means that the current rights are not those of RightsChange.Expected.
var ErrChanged = errors.New("the rights have been changed meanwhile")

// RightsChange replaces all rights of a user or group. If Expected is not nil, the change fails
// unless the current rights equal Expected.
type RightsChange struct {
	Rights   *Rights `json:"rights"`
	Expected *Rights `json:"expected,omitempty"`
}

// Apply checks the change and returns a function that makes it. The function returns ErrChanged if
// the rights are not the expected ones, and another error if the new rights are invalid.
func (c *RightsChange) Apply() (func(*local.Rights) error, error) {
	if c.Rights == nil {
		return nil, errors.New("rights: are missing")
	}
	next, err := c.Rights.Local()
	if err != nil {
		return nil, err
	}
	var expected local.Rights
	if c.Expected != nil {
		if expected, err = c.Expected.Local(); err != nil {
			return nil, fmt.Errorf("expected: %w", err)
		}
	}
	return func(r *local.Rights) error {
		if c.Expected != nil && !reflect.DeepEqual(NewRights(*r), NewRights(expected)) {
			return ErrChanged
		}
		if err := next.Check(); err != nil {
			return fmt.Errorf("rights: %w", err)
		}
		*r = next
		return nil
	}, nil
}

// User is a user of the gateway's own user base.
type User struct {
	ID             string         `json:"id"`
	Username       string         `json:"username"`
	Status         string         `json:"status"` // active, disabled or expired
	Created        time.Time      `json:"created_at"`
	Expires        time.Time      `json:"expires_at,omitzero"`
	SecondFactor   bool           `json:"second_factor"`
	FactorRequired bool           `json:"second_factor_required"`
	FactorLocked   bool           `json:"second_factor_locked,omitempty"` // until there is a new password
	MustChange     bool           `json:"must_change_password,omitempty"` // before a login
	RecoveryCodes  *int           `json:"recovery_codes,omitempty"`       // left; nil: not asked for
	Groups         []string       `json:"groups"`
	Networks       []netip.Prefix `json:"networks"` // the user's own
	Rights         Rights         `json:"rights"`   // the user's own
	Unreadable     bool           `json:"unreadable,omitempty"`
}

// NewUser returns the user of an entry for an answer. The time now decides whether the user has
// expired. RecoveryCodes stays nil.
func NewUser(e *local.Entry, now time.Time) User {
	u := User{
		ID: e.ID, Username: e.Username, Status: "active", Created: e.Created, Expires: e.Expires,
		SecondFactor: e.SecondFactor, FactorLocked: e.FactorLocked, MustChange: e.MustChange, Groups: []string{}, Networks: e.Own.Networks, Rights: NewRights(e.Own), Unreadable: e.Unreadable,
	}
	if u.Networks == nil {
		u.Networks = []netip.Prefix{}
	}
	switch {
	case e.Disabled:
		u.Status = "disabled"
	case e.Ended(now):
		u.Status = "expired"
	}
	for _, g := range e.Groups {
		u.Groups = append(u.Groups, g.Name)
		u.FactorRequired = u.FactorRequired || g.RequiredFactor
	}
	return u
}

// Users is a page of the list of users. Next is "" on the last page.
type Users struct {
	Users []User `json:"users"`
	Next  string `json:"next_cursor,omitempty"`
}

// AddUser is the body of POST /admin/users.
type AddUser struct {
	Username   string   `json:"username"`
	Password   string   `json:"password"`
	MustChange bool     `json:"must_change_password,omitempty"` // before a login
	Rights     *Rights  `json:"rights,omitempty"`               // nil: none
	Groups     []string `json:"groups,omitempty"`
}

// Session is a login of a user.
type Session struct {
	ID          string    `json:"sid"`
	Created     time.Time `json:"created_at"`
	Used        time.Time `json:"last_used_at"` // when it last received tokens
	Address     string    `json:"address"`
	Client      string    `json:"client"`
	Connections int       `json:"connections"` // open sockets
}

// Sessions are the logins of a user.
type Sessions struct {
	Sessions []Session `json:"sessions"`
}

// Group is a group of users.
type Group struct {
	Name           string `json:"name"`
	Members        int    `json:"members"`
	FactorRequired bool   `json:"second_factor_required"`
	Rights         Rights `json:"rights"`
}

// Addressable reports whether name can be a segment of a path. A database may contain groups whose
// names cannot.
func Addressable(name string) bool {
	return name != "." && name != ".." && !strings.Contains(name, "/")
}

// NewGroup returns g in the form of an answer.
func NewGroup(g *local.Group) Group {
	return Group{Name: g.Name, Members: g.Members, FactorRequired: g.RequiredFactor, Rights: NewRights(g.Rights)}
}

// Groups is the list of groups.
type Groups struct {
	Groups []Group `json:"groups"`
}

// AddGroup is the body of POST /admin/groups.
type AddGroup struct {
	Name           string  `json:"name"`
	Rights         *Rights `json:"rights,omitempty"` // nil: none
	FactorRequired bool    `json:"second_factor_required,omitempty"`
}

// Change is the body of POST /admin/groups/{id}, and of the actions set_rights and set_password of
// POST /admin/users/{id}. It holds an action and the members that the action needs.
type Change struct {
	Action     string  `json:"action"`
	Required   *bool   `json:"required,omitempty"`             // set_second_factor
	Password   *string `json:"password,omitempty"`             // set_password
	MustChange bool    `json:"must_change_password,omitempty"` // set_password
	RightsChange
}

// Values of Change.Action.
const (
	SetRights       = "set_rights"
	SetSecondFactor = "set_second_factor"
	SetPassword     = "set_password"
)

// Removed is the answer to DELETE /admin/groups/{id}.
type Removed struct {
	Members int `json:"members"` // of the group until then
}

// Accounts are the accounts of a user.
type Accounts struct {
	Accounts []broker.Account `json:"accounts"`
}

// AddAccount is the body of POST /admin/users/{id}/accounts.
type AddAccount struct {
	Number   string `json:"number"`
	Type     string `json:"type,omitempty"`
	Currency string `json:"currency,omitempty"`
	Name     string `json:"name,omitempty"`
	Default  bool   `json:"is_default,omitempty"`
}

// Operator describes the operator whose token a request has.
type Operator struct {
	Name string `json:"name"` // "": that of the only token
	Role string `json:"role"` // read, operate or identity
}

// Feed describes a feed of the gateway and counts its events.
type Feed struct {
	Name     string            `json:"name"`
	Up       bool              `json:"up"`
	Events   uint64            `json:"events"`
	Refused  uint64            `json:"refused"`
	Failures uint64            `json:"failures"`
	Suspect  map[string]uint64 `json:"suspect"` // by kind
	Newest   time.Time         `json:"newest_at,omitzero"`
}

// Feeds is the answer to GET /admin/feeds.
type Feeds struct {
	Feeds []Feed `json:"feeds"`
}

// Cluster describes the node that answers, and what the node knows about the log and the other
// nodes.
type Cluster struct {
	Name        string        `json:"name"`
	Node        string        `json:"node"`
	Role        string        `json:"role"`      // all, sequencer or edge
	Connected   bool          `json:"connected"` // to the log
	Current     bool          `json:"current"`   // it has what the log has
	Complete    bool          `json:"complete"`  // it has all rows that it has shown
	Leads       bool          `json:"leads"`     // it is the sequencer
	Leader      string        `json:"leader"`    // holder of the lease; "": none
	Lease       float64       `json:"lease_seconds"`
	LeaseAge    float64       `json:"lease_age_seconds"` // since it was renewed
	Epoch       string        `json:"epoch"`
	Term        uint64        `json:"term"`
	Position    uint64        `json:"position"` // of its newest row
	Messages    uint64        `json:"messages"` // of the log: sequence of the newest one that it has handled
	Behind      uint64        `json:"behind_messages"`
	Lag         float64       `json:"lag_seconds"`            // its clock minus the log's clock in its newest batch
	Queued      int           `json:"queued_bytes"`           // of rows that wait for the log
	DaysMissing int           `json:"days_missing"`           // closed days that it has not copied yet
	DaysProblem string        `json:"days_problem,omitempty"` // error of the last attempt to copy one
	Waits       string        `json:"waits,omitempty"`        // why it is not ready
	Awaited     []string      `json:"awaited,omitempty"`      // what it waits for before it becomes the sequencer
	Nodes       []ClusterNode `json:"nodes"`                  // the others, by name
}

// ClusterNode describes another node by its newest report.
type ClusterNode struct {
	Name     string  `json:"name"`
	Clients  bool    `json:"clients"`  // it serves clients
	Complete bool    `json:"complete"` // it has all rows that it has shown
	Epoch    string  `json:"epoch"`
	Term     uint64  `json:"term"`
	Position uint64  `json:"position"`
	Behind   uint64  `json:"behind_rows"` // rows fewer than the node that answers
	Age      float64 `json:"age_seconds"` // of the report
}

// Key describes a key that signs access tokens now, did so before, or will do so.
type Key struct {
	ID        string    `json:"kid"`
	Algorithm string    `json:"alg,omitempty"`
	State     string    `json:"state"`
	Created   time.Time `json:"created,omitzero"`
	Since     time.Time `json:"since"`
	Until     time.Time `json:"until,omitzero"`
}

// NewKeys returns the keys in the form of an answer, with times in whole seconds. The result is
// never nil.
func NewKeys(list []keyset.Info) []Key {
	keys := []Key{}
	for _, k := range list {
		keys = append(keys, Key{
			ID: k.ID, Algorithm: k.Algorithm, State: string(k.State), Created: wholeSecond(k.Created), Since: wholeSecond(k.Since), Until: wholeSecond(k.Until),
		})
	}
	return keys
}

// NewKeyChanges returns the changes of a rotation in the form of an answer.
func NewKeyChanges(list []keyset.Change) (changes []KeyChange) {
	for _, c := range list {
		changes = append(changes, KeyChange{ID: c.ID, Algorithm: c.Algorithm, State: string(c.State), Due: wholeSecond(c.Due)})
	}
	return changes
}

func wholeSecond(t time.Time) time.Time { return utc(t).Truncate(time.Second) }

// Rotate is the body of POST /admin/keys.
type Rotate struct {
	Algorithm string `json:"alg,omitempty"`
	Now       bool   `json:"now,omitempty"`
	Revoke    string `json:"revoke,omitempty"`
}

// Keys is the list of keys. The answer to a rotation also has the changes that it has made.
type Keys struct {
	Keys    []Key       `json:"keys"`
	Changes []KeyChange `json:"changes,omitempty"`
}

// KeyChange is a change of the state of a key.
type KeyChange struct {
	ID        string    `json:"kid"`
	Algorithm string    `json:"alg,omitempty"`
	State     string    `json:"state"` // the new one
	Due       time.Time `json:"signs_at,omitzero"`
}

// AuditRow is a row of the audit log.
type AuditRow struct {
	Seq     int64     `json:"seq"`
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Actor   string    `json:"actor"`
	User    string    `json:"user,omitempty"`
	Family  string    `json:"family,omitempty"`
	Address string    `json:"address,omitempty"`
	Client  string    `json:"client,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	Hash    string    `json:"hash"`
}

// AuditRows is a page of the audit log. Last is the number of the newest row that the gateway
// looked at, even if the row did not match. The next request can continue after it.
type AuditRows struct {
	Rows []AuditRow `json:"rows"`
	Last int64      `json:"last"`
}

// UsageReport lists the usage of all users in a month.
type UsageReport struct {
	Month string      `json:"month"`
	Rows  []usage.Row `json:"rows"`
}
