// Collectives that abort: all ranks of a gang end within seconds.

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// A gang that is larger than the lists of names in its status aborts over three seconds, while its first replacements come: every rank is
// replaced by a step for pods. One rank lives on, so that its Volcano Job does too.
func TestALargeGangAborts(t *testing.T) {
	for _, replicas := range []int32{4, 40} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			s := newScenario(t, fmt.Sprintf("abort%d", replicas), 1, int(replicas)+1)
			s.run(s.trainingJob(replicas))
			before := s.pods()
			var names []string
			for i := range int(replicas) - 1 {
				names = append(names, s.pod(i).Name)
			}
			const batches = 6
			for batch := range slices.Chunk(names, (len(names)+batches-1)/batches) {
				var keys []client.ObjectKey
				for _, name := range batch {
					keys = append(keys, client.ObjectKey{Namespace: namespace, Name: name})
				}
				s.must(testCluster.FailPods(s.ctx, 1, keys...), "fail some ranks")
				time.Sleep(3 * time.Second / batches) // it aborts over three seconds
			}
			s.replaced(before, names...)
			s.untouched(before, names...)
			for _, inc := range s.job.Status.Incidents {
				for _, step := range inc.Steps {
					if step.Action != v1alpha1.RestartPod {
						t.Errorf("incident %d took the step %s", inc.ID, step.Action)
					}
				}
			}
		})
	}
}
