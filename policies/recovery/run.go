// Run: one step of a job that should be running.

package recovery

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/instant"
)

// Run takes a job that should be running one step further, and returns when the next step is due. It first records what has
// changed, so that each failure is judged by where the ranks are now, then takes the steps that are due, and last uses what has
// become free for ranks that no step has brought back.
func (e Engine) Run(s *v1alpha1.TrainingJobStatus) time.Time {
	e.begin(s)
	e.NoteCompleted(s)
	gathers := e.place(s)
	returns := e.liftReturned(s) // before the failures: ranks may have somewhere to go again
	e.noteDeletedVolcanoJob(s)   // before the failures: it ends the incidents that they would join
	e.noteFailures(s)
	if gang.Finished(s) {
		return time.Time{} // the budget is used up
	}
	e.noteEndedVolcanoJob(s) // after the failures, which say more than that it has ended
	e.noteRequest(s)
	if e.closeRecovered(s) {
		e.noteFailures(s) // what is left of a pod that is back, such as a device that is degraded
	}
	if gang.Finished(s) {
		return time.Time{}
	}
	next := e.takeDueSteps(s)
	if gang.Finished(s) {
		return time.Time{}
	}
	forget(s)
	e.liftOldestExclusions(s) // after the steps: it is for ranks that have none left
	e.adoptSpares(s)
	e.useNewNodes(s)
	e.keepOutOfHolds(s)
	lifts := e.liftExclusions(s)
	e.followRestarts(s) // after all that gives ranks other pods
	e.noteProgress(s)
	return instant.Earliest(next, gathers, returns, lifts)
}
