// Package audit checks what a manager has done by the audit log of the API server alone. It imports nothing of the manager, and not
// even the types of its API: what it needs of an object it reads by the names in the JSON. So it can be right where the manager is wrong.
//
// It plays the log: each line that changed an object changes the same object of a world of its own, and each rule looks at the world
// after each line. A rule says what ARCHITECTURE.md promises; README.md lists them.
package audit
