package keyset

import (
	"context"
	"errors"
)

// ErrNoDocument is returned by Store.Load if no keys are stored.
var ErrNoDocument = errors.New("no keys are stored")

// ErrConflict is returned by Store.Save if the document was replaced since it was loaded.
var ErrConflict = errors.New("the keys were changed by another process")

// Store stores the secrets of a Set as one document, which is read and replaced as a whole. The
// document is encrypted if the operator configured a key for that.
type Store interface {
	// Load returns the document and its version, or ErrNoDocument.
	Load(ctx context.Context) (document []byte, version string, err error)

	// Save replaces the document of a version; "": there must be none. It returns ErrConflict if
	// the stored version is another.
	Save(ctx context.Context, document []byte, version string) error

	// Watch calls changed after any process may have replaced the document: within 1 s on one
	// machine and 5 s over the network. It returns nil when ctx ends.
	Watch(ctx context.Context, changed func()) error
}
