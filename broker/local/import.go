package local

import (
	"context"
	"errors"
)

// Imported is a user of another system, with the password hash of that system.
type Imported struct {
	Username string
	Hash     string // in a format of package password; replaced at the first login
	Disabled bool
	Rights   Rights
	Groups   []string
}

// checkImported checks u without the database.
func (b *Base) checkImported(u *Imported) error {
	err := errors.Join(CheckNewUsername(u.Username), u.Rights.Check())
	if _, wrong := b.passwords.Known(u.Hash); wrong != nil {
		err = errors.Join(err, wrong)
	}
	return err
}

// Import adds users in one transaction, each with its audit event. problems states what is wrong
// with each invalid user, at the user's index; the other users are added. If err, an error of the
// database, is not nil, no user is added. With dryRun no user is added at all.
func (b *Base) Import(ctx context.Context, batch []Imported, dryRun bool) (problems []error, err error) {
	problems = make([]error, len(batch))
	for i := range batch {
		problems[i] = b.checkImported(&batch[i])
	}
	err = b.writeWithin(ctx, importLimit, "import users", func(c *change) error {
		for i := range batch {
			if problems[i] != nil {
				continue
			}
			err := c.imported(ctx, &batch[i])
			if errors.Is(err, ErrExists) || errors.Is(err, ErrNoGroup) {
				problems[i] = err
			} else if err != nil {
				return err
			}
		}
		if dryRun {
			return errDryRun
		}
		return nil
	})
	if errors.Is(err, errDryRun) {
		err = nil
	}
	return problems, err
}

// errDryRun rolls a successful transaction back.
var errDryRun = errors.New("nothing is to be changed")

// imported adds a user with its memberships. It checks the groups first, so that a user with an
// unknown group is not added.
func (c *change) imported(ctx context.Context, u *Imported) error {
	for _, g := range u.Groups {
		var name string
		found, err := c.one(ctx, `SELECT name FROM groups WHERE name = ?`, g, &name)
		if err != nil {
			return err
		}
		if !found {
			return noGroup(g)
		}
	}
	made, err := c.add(ctx, u.Username, u.Hash, u.Disabled, u.Rights)
	if err != nil {
		return err
	}
	for _, g := range u.Groups {
		if _, err := c.member(ctx, made.ID, g, "joins", joinGroup); err != nil {
			return err
		}
	}
	return nil
}
