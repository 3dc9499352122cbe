// Epochs: the runs of a supervised gang.

package recovery

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
)

// heardWithin is how long supervisors have to be heard by a manager that has just started: 30 s at most between two tries to connect, and
// as much again.
const heardWithin = time.Minute

// raiseEpoch begins another run of the gang, once in a decision. The open incidents that have restarted something wait for it.
func (e Engine) raiseEpoch(s *v1alpha1.TrainingJobStatus) {
	s.Epoch = e.Job.Status.Epoch + 1
	for i := range s.Incidents {
		if inc := &s.Incidents[i]; inc.Outcome == "" && incident.Restarted(inc) {
			inc.Epoch = s.Epoch
		}
	}
}

// followRestarts begins another run where a rank gets another pod: the programs of the others have met the old one, and cannot go on
// with the new one. Where no supervisor is heard by a manager that has listened for long enough, none can reach it: the kubelets restart
// the programs, and only another attempt is another run.
func (e Engine) followRestarts(s *v1alpha1.TrainingJobStatus) {
	before := &e.Job.Status
	if e.Job.Spec.Supervisor == nil || s.Epoch == 0 || gang.Finished(s) {
		return
	}
	heard := e.AnySupervisor() || e.Now.Before(e.ListensSince.Add(heardWithin))
	renewed := s.Attempt > before.Attempt && before.Attempt > 0
	gang.EachRank(e.Effective, func(r gang.Rank) {
		renewed = renewed || (heard && e.IsSupervised(r.Task) && gang.Incarnation(s, r.Task, r.Index) > gang.Incarnation(before, r.Task, r.Index))
	})
	if renewed {
		e.raiseEpoch(s)
	}
}
