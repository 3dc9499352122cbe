// Package recovery changes the status of a job: it begins attempts, records placements, opens and closes incidents, takes their
// steps, restarts ranks, lifts exclusions, and completes, fails or suspends the job. What it decides on is read by package
// incident.
package recovery

import "github.com/lockstep-dev/lockstep/policies/incident"

// Engine takes a job from one status to the next.
type Engine struct{ *incident.View }
