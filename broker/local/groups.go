package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ruedahq/rueda/internal/base/audit"
)

// ErrNoGroup means that a group does not exist.
var ErrNoGroup = errors.New("no such group")

// Group is a named set of rights that its members have in addition to their own.
type Group struct {
	Name string
	Rights
	RequiredFactor bool // members must have a second factor
	Members        int  // only in lists of groups
}

// AddGroup adds a group. Errors: ErrExists, broker.ErrUnavailable, or what is wrong with the group.
func (b *Base) AddGroup(ctx context.Context, name string, r Rights) error {
	return addGroup(ctx, b, name, r, false)
}

// AddFactorGroup is AddGroup for a group whose members must have a second factor. The group never
// exists without that.
func (b *Base) AddFactorGroup(ctx context.Context, name string, r Rights) error {
	return addGroup(ctx, b, name, r, true)
}

// CheckGroupName returns what is wrong with the name of a new group.
func CheckGroupName(name string) error {
	if !isWord(name) {
		return fmt.Errorf("group name %q is not one word of up to %d characters", name, maxWord)
	}
	return nil
}

func addGroup(ctx context.Context, b *Base, name string, r Rights, factor bool) error {
	if err := errors.Join(CheckGroupName(name), r.Check()); err != nil {
		return err
	}
	return b.write(ctx, "add a group", func(c *change) error {
		n, err := c.exec(ctx, `INSERT INTO groups (name, scopes, entitlements, limits, networks, required_factor, created_at) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
			name, toJSON(list(r.Scopes)), toJSON(list(r.Entitlements)), toJSON(r.Limits), toJSON(list(r.Networks)), factor, time.Now().Unix())
		if err == nil && n == 0 {
			err = fmt.Errorf("group %q %w", name, ErrExists)
		}
		detail := slices.Concat([]string{"group " + name + " added"}, r.changes(Rights{}))
		if factor {
			detail = append(detail, "second factor required")
		}
		c.log(audit.GrantChanged, "", strings.Join(detail, "; "))
		return err
	})
}

// EditGroup changes the rights of a group, as EditRights does for a user. Errors: also ErrNoGroup.
func (b *Base) EditGroup(ctx context.Context, name string, edit func(*Rights) error) (changed bool, err error) {
	err = b.write(ctx, "change a group", func(c *change) error {
		var stored storedRights
		found, err := c.one(ctx, `SELECT scopes, entitlements, limits, networks FROM groups WHERE name = ?`, name, &stored[0], &stored[1], &stored[2], &stored[3])
		if err != nil {
			return err
		}
		if !found {
			return noGroup(name)
		}
		changed, err = c.edit(ctx, edit, audit.GrantChanged, "", "group "+name+": ", stored,
			`UPDATE groups SET scopes = ?, entitlements = ?, limits = ?, networks = ? WHERE name = ?`, name)
		return err
	})
	return changed && err == nil, err
}

// RequireFactor sets whether the members of a group must have a second factor, and reports whether
// that changed anything. Logins of members without one end. They can only enrol one. Errors:
// ErrNoGroup, broker.ErrUnavailable.
func (b *Base) RequireFactor(ctx context.Context, group string, required bool) (changed bool, err error) {
	err = b.write(ctx, "change a group", func(c *change) error {
		found, err := c.one(ctx, `SELECT name FROM groups WHERE name = ?`, group, new(string))
		if err != nil {
			return err
		}
		if !found {
			return noGroup(group)
		}
		n, err := c.exec(ctx, `UPDATE groups SET required_factor = ? WHERE name = ? AND required_factor <> ?`, required, group, required)
		if changed = n > 0; changed {
			detail := "second factor required"
			if !required {
				detail = "second factor not required"
			}
			c.log(audit.GrantChanged, "", "group "+group+": "+detail)
		}
		return err
	})
	return changed && err == nil, err
}

// RemoveGroup removes a group, and returns the number of its members.
func (b *Base) RemoveGroup(ctx context.Context, name string) (members int, err error) {
	err = b.write(ctx, "remove a group", func(c *change) error {
		left, err := c.exec(ctx, `DELETE FROM user_groups WHERE group_name = ?`, name)
		if err != nil {
			return err
		}
		n, err := c.exec(ctx, `DELETE FROM groups WHERE name = ?`, name)
		if err == nil && n == 0 {
			err = noGroup(name)
		}
		members = int(left)
		c.log(audit.GrantChanged, "", fmt.Sprintf("group %s removed, %d were in it", name, left))
		return err
	})
	return members, err
}

// Groups returns all groups, ordered by name.
func (b *Base) Groups(ctx context.Context) ([]Group, error) {
	ctx, cancel := b.sql.limit(ctx, askLimit)
	defer cancel()
	rows, err := b.reader.QueryContext(ctx, b.sql.rebind(`
		SELECT name, scopes, entitlements, limits, networks, required_factor, (SELECT COUNT(*) FROM user_groups m WHERE m.group_name = g.name)
		FROM groups g`))
	if err != nil {
		return nil, unavailable("list groups", err)
	}
	all, err := scanAll(rows, func() (g Group, err error) {
		var stored storedRights
		if err = rows.Scan(&g.Name, &stored[0], &stored[1], &stored[2], &stored[3], &g.RequiredFactor, &g.Members); err == nil {
			err = g.decode(stored)
		}
		return g, err
	})
	if err != nil {
		return nil, unavailable("list groups", err)
	}
	slices.SortFunc(all, func(x, y Group) int { return strings.Compare(x.Name, y.Name) })
	return all, nil
}

// Join adds a user to a group and reports whether that changed anything. Errors: broker.ErrNotFound
// for the user, ErrNoGroup, broker.ErrUnavailable.
func (b *Base) Join(ctx context.Context, username, group string) (changed bool, err error) {
	return b.member(ctx, username, group, "joins", joinGroup)
}

// Leave removes a user from a group and reports whether that changed anything. Errors as for Join.
func (b *Base) Leave(ctx context.Context, username, group string) (changed bool, err error) {
	return b.member(ctx, username, group, "leaves", `DELETE FROM user_groups WHERE user_id = ? AND group_name = ?`)
}

func (b *Base) member(ctx context.Context, username, group, verb, query string) (changed bool, err error) {
	err = b.write(ctx, "change a group's members", func(c *change) error {
		id, err := c.userID(ctx, username)
		if err != nil {
			return err
		}
		changed, err = c.member(ctx, id, group, verb, query)
		return err
	})
	return changed && err == nil, err
}

func (c *change) member(ctx context.Context, id, group, verb, query string) (bool, error) {
	var name string
	found, err := c.one(ctx, `SELECT name FROM groups WHERE name = ?`, group, &name)
	if err != nil {
		return false, err
	}
	if !found {
		return false, noGroup(group)
	}
	n, err := c.exec(ctx, query, id, group)
	if n > 0 {
		c.log(audit.GrantChanged, id, verb+" group "+group)
	}
	return n > 0, err
}

func noGroup(name string) error { return fmt.Errorf("%w: %q", ErrNoGroup, name) }

const joinGroup = `INSERT INTO user_groups (user_id, group_name) VALUES (?, ?) ON CONFLICT DO NOTHING`
