// Package oauth has stock OAuth libraries, of Go and of Node.js, log in at a gateway. It is a module of its own, so that
// they are no dependencies of the product.
package oauth
