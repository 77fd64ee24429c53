package ldapusers

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-ldap/ldap/v3"

	"github.com/ruedahq/rueda/broker"
)

// Users reads the users of a directory.
type Users struct {
	cfg     Config
	service *pool // bound as the service account
	binds   *pool // bound as the user of the last login
	groups  []group
}

type group struct {
	dn     *ldap.DN
	rights broker.Rights
}

// Limits of search values, in bytes.
const (
	maxUsername = 128
	maxPassword = 1024
	maxID       = 64
)

// New returns Users. It reads the files but does not connect.
func New(cfg Config) (*Users, error) {
	cfg.setDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	d, err := newDialer(&cfg)
	if err != nil {
		return nil, err
	}
	u := &Users{cfg: cfg, binds: newPool(cfg.Connections, d.dial)}
	u.service = newPool(cfg.Connections, func(ctx context.Context) (*ldapConn, error) {
		l, err := d.dial(ctx)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { _ = l.raw.Close() })
		defer stop()
		if err := l.Bind(cfg.BindDN, cfg.BindPassword); err != nil {
			l.close()
			return nil, fmt.Errorf("log in as the service account: %w", err)
		}
		return l, nil
	})
	for name, rights := range cfg.Groups {
		dn, err := ldap.ParseDN(name)
		if err != nil {
			return nil, fmt.Errorf("group %q is no DN", name)
		}
		u.groups = append(u.groups, group{dn, rights})
	}
	slices.SortFunc(u.groups, func(a, b group) int { return strings.Compare(a.dn.String(), b.dn.String()) })
	return u, nil
}

// Close closes idle connections. It returns nil.
func (u *Users) Close() error {
	u.service.close()
	u.binds.close()
	return nil
}

// Check checks the login of the service account and the search base. The error wraps
// broker.ErrUnavailable if the directory does not answer.
func (u *Users) Check(ctx context.Context) error {
	_, err := u.search(ctx, 1, u.cfg.Base, ldap.ScopeBaseObject, "(objectClass=*)")
	switch {
	case ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject):
		return fmt.Errorf("look for %s: there is none, or the service account may not see it", u.cfg.Base)
	case ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials):
		return errors.New("log in as the service account: the DN or the password is wrong")
	}
	return err
}

// Authenticate implements broker.Users. For an unknown user it also binds, as an entry that cannot
// exist.
func (u *Users) Authenticate(ctx context.Context, login broker.Login) (broker.User, error) {
	name, password := login.Username, login.Password
	// In some password schemes a NUL ends the password, and the rest would be ignored.
	if password == "" || len(password) > maxPassword || strings.Contains(password, "\x00") || !isName(name, maxUsername) {
		return broker.User{}, broker.ErrNotAsked
	}
	entry, err := u.find(ctx, fill(u.cfg.Filter, markUsername, name), u.cfg.Username, func(v string) bool { return sameName(v, name) })
	unknown := errors.Is(err, broker.ErrNotFound)
	if err != nil && !unknown {
		return broker.User{}, err
	}
	dn, id := "cn=nobody of this name,"+u.cfg.Base, ""
	if !unknown {
		dn, id = entry.DN, u.idOf(entry)
	}
	err = u.bind(ctx, dn, password)
	switch {
	case errors.Is(err, broker.ErrInvalidCredentials), err == nil && unknown:
		return broker.User{ID: id}, broker.ErrInvalidCredentials
	case err != nil:
		return broker.User{}, err
	}
	user, err := u.user(ctx, entry)
	if errors.Is(err, broker.ErrDisabled) {
		return broker.User{ID: id}, broker.ErrInvalidCredentials
	}
	return user, err
}

func isName(s string, most int) bool {
	return s != "" && len(s) <= most && utf8.ValidString(s) && !strings.Contains(s, "\x00")
}

// bind checks the password of an entry.
func (u *Users) bind(ctx context.Context, dn, password string) error {
	err := u.binds.do(ctx, func(l *ldapConn) error {
		err := l.Bind(dn, password)
		if ldap.IsErrorAnyOf(err, // about one entry; may reveal more than a wrong password
			ldap.LDAPResultInvalidCredentials, ldap.LDAPResultInappropriateAuthentication, ldap.LDAPResultNoSuchObject,
			ldap.LDAPResultUnwillingToPerform, ldap.LDAPResultConstraintViolation, ldap.LDAPResultInsufficientAccessRights) {
			return broker.ErrInvalidCredentials
		}
		return err
	})
	if err != nil && !errors.Is(err, broker.ErrInvalidCredentials) && !errors.Is(err, broker.ErrUnavailable) {
		return unavailable("log in", err)
	}
	return err
}

// User implements broker.Users.
func (u *Users) User(ctx context.Context, id string) (broker.User, error) {
	entry, err := u.entry(ctx, id)
	if err != nil {
		return broker.User{}, err
	}
	return u.user(ctx, entry)
}

// entry returns the entry with an id.
func (u *Users) entry(ctx context.Context, id string) (*ldap.Entry, error) {
	value, ok := u.idValue(id)
	if !ok {
		return nil, broker.ErrNotFound
	}
	entry, err := u.find(ctx, "("+u.cfg.ID+"="+ldap.EscapeFilter(value)+")", u.cfg.ID, func(v string) bool { return v == value })
	if errors.Is(err, broker.ErrInvalidCredentials) {
		err = fmt.Errorf("%w: several entries have the id, or one has several", broker.ErrBadUser)
	}
	return entry, err
}

// objectGUID has sixteen binary bytes. Ids contain them in hexadecimal.
const objectGUID = "objectGUID"

func (u *Users) idValue(id string) (value string, ok bool) {
	if !isName(id, maxID) {
		return "", false
	}
	if strings.EqualFold(u.cfg.ID, objectGUID) {
		raw, err := hex.DecodeString(id)
		return string(raw), err == nil && id == strings.ToLower(id)
	}
	return id, true
}

// sameName says whether two names differ in the case of the letters A to Z at most.
func sameName(a, b string) bool {
	lower := func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	return strings.Map(lower, a) == strings.Map(lower, b)
}

// find returns the one entry that matches a filter, and whose only value of the attribute is
// accepted.
func (u *Users) find(ctx context.Context, filter, attribute string, meant func(string) bool) (*ldap.Entry, error) {
	entries, err := u.search(ctx, 2, u.cfg.Base, ldap.ScopeWholeSubtree, filter,
		u.cfg.Username, u.cfg.ID, u.cfg.Version, u.cfg.Expires, u.cfg.Networks, u.cfg.GroupAttribute)
	if err != nil {
		return nil, err
	}
	switch len(entries) {
	case 0:
		return nil, broker.ErrNotFound
	case 1:
	default:
		return nil, fmt.Errorf("%w: several entries match, so that none is taken", broker.ErrInvalidCredentials)
	}
	values := entries[0].GetEqualFoldAttributeValues(attribute)
	switch {
	case !slices.ContainsFunc(values, meant):
		return nil, broker.ErrNotFound
	case len(values) > 1: // each name would have wrong passwords of its own
		return nil, fmt.Errorf("%w: the entry has several values of %s, so that it is not taken", broker.ErrInvalidCredentials, attribute)
	}
	return entries[0], nil
}

// mostGroups is the maximum number of groups of a user that are read.
const mostGroups = 1000

// search returns the entries that match a filter, up to the number most.
func (u *Users) search(ctx context.Context, most int, base string, scope int, filter string, attributes ...string) ([]*ldap.Entry, error) {
	attributes = slices.DeleteFunc(attributes, func(a string) bool { return a == "" || a == NoVersion })
	if len(attributes) == 0 {
		attributes = []string{"1.1"} // no attributes (RFC 4511, section 4.5.1.8)
	}
	var entries []*ldap.Entry
	err := u.service.do(ctx, func(l *ldapConn) error {
		found, err := l.Search(&ldap.SearchRequest{
			BaseDN: base, Scope: scope, Filter: filter, Attributes: attributes,
			SizeLimit: most, EnforceSizeLimit: true,
		})
		if err == nil || ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded) {
			entries, err = found.Entries, nil
		}
		return err
	})
	var said *ldap.Error
	if errors.As(err, &said) && !errors.Is(err, broker.ErrUnavailable) {
		return nil, unavailable("search the directory", err)
	}
	return entries, err
}

// user returns the user of an entry with the rights of its groups.
func (u *Users) user(ctx context.Context, entry *ldap.Entry) (broker.User, error) {
	if u.cfg.Disabled != "" {
		found, err := u.search(ctx, 1, entry.DN, ldap.ScopeBaseObject, u.cfg.Disabled)
		switch {
		case ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject): // deleted since the search
			return broker.User{}, broker.ErrDisabled
		case err != nil:
			return broker.User{}, err
		case len(found) > 0:
			return broker.User{}, broker.ErrDisabled
		}
	}
	user := broker.User{ID: u.idOf(entry), Username: entry.GetEqualFoldAttributeValue(u.cfg.Username)}
	if err := u.readAttributes(entry, &user); err != nil {
		return broker.User{}, err
	}
	if user.Ended(time.Now()) {
		return broker.User{}, broker.ErrDisabled
	}
	var member []*ldap.DN
	if len(u.groups) > 0 {
		var err error
		if member, err = u.memberOf(ctx, entry); err != nil {
			return broker.User{}, err
		}
	}
	user.Grant(u.cfg.Rights)
	for _, g := range u.groups {
		if slices.ContainsFunc(member, g.dn.EqualFold) {
			user.Grant(g.rights)
		}
	}
	if err := user.Check(); err != nil {
		return broker.User{}, fmt.Errorf("%w: %w", broker.ErrBadUser, err)
	}
	return user, nil
}

// readAttributes reads the optional attributes of an entry.
func (u *Users) readAttributes(entry *ldap.Entry, user *broker.User) (err error) {
	for _, a := range []struct {
		name string
		read func(values []string) error
	}{
		{u.cfg.Expires, func(values []string) error { user.Expires, err = expiry(values); return err }},
		{u.cfg.Networks, func(values []string) error {
			user.Networks, err = broker.ParseNetworks(strings.Fields(strings.Join(values, " ")))
			return err
		}},
		{u.cfg.Version, func(values []string) error { user.Version, err = version(values); return err }},
	} {
		if a.name == "" || a.name == NoVersion {
			continue
		}
		if err := a.read(entry.GetEqualFoldAttributeValues(a.name)); err != nil {
			return fmt.Errorf("%w: attribute %s: %w", broker.ErrBadUser, a.name, err)
		}
	}
	return nil
}

func (u *Users) idOf(entry *ldap.Entry) string {
	raw := entry.GetEqualFoldRawAttributeValue(u.cfg.ID)
	if strings.EqualFold(u.cfg.ID, objectGUID) {
		return hex.EncodeToString(raw)
	}
	return string(raw)
}

// Groups returns the groups of a user by DN.
func (u *Users) Groups(ctx context.Context, id string) (list []broker.Membership, err error) {
	entry, err := u.entry(ctx, id)
	if err != nil {
		return nil, err
	}
	member, err := u.memberOf(ctx, entry)
	if err != nil {
		return nil, err
	}
	for _, dn := range member {
		granted := slices.ContainsFunc(u.groups, func(g group) bool { return g.dn.EqualFold(dn) })
		list = append(list, broker.Membership{Group: dn.String(), Granted: granted})
	}
	slices.SortFunc(list, func(a, b broker.Membership) int { return strings.Compare(a.Group, b.Group) })
	return list, nil
}

// memberOf returns the groups of an entry.
func (u *Users) memberOf(ctx context.Context, entry *ldap.Entry) (list []*ldap.DN, err error) {
	names := entry.GetEqualFoldAttributeValues(u.cfg.GroupAttribute)
	if u.cfg.GroupFilter != "" {
		found, err := u.search(ctx, mostGroups, u.cfg.GroupBase, ldap.ScopeWholeSubtree, fill(u.cfg.GroupFilter, markDN, entry.DN))
		if err != nil {
			return nil, err
		}
		names = nil
		for _, e := range found {
			names = append(names, e.DN)
		}
	}
	for _, name := range names {
		if dn, err := ldap.ParseDN(name); err == nil {
			list = append(list, dn)
		}
	}
	return list, nil
}
