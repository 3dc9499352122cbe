// MultiKueue runs jobs of one cluster in another.

package kueue

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/controllers/kueue"
	"github.com/lockstep-dev/lockstep/test/check"
)

// elsewhere has a queue of the hub dispatch to home: %[1]s is the queue, %[2]q the file of the kubeconfig of home, and %[3]d its quota.
const elsewhere = `
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueCluster
metadata: {name: home}
spec: {clusterSource: {kubeConfig: {locationType: Path, location: %[2]q}}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: MultiKueueConfig
metadata: {name: home}
spec: {clusters: [home]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: AdmissionCheck
metadata: {name: home}
spec:
  controllerName: kueue.x-k8s.io/multikueue
  parameters: {apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: home}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %[1]s}
spec:
  namespaceSelector: {}
  admissionChecksStrategy: {admissionChecks: [{name: home}]}
  resourceGroups:
  - coveredResources: [nvidia.com/gpu]
    flavors: [{name: h200, resources: [{name: nvidia.com/gpu, nominalQuota: %[3]d}]}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: %[1]s, namespace: default}
spec: {clusterQueue: %[1]s}
`

// worker is a MultiKueueCluster, whose kubeconfig is where the test says.
func worker(t *testing.T, kubeconfig string) {
	t.Helper()
	o := &unstructured.Unstructured{}
	o.SetAPIVersion(kueue.GroupVersion.String())
	o.SetKind("MultiKueueCluster")
	o.SetName("home")
	patch(t, hub, o, fmt.Sprintf(`{"spec": {"clusterSource": {"kubeConfig": {"location": %q}}}}`, kubeconfig))
}

func runsAtHome(t *testing.T, job *v1alpha1.TrainingJob) bool {
	t.Helper()
	is := &v1alpha1.TrainingJob{}
	err := home.Client().Get(t.Context(), client.ObjectKeyFromObject(job), is)
	must(t, client.IgnoreNotFound(err))
	return err == nil && is.Status.State == v1alpha1.StateRunning
}

func isGone(t *testing.T, job *v1alpha1.TrainingJob) bool {
	t.Helper()
	err := home.Client().Get(t.Context(), client.ObjectKeyFromObject(job), &v1alpha1.TrainingJob{})
	must(t, client.IgnoreNotFound(err))
	return apierrors.IsNotFound(err)
}

// A job of the hub runs at home, where it recovers. Its status comes back, with its end. One whose Workload is deactivated, or whose cluster is lost, gives its quota back,
// and runs again once it is active.
func TestMultiKueueRunsAJobElsewhere(t *testing.T) {
	makeFlavors(t, home)
	makeFlavors(t, hub)
	makeQueue(t, home, "far", quota{"h200", 4 * gpus})
	apply(t, hub, fmt.Sprintf(elsewhere, "far", home.Kubeconfig(), 4*gpus))
	job := gang("sent", "far", 3)
	job.Spec.ManagedBy = kueue.MultiKueue
	create(t, hub, job)
	awaitState(t, hub, job, v1alpha1.StateRunning)
	check.Equal(t, "pods of the hub", 0, len(pods(t, hub, job)))
	made := &batch.JobList{}
	must(t, hub.Client().List(t.Context(), made))
	check.Equal(t, "Volcano Jobs of the hub", 0, len(made.Items))
	before := nodesOf(t, home, job)
	check.Equal(t, "pods at home", 3, len(before))

	must(t, home.FailPod(t.Context(), client.ObjectKeyFromObject(&pods(t, home, job)[1]), 1))
	await(t, hub, "the hub's job says that it has recovered", func() bool {
		incidents := read(t, hub, job).Status.Incidents
		return len(incidents) == 1 && incidents[0].Outcome == v1alpha1.OutcomeRecovered
	})
	check.Equal(t, "nodes after the recovery", before, nodesOf(t, home, job))

	restart := func() {
		t.Helper()
		patch(t, hub, workload(t, hub, job), `{"spec": {"active": false}}`)
		await(t, hub, "the quota is back, and the job gone from home", func() bool {
			return !is(workload(t, hub, job), kueue.ConditionQuotaReserved) && isGone(t, job)
		})
		patch(t, hub, workload(t, hub, job), `{"spec": {"active": true}}`)
		await(t, hub, "the job runs at home again", func() bool { return is(workload(t, hub, job), kueue.ConditionAdmitted) && runsAtHome(t, job) })
	}
	restart()

	worker(t, home.Kubeconfig()+".lost")
	await(t, hub, "the quota is back, since the cluster is lost", func() bool {
		return !is(workload(t, hub, job), kueue.ConditionAdmitted)
	})
	worker(t, home.Kubeconfig())
	restart() // Kueue 0.19.2 does not converge by itself where the cluster was not nominated before it was back: its webhook refuses what it writes

	awaitState(t, hub, job, v1alpha1.StateRunning)
	var ranks []client.ObjectKey
	for _, p := range pods(t, home, job) {
		if p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil {
			ranks = append(ranks, client.ObjectKeyFromObject(&p))
		}
	}
	must(t, home.SucceedPods(t.Context(), ranks...))
	awaitState(t, hub, job, v1alpha1.StateCompleted)
	await(t, hub, "its Workload is finished", func() bool { return is(workload(t, hub, job), kueue.ConditionFinished) })
	await(t, hub, "nothing of it is left at home", func() bool { return isGone(t, job) && len(pods(t, home, job)) == 0 })
}
