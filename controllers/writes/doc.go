// Package writes is how controllers write to a cluster: side by side, by patches that test what they rest on, and with what this
// process wrote last in the place of what its cache has yet to show.
package writes
