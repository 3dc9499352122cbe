// Package recovery changes the status of a job for its incidents: it opens and closes them, takes the steps of their rules, and
// gives ranks new lives. What it decides on is read by package incident.
package recovery

import "github.com/lockstep-dev/lockstep/policies/incident"

// Engine takes a job from one status to the next.
type Engine struct{ *incident.View }
