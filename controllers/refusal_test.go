package controllers

import (
	"errors"
	"testing"

	"github.com/lockstep-dev/lockstep/test/check"
)

func TestARefusalSaysWhatToDo(t *testing.T) {
	for said, want := range map[string]string{
		`admission webhook "validatejob.volcano.sh" denied the request: spec.task[0].template.spec.containers[0].image: Required value;`: "the Volcano Job is refused: spec.tasks[0].template.spec.containers[0].image: Required value. A template cannot be changed: delete the TrainingJob, and create it again",
		`spec.task[0].template.spec.containers[0].env[7]: Duplicate value: {"name":"LOCKSTEP_JOB"}`:                                      `the Volcano Job is refused: spec.tasks[0].template.spec.containers[0].env[7]: Duplicate value: {"name":"LOCKSTEP_JOB"}. Lockstep sets the variables LOCKSTEP_* itself: delete the TrainingJob, and create it again without them`,
		"unable to find job queue": "the Volcano Job is refused: unable to find job queue",
	} {
		check.Equal(t, said, want, refusal(errors.New(said)))
	}
}
