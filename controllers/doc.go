// Package controllers holds the only writers of cluster state. Data flows one way:
// observe (observe.go) → decide (package policies) → record (record.go) → report
// (report.go) → act (act.go).
package controllers
