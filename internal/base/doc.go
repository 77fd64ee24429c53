// Package base documents its folders, which are small helpers without a subject of
// the product. They import the standard library, modules and each other.
//
//	How is a JSON text scanned strictly?                  jsonscan/scan.go
//	How is a rate limited?                                ratelimit/ratelimit.go
//	Which figures does /metrics have?                     metrics/families.go
//	How is the address of a client found behind a proxy?  proxy/proxy.go
//	Which events does the audit log have?                 audit/audit.go
//	How is a TLS certificate reloaded?                    certificate/certificate.go
package base
