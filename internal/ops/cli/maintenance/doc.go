// Package maintenance has the commands that back up and restore a gateway.
package maintenance
