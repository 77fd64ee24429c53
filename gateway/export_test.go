package gateway

import "github.com/ruedahq/rueda/internal/identity/database"

// DB returns the database of d, for tests that administer it as the command line does.
func (d *Data) DB() *database.DB { return d.db }
