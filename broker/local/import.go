package local

import (
	"context"
	"errors"
)

// Imported is a user of another system, with the hash that system made of the password.
type Imported struct {
	Username string
	Hash     string // one of those that package password checks; replaced at the first login
	Disabled bool
	Rights   Rights
	Groups   []string
}

// check finds what is wrong with u before a database is asked.
func (b *Base) checkImported(u *Imported) error {
	err := errors.Join(checkUsername(u.Username), u.Rights.check())
	if _, wrong := b.passwords.Known(u.Hash); wrong != nil {
		err = errors.Join(err, wrong)
	}
	return err
}

// Import adds users in one transaction, each with its event of the audit log. What is wrong with one, in the place of
// problems that the user has in batch, leaves that one out; err is of the database alone, and nobody is added then.
// With dryRun nobody is added at all.
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

// errDryRun gives a transaction up that did what it should.
var errDryRun = errors.New("nothing is to be changed")

// imported adds one user and its memberships. Groups are looked for first, so that a user whose group is missing is not there.
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
