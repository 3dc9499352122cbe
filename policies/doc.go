// Package policies decides. It is pure: from one gang.Observation, which carries the
// time, Decide computes the status that the job should have, and PlanFor computes
// what the world lacks to match that status. Nothing here reads a clock, talks to
// a cluster, logs, or draws a random number.
//
// Restart is data. Every rank has an incarnation, the number that its pod should
// carry; a step that restarts a rank raises the number in status, and the plan
// deletes the pods with a lower one. Planning twice, or after a crash at any
// point, therefore leads to the same end.
package policies
