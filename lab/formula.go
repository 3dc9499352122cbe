package lab

import (
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// ExpectedETTR is the expected ETTR of a job of which every failure stops all of it, and costs the same time: failures per second of
// the whole job, the time from a failure until it trains again, the checkpoint interval, and the time that a checkpoint takes. It
// is E[ETTR] of Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research Clusters", arXiv 2410.21680, and
// holds while failures are rare.
func ExpectedETTR(failures float64, restart, interval, write time.Duration) float64 {
	return (1 - failures*(restart+interval/2).Seconds()) / (1 + write.Seconds()/interval.Seconds())
}

// WholeJobRestarts is a job under a policy that restarts all of it with every failure, without a limit and without supervisors: what
// most systems do.
func WholeJobRestarts(job *v1alpha1.TrainingJob) *v1alpha1.TrainingJob {
	job = job.DeepCopy()
	job.Spec.Supervisor = nil
	job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{
		Rules: []v1alpha1.Rule{{
			Name: "all", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}},
			Steps: []v1alpha1.Step{{Action: v1alpha1.RestartJob}}, Charge: v1alpha1.ChargeNever,
		}},
	}
	for i := range job.Spec.Tasks {
		job.Spec.Tasks[i].RestartPolicy = nil
	}
	return job
}
