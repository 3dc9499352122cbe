// A gang that takes all GPUs recovers again and again while other jobs wait for them, in its queue and in two others.

package real

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/cluster"
)

var recoveries = flag.Int("recoveries", 3, "how often a gang recovers while other jobs wait for its nodes, in each case")

func TestRanksReturnWhileOtherJobsWait(t *testing.T) {
	createQueues(t, "training", "research", "batch")
	for _, hold := range []v1alpha1.HoldPolicy{v1alpha1.HoldOnRecovery, v1alpha1.HoldAlways} {
		for _, action := range []v1alpha1.Action{v1alpha1.RestartPod, v1alpha1.RestartJob} {
			t.Run(fmt.Sprintf("%s/%s", hold, action), func(t *testing.T) { returnsOften(t, hold, action) })
		}
	}
}

func returnsOften(t *testing.T, hold v1alpha1.HoldPolicy, action v1alpha1.Action) {
	nodes := ground.Nodes.Racks * ground.Nodes.NodesPerRack
	gang := described(t, "gang", nodes, 0, inQueue("training"), func(t *Training) {
		t.Job.Spec.Hold = &v1alpha1.Hold{Policy: hold}
		t.Job.Spec.RestartPolicy = &v1alpha1.RestartPolicy{
			Rules: []v1alpha1.Rule{{
				Name: "all", Match: v1alpha1.Match{Events: []v1alpha1.EventType{v1alpha1.AnyEvent}}, Steps: []v1alpha1.Step{{Action: action}},
			}},
			Budget: &v1alpha1.Budget{MaxRestarts: new(int32(1000)), WindowSeconds: 60}, Backoff: &v1alpha1.Backoff{InitialSeconds: new(int32(0))},
		}
	})
	gang.must(gang.runs())
	if hold == v1alpha1.HoldAlways {
		gang.must(gang.AwaitJob(gang.ctx, "the gang holds its nodes", func(job *v1alpha1.TrainingJob) bool { return len(job.Status.Holds) == nodes }))
	}
	var waiting []*scenario
	for _, queue := range []string{"training", "research", "batch"} {
		other := described(t, "waits-in-"+queue, 2, 0, inQueue(queue))
		other.must(ground.Client().Create(other.ctx, other.Job))
		other.must(other.AwaitJob(other.ctx, "the job waits", func(job *v1alpha1.TrainingJob) bool { return job.Status.State != "" }))
		waiting = append(waiting, other)
	}

	before := gang.pods()
	var took []time.Duration
	for n := range *recoveries {
		began := time.Now()
		gang.must(ground.KillContainers(gang.ctx, gang.key(1+n%nodes)))
		gang.must(gang.AwaitJob(gang.ctx, fmt.Sprintf("recovery %d is over", n+1), func(job *v1alpha1.TrainingJob) bool { return recovered(job) == n+1 }))
		took = append(took, time.Since(began).Round(10*time.Millisecond))
		gang.sameNodes(before)
		for _, other := range waiting {
			for rank, pod := range other.pods() {
				if pod.Spec.NodeName != "" {
					t.Fatalf("rank %d of %s, which waits, is on node %s", rank, other.Job.Name, pod.Spec.NodeName)
				}
			}
		}
	}
	t.Logf("%d recoveries, each within %s to %s", len(took), slices.Min(took), slices.Max(took))

	gang.must(gang.Delete(gang.ctx))
	for _, other := range waiting {
		other.must(other.AwaitJob(other.ctx, "a job that has waited runs", isRunning))
	}
}

func createQueues(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		queue := &scheduling.Queue{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: scheduling.QueueSpec{Weight: 1}}
		if err := ground.Client().Create(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := client.IgnoreNotFound(ground.Client().Delete(context.WithoutCancel(t.Context()), queue)); err != nil {
				t.Error(err)
			}
		})
	}
}

// inQueue makes a training a gang of programs that do nothing and do not need each other, in a queue: the failure of one
// is no failure of the others, which would each time wait longer for the kubelet to restart them.
func inQueue(queue string) func(*Training) {
	return func(t *Training) {
		template := t.Job.Spec.Tasks[0].Template
		template.Spec.RestartPolicy = corev1.RestartPolicyNever
		template.Spec.Volumes = nil
		template.Spec.Containers = []corev1.Container{{
			Name: "main", Image: cluster.PauseImage, ImagePullPolicy: corev1.PullNever, Resources: template.Spec.Containers[0].Resources,
		}}
		t.Job.Spec.Queue = queue
		t.Job.Spec.Framework = nil
		t.Job.Spec.Tasks = []v1alpha1.Task{{Name: "worker", Replicas: int32(t.Ranks), Template: template}}
	}
}

// runs applies the job and waits until all its pods run.
func (s *scenario) runs() error {
	if err := ground.Client().Create(s.ctx, s.Job); err != nil {
		return err
	}
	return s.AwaitJob(s.ctx, "the gang runs", isRunning)
}

func isRunning(job *v1alpha1.TrainingJob) bool { return job.Status.State == v1alpha1.StateRunning }

// recovered is how many incidents there were, or -1 where one is open. Their IDs count up, and old ones are forgotten.
func recovered(job *v1alpha1.TrainingJob) int {
	highest := 0
	for _, incident := range job.Status.Incidents {
		if incident.Outcome == "" {
			return -1
		}
		highest = max(highest, int(incident.ID))
	}
	return highest
}
