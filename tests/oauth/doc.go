// Package oauth logs in at a gateway with stock OAuth libraries of Go and Node.js. It is a separate
// module, so that they are not dependencies of the product.
package oauth
