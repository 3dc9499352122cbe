// Package controllers reconciles TrainingJobs and sweeps holds; package fleet reconciles the health of nodes. Data flows one way:
// observe (observe.go) → decide (package policies) → record (record.go) → report (report.go) → act (act.go).
package controllers
