// Package placement says where the ranks of a job may go: which nodes of its home are good for them, and which of those they are let
// go to. It knows nothing of incidents: what these ask of a place is an Intent.
package placement

import (
	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
)

// View is a gang with the places that a status records for it.
type View struct {
	*gang.Gang
	s *v1alpha1.TrainingJobStatus
}

// ViewOf returns the view of a gang by a status.
func ViewOf(g *gang.Gang, s *v1alpha1.TrainingJobStatus) View { return View{g, s} }
