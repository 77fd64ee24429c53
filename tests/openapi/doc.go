// Package openapi checks the OpenAPI documents with the tools that client authors use: generators of
// clients in Go and of types in TypeScript, a linter and a parser. It is a separate module, so that
// they are not dependencies of the product.
//
// The Go client is generated from the document of the gateway under test and is not kept here. It
// has tens of thousands of lines, and a kept copy could differ from the document.
package openapi
